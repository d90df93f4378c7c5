"""Finding the team: where it is looked for, and what is said when it cannot be used."""

import itertools
import sys

import pytest

from lattice.errors import AppError
from workers.apps import load_app

TEAM = """
from lattice import create_team, define_agent

def build():
    return create_team(name="{name}", lead=define_agent(name="lead", model="m", workspace=False))

team = build()
"""
_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in sys.modules[name].__file__:
            del sys.modules[name]


@pytest.fixture
def module():
    """A module name that no other test uses."""
    return f"app_under_test_{next(_numbers)}"


def write(folder, module, text):
    path = folder.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def refusal(app, folder):
    with pytest.raises(AppError) as refused:
        load_app(app, folder=folder)
    return refused.value.message


def test_team_py_of_the_folder_is_the_default(folder):
    write(folder, "team", TEAM.format(name="here"))
    loaded = load_app(None, folder=folder)
    assert (loaded.team.name, loaded.app) == ("here", "team:team")


def test_a_named_app_beats_team_py_and_may_lie_in_a_package(folder, module):
    write(folder, "team", "raise RuntimeError('not asked for')")
    write(folder, f"{module}.inner", TEAM.format(name="named"))
    assert load_app(f"{module}.inner:team", folder=folder).team.name == "named"


def test_a_function_that_returns_a_team_will_do(folder, module):
    write(folder, module, TEAM.format(name="built"))
    assert load_app(f"{module}:build", folder=folder).team.name == "built"


def test_nothing_found_says_where_it_looked(folder):
    said = refusal(None, folder)
    for place in ("--app", "LATTICE_APP", str(folder / "pyproject.toml"), str(folder / "team.py")):
        assert place in said


@pytest.mark.parametrize("app", ["", "team", "team:", ":team", "a-b:team", "a/b.py:team", "..:x"])
def test_what_is_no_module_and_attribute(folder, app):
    assert "module:attribute" in refusal(app, folder)


def test_a_module_that_is_not_there(folder):
    said = refusal("no_such_module_anywhere.deep:team", folder)
    assert "no module 'no_such_module_anywhere'" in said
    assert str(folder) in said
    assert "Traceback" not in said


def test_an_app_that_fails_shows_its_own_traceback(folder, module):
    write(folder, module, "def go():\n    return 1 / 0\n\nteam = go()\n")
    said = refusal(f"{module}:team", folder)
    assert "ZeroDivisionError" in said
    assert f'{module}.py", line 2, in go' in said
    assert "importlib" not in said
    assert "apps.py" not in said


@pytest.mark.parametrize(
    "line", ["import no_such_dependency", "raise SystemExit(3)", "team = (", "from lattice import nope"]
)
def test_whatever_an_import_does_is_told(folder, module, line):
    write(folder, module, line + "\n")
    said = refusal(f"{module}:team", folder)
    assert f"{module}.py" in said
    assert "app" in said


def test_an_attribute_that_is_not_there_names_those_that_are(folder, module):
    write(folder, module, TEAM.format(name="x"))
    said = refusal(f"{module}:crew", folder)
    assert "no 'crew'" in said
    assert "build" in said
    assert "team" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team = 3", "is a int, not a team"),
        ("from lattice import define_agent\nteam = define_agent(name='a', model='m')", "is a AgentSpec, not a team"),
        ("def team():\n    return None", "is a NoneType, not a team"),
        ("async def team():\n    return None", "async"),
        ("def team():\n    raise ValueError('broken')", "ValueError: broken"),
        ("def team(required):\n    pass", "required"),
    ],
)
def test_what_is_no_team(folder, module, text, expected):
    write(folder, module, text + "\n")
    assert expected in refusal(f"{module}:team", folder)
