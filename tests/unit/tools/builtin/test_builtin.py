import subprocess
import sys
from pathlib import Path

import pytest

from lattice.errors import OptionError
from lattice.tools.builtin import create_agent_workspace_tools, create_builtin_tools

NAMES = ["Read", "Write", "Edit", "LS", "Glob", "Grep", "Bash"]


def test_the_tools_and_their_order(tmp_path):
    """agent:BI-01 agent:WS-08"""
    assert [made.name for made in create_builtin_tools(cwd=tmp_path)] == NAMES
    assert create_agent_workspace_tools is create_builtin_tools


def test_what_may_overlap_and_what_may_be_repeated(tmp_path):
    """agent:SCHED-11"""
    for made in create_builtin_tools(cwd=tmp_path):
        reads = made.name in {"Read", "LS", "Glob", "Grep"}
        assert bool(made.is_concurrency_safe and made.is_concurrency_safe(None)) is reads
        assert made.on_recovery == ("rerun" if reads else "unknown")


async def test_without_options_it_is_the_current_directory(tmp_path, monkeypatch, make_tools):
    """agent:BI-02"""
    monkeypatch.chdir(tmp_path)
    missing = make_tools("not/yet")
    assert list(tmp_path.iterdir()) == []
    assert await missing.ok("Write", file_path="a.txt", content="x") == "Wrote a.txt"
    assert (tmp_path / "not/yet/a.txt").read_text() == "x"
    here = create_builtin_tools()
    assert here[0].handler.args[0].cwd == Path.cwd()


async def test_reads_go_anywhere_unless_confined(tmp_path, make_tools):
    """agent:BI-04 agent:W-17"""
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside.txt").write_text("key")
    open_tools, confined = make_tools(tmp_path / "ws"), make_tools(tmp_path / "ws", confine_reads=True)
    assert await open_tools.ok("Read", file_path="../outside.txt") == "key"
    grant = {"workspace_grants": [{"root": str(tmp_path), "access": ["read"]}]}
    for name, value in (
        ("Read", {"file_path": "../outside.txt"}),
        ("LS", {"path": ".."}),
        ("Glob", {"pattern": "*", "path": ".."}),
        ("Grep", {"pattern": "key", "path": ".."}),
    ):
        assert '"allowedReadRoots"' in await confined.error(name, **value)
        assert not (await confined.outcome(name, _permissions=grant, **value)).results[0].get("is_error")


def test_schemas_are_shared_between_agents(tmp_path):
    one, two = create_builtin_tools(cwd=tmp_path), create_builtin_tools(cwd=tmp_path / "b")
    assert all(a.json_schema is b.json_schema for a, b in zip(one, two, strict=True))


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match="bash_timeout_ms"):
        create_builtin_tools(bash_timeout_ms=-5)


def test_naming_the_tools_loads_no_heavy_library():
    code = (
        "import sys, lattice.tools.builtin, lattice.tools.batch\n"
        "heavy = {'pydantic', 'jsonschema', 'regex', 'wcmatch', 'pathspec', 'tree_sitter'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
