from pathlib import Path

import pytest

from lattice.errors import OptionError
from lattice.workspace.workspace import Workspace, resolve_workspace, workspace_segment


def resolved(option=None, **options):
    return resolve_workspace(option, **{"session_id": "s1", **options})


@pytest.mark.parametrize("option", [None, True, "", {}])
def test_the_default_directory(option, tmp_path):
    """agent:WS-01 agent:WS-05 team:WSP-01"""
    made = resolved(option, name="backend", home=tmp_path)
    assert made.cwd == tmp_path / ".agent/workspaces/backend"
    assert made.allowed_directories == (made.cwd,)
    assert made.bash_timeout_ms == 30_000
    assert resolved(option, home=tmp_path).cwd == tmp_path / ".agent/workspaces/agent-s1"
    assert resolved(home=Path.home()) == resolved()


def test_nothing_is_created_before_it_is_asked_for(tmp_path):
    """agent:WS-04 agent:W-23"""
    made = resolved(name="a", home=tmp_path)
    assert list(tmp_path.iterdir()) == []
    made.create()
    made.create()
    assert made.cwd.is_dir()


def test_a_directory_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot create"):
        resolved(tmp_path / "file" / "x").create()


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("Backend Agent", "Backend_Agent"),
        ("a / b", "a_b"),
        ("v1.2-x", "v1.2-x"),
        ("後端", "後端"),
        ("  ", "agent-s1"),
        (None, "agent-s1"),
    ],
)
def test_a_name_becomes_one_segment(name, segment):
    """agent:WS-02 agent:WS-03 team:WSP-02"""
    assert workspace_segment(name, "s1") == segment


def test_no_name_escapes_and_no_two_collapse():
    """agent:W-22"""
    names = ["..", ".", "!!!", "???", "/", "\\", "~", "後端", "前端", "x" * 300, "x" * 301, "../../etc"]
    segments = [workspace_segment(name, "s1") for name in names]
    assert len(set(segments)) == len(names)
    for segment in segments:
        assert segment not in {"", ".", ".."}
        assert "/" not in segment
        assert len(segment.encode()) <= 150


def test_spawned_agents_of_one_name_have_directories_of_their_own(tmp_path):
    """agent:SPEC-07"""
    one = resolved(name="a", session_id="s1", spawned=True, home=tmp_path)
    two = resolved(name="a", session_id="s2", spawned=True, home=tmp_path)
    assert one.cwd != two.cwd
    assert resolved(name="a", home=tmp_path).cwd not in {one.cwd, two.cwd}


def test_a_path_is_taken_from_the_current_directory(tmp_path, monkeypatch):
    """agent:WS-05"""
    monkeypatch.chdir(tmp_path)
    assert resolved("sub/../ws").cwd == tmp_path / "ws"
    assert resolved(Path("/x")).cwd == Path("/x")
    assert resolved("~/x").cwd == Path.home() / "x"


@pytest.mark.parametrize("spelling", ["snake", "camel"])
def test_the_object_form(tmp_path, monkeypatch, spelling):
    """agent:WS-05 agent:WS-06"""
    monkeypatch.chdir(tmp_path)
    keys = (
        ("allowed_directories", "bash_timeout_ms") if spelling == "snake" else ("allowedDirectories", "bashTimeoutMs")
    )
    made = resolved({"cwd": "ws", keys[0]: ["out", "/abs"], keys[1]: 5})
    assert made.cwd == tmp_path / "ws"
    assert made.allowed_directories == (tmp_path / "ws/out", Path("/abs"))
    assert made.bash_timeout_ms == 5
    bare = resolved({"cwd": "ws", keys[0]: [], keys[1]: 0})
    assert bare.allowed_directories == (bare.cwd,)
    assert bare.bash_timeout_ms == 30_000


def test_no_workspace():
    """agent:WS-07"""
    assert resolved(False) is None


def test_a_workspace_is_taken_as_it_is(tmp_path):
    made = Workspace(cwd=tmp_path, allowed_directories=())
    assert resolved(made) is made
    assert made.output_dir == tmp_path / ".tool-output"


@pytest.mark.parametrize(
    ("option", "named"),
    [
        (7, "7"),
        ({"root": "x"}, '"root"'),
        ({"cwd": 7}, "workspace.cwd"),
        ({"allowed_directories": "x"}, "allowed_directories"),
        ({"allowed_directories": [7]}, "allowed_directories"),
        ({"bash_timeout_ms": -1}, "-1"),
        ({"bash_timeout_ms": "5"}, "'5'"),
        ({"bash_env": {"A": 1}}, "bash_env"),
        ("a\0b", "workspace"),
    ],
)
def test_bad_options_are_named(option, named):
    with pytest.raises(OptionError) as caught:
        resolved(option)
    assert named in str(caught.value)


def test_the_prompt_names_the_directory(tmp_path):
    """agent:WS-12 agent:WS-13"""
    section = Workspace(cwd=tmp_path, allowed_directories=(tmp_path,)).prompt_section()
    assert section.splitlines()[0] == "Workspace:"
    assert f"Your private workspace is: {tmp_path}" in section
    assert "Reply in natural language with the important workspace paths" in section
    assert len(section.splitlines()) == 6
