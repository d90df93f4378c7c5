"""``lattice demo``: the bundled team on a folder, and nothing left of it."""

import signal
import subprocess

import pytest

from lattice.testing import MessagesApiServer, turn
from tests.processes.commands import ROOT, SCRIPTS, Commands, processes_with, until

pytestmark = [pytest.mark.processes, pytest.mark.redis]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "some folder 日本"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# A shop\n")
    (folder / "src" / "cart is.py").write_text("def total(x):\n    return eval(x)\n")
    (folder / "src" / "test_other.py").write_text("def test_it():\n    assert True\n")
    (folder / "logo.bin").write_bytes(bytes(range(256)) * 10)
    # Names that a careless import would find first.
    for name in ("team.py", "code_review.py", "lattice.py", "redis.py"):
        (folder / name).write_text("raise SystemExit('the code under review was run')\n")
    return folder


def test_the_report_names_what_is_in_the_folder_and_nothing_is_left(folder):
    done = subprocess.run(
        [SCRIPTS / "lattice", "demo"], cwd=folder, env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=60
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, out + err
    assert "scripted model" in out.splitlines()[0]
    for line in (
        "Files: 8; folders at the top: 1.",
        "README.md says: A shop",
        "- src/cart is.py:2 code from a string: return eval(x)",
        "Test files: 1 with 1 tests; code files: 5.",
        "- src/cart is.py",
    ):
        assert line in out.splitlines()
    assert "did not report" not in out
    for who in ("surveyor", "risk_reviewer", "test_auditor", "lead"):
        assert f" {who} " in err
    assert processes_with(str(folder)) == []
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_with_a_base_url_it_works_on_a_real_model(folder, tmp_path, monkeypatch):
    """The same rules, but behind the Messages API: the agents talk to it through the provider's own SDK."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from code_review import model as rules

    roles = {
        "You lead": rules.lead_rules,
        "You survey": rules.surveyor_rules,
        "You look": rules.reviewer_rules,
        "You audit": rules.auditor_rules,
    }

    def answer(body):
        system = str(body["system"])
        (rule,) = [rule for words, rule in roles.items() if words in system]
        said = rule(rules.prompt_of(body["messages"]), rules.calls_of(body["messages"]))
        return turn(said) if said.get("type") == "text" else said

    commands = Commands(tmp_path / "elsewhere")
    with MessagesApiServer(answer) as server:
        out = commands.run("lattice", "demo", folder, "--base-url", server.base_url, "--model", "model-x", bound=60)
    assert "scripted" not in out
    assert "- src/cart is.py:2 code from a string: return eval(x)" in out
    assert "did not report" not in out
    assert {request.body["model"] for request in server.requests} == {"model-x"}


def test_ctrl_c_ends_it_and_nothing_is_left(folder, tmp_path):
    commands = Commands(tmp_path / "elsewhere")
    try:
        demo = commands.start("lattice", "demo", folder)
        demo.says("review of")
        demo.kill(signal.SIGINT)
        demo.ends(130)
        until(lambda: processes_with(str(folder)) == [], "all processes end")
    finally:
        commands.close()


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    commands = Commands(tmp_path)
    demo = commands.start("lattice", "demo", tmp_path / "nowhere")
    demo.ends(2)
    assert "is no folder" in demo.err
