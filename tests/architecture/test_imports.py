"""The layers hold, and the core lives without any client library."""

import subprocess
import sys
import textwrap

from tests.architecture.paths import ROOT

CLIENT_LIBRARIES = ("redis", "rq", "anthropic", "mcp", "opentelemetry", "structlog")

BLOCK_AND_RUN = """
import sys

blocked = {blocked!r}


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{{name}} is blocked in this test", name=name)
        return None


sys.meta_path.insert(0, Refuse())
{body}
"""


def run_blocked(body, blocked=CLIENT_LIBRARIES):
    """Run a program in a fresh interpreter in which the client libraries cannot be imported."""
    program = BLOCK_AND_RUN.format(blocked=set(blocked), body=textwrap.dedent(body))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_contracts_of_pyproject_hold():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_blocked_library_really_cannot_be_imported():
    out = run_blocked(
        """
        for name in sorted(blocked):
            try:
                __import__(name)
            except ModuleNotFoundError:
                print("refused", name)
        """
    )
    assert out.split("\n")[:-1] == [f"refused {name}" for name in sorted(CLIENT_LIBRARIES)]


def test_importing_lattice_loads_no_client_library():
    out = run_blocked(
        """
        import lattice

        print(sorted(name for name in sys.modules if name.partition(".")[0] in blocked))
        """,
    )
    assert out.strip() == "[]"


def test_a_team_works_in_one_process_without_any_client_library():
    """The memory mailbox and the whole handoff path need nothing but the core."""
    out = run_blocked(
        """
        import asyncio

        from lattice import create_team, define_agent, team_member
        from lattice.testing import ScriptedModel, text, tool_use, turn


        def lead(request):
            last = request.messages[-1]["content"]
            said = last if isinstance(last, str) else "".join(b.get("text", "") for b in last)
            if "runs on one screw" in said:
                return text("The lead read: it runs on one screw.")
            return turn(tool_use("backend", {"mode": "handoff", "task": "How does it run?"}))


        team = create_team(
            name="tiny",
            lead=define_agent(name="lead", model="scripted", workspace=False, model_client=ScriptedModel(lead)),
            members=[
                team_member(
                    name="backend",
                    role="engineer",
                    agent=define_agent(
                        name="backend",
                        model="scripted",
                        workspace=False,
                        model_client=ScriptedModel(lambda request: text("It runs on one screw.")),
                    ),
                )
            ],
        )
        result = asyncio.run(team.prompt("How does the machine run?"))
        print(result.subtype, "|", result.result)
        print(sorted(name for name in sys.modules if name.partition(".")[0] in blocked))
        """
    )
    assert out.splitlines() == ["success | The lead read: it runs on one screw.", "[]"]
