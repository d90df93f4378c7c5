"""The pages tell the truth: links lead somewhere, settings are those of the code, code blocks run."""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from lattice.testing import MessagesApiServer, text, tool_use, turn
from tests.architecture.paths import DOCS, ROOT
from workers.settings import OPTIONS, Settings, load_settings

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "bench").glob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def rows_of_settings():
    """setting -> (flag cell, variable cell, default cell) from docs/settings.md."""
    lines = (DOCS / "settings.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): row[1:4] for row in cells if len(row) == 5}


def test_every_setting_is_documented_with_its_flag_and_variables():
    rows = rows_of_settings()
    assert list(rows) == list(OPTIONS)
    for option in OPTIONS.values():
        flag, variables, _default = rows[option.name]
        assert flag == f"`{option.flag}`"
        assert variables == ", ".join(f"`{name}`" for name in option.variables)


def test_documented_defaults_are_those_of_the_code():
    defaults = Settings()
    for name, (_flag, _variables, shown) in rows_of_settings().items():
        value = getattr(defaults, name)
        if value is not None and value is not False:
            assert OPTIONS[name].read(shown.strip("`")) == value, name


def test_the_example_configuration_is_accepted(tmp_path):
    (example,) = blocks(DOCS / "settings.md", "toml")
    (tmp_path / "pyproject.toml").write_text(example)
    settings = load_settings({}, environ={}, folder=tmp_path)
    table = tomllib.loads(example)["tool"]["lattice"]
    assert settings.app == table["app"]
    assert settings.lease == OPTIONS["lease"].read(table["lease"])


def answer(body):
    """A provider for any documented program: uses the tools it is offered once, then answers."""
    names = [tool["name"] for tool in body.get("tools", [])]
    content = body["messages"][-1]["content"]
    shown = content if isinstance(content, str) else str(content)
    if body["messages"][-1]["role"] == "user" and isinstance(content, list) and content[0]["type"] == "tool_result":
        return text("answered with the tool's result")
    if "submit_output" in names:
        return turn(tool_use("submit_output", {"city": "Paris", "inhabitants": 2_100_000}))
    if "population" in names:
        return turn(tool_use("population", {"city": "Paris"}))
    handoffs = [name for name in names if name in ("researcher", "writer")]
    if handoffs and "Team runtime update" not in shown:
        calls = [tool_use(name, {"mode": "handoff", "task": f"Do your part, {name}."}) for name in handoffs]
        return turn(*calls)
    return text("the piece is delivered" if handoffs else "a member's answer")


PROGRAMS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", DOCS / "agents.md", DOCS / "teams.md", DOCS / "observability.md")
    for number, code in enumerate(blocks(page, "python"), start=1)
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_each_program_of_the_pages_runs_as_printed(code, tmp_path):
    (tmp_path / "team.py").write_text(code)
    with MessagesApiServer(answer) as server:
        environment = os.environ | {
            "ANTHROPIC_API_KEY": "a-key-for-the-local-server",
            "ANTHROPIC_BASE_URL": server.base_url,
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "team.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip(), "a program of a page shows what it did"
        assert server.requests


def test_the_readme_shows_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "python3 -m venv .venv && .venv/bin/pip install -e '.[embedded]' && .venv/bin/lattice demo" in readme
    assert ".venv/bin/pip install -e '.[dev]' && .venv/bin/pytest" in readme
