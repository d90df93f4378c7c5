"""The smallest example is a team that can be started."""

import sys
from pathlib import Path

from workers.apps import load_app

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "hello_team"


def test_it_is_found_in_its_folder(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "team", raising=False)
    team = load_app(None, folder=FOLDER).team
    del sys.modules["team"]
    assert [member.name for member in team.members] == ["researcher", "writer"]
