"""Templates and workspaces as members and targets of delegation."""

import json

import pytest

from lattice import create_agent, define_agent, delegate_tool, is_agent_spec, team_member
from lattice.errors import OptionError
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import ask, collect, echo, handoff, model_of, results, said, spec, team_of


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_template_is_nothing_but_its_options(home):
    """team:SPEC-01 team:SPEC-03"""
    tools = []
    template = define_agent(name="ada", model="m", tools=tools)
    assert (template.name, template.options["model"]) == ("ada", "m")
    assert template.options["tools"] is tools
    assert list(home.iterdir()) == []
    template.spawn()
    assert (home / ".agent" / "workspaces").is_dir()


@pytest.mark.parametrize("options", [{}, {"model": ""}])
@pytest.mark.parametrize("make", [define_agent, create_agent])
def test_a_model_is_required_when_the_template_is_made(make, options):
    """team:SPEC-02"""
    with pytest.raises(OptionError, match=r"AgentOptions\.model is required"):
        make(workspace=False, **options)


async def test_a_session_may_have_a_client_of_its_own():
    """team:SPEC-04 team:SPEC-05 team:SPEC-06"""
    template = spec("a", ["from the template"])
    own = ScriptedModel(["first", "second"])
    session = template.spawn(model_client=own)
    assert [(await session.prompt("one")).result, (await session.prompt("two")).result] == ["first", "second"]
    assert [len(request.messages) for request in own.requests] == [1, 3]
    assert (await template.spawn().prompt("one")).result == "from the template"
    assert [len(request.messages) for request in model_of(template).requests] == [1]


class Counting:
    """A template of the host's own that counts its sessions."""

    def __init__(self, template):
        self.template, self.spawned = template, 0

    def spawn(self):
        self.spawned += 1
        return self.template.spawn()


async def test_a_session_of_queued_work_is_made_when_its_turn_has_come():
    """team:SPEC-12 team:SPEC-07"""
    late = Counting(spec("late", echo("late")))
    seen = []

    def early(request):
        seen.append(late.spawned)
        return "done"

    assert is_agent_spec(late)
    team = team_of([turn(handoff("early"), handoff("late")), said], {"early": early, "late": late})
    result = await team.prompt("go")
    assert seen == [0]
    assert late.spawned == 1
    assert result.result.endswith("late did work")


async def test_a_call_that_is_refused_makes_no_session():
    """team:SPEC-11"""
    target = Counting(spec("a", ["never"]))
    calls = [tool_use("a", {"mode": "observe", "task": "x"}), ask("a", task=3)]
    result = await team_of([turn(*calls), lambda request: "\n".join(results(request))], {"a": target}).prompt("go")
    assert "mode=observe is not supported" in result.result
    assert target.spawned == 0


@pytest.mark.parametrize("live", [False, True])
async def test_a_delegate_is_a_template_or_a_session(live):
    """team:SPEC-14"""
    target = spec("a", lambda request: f"seen {len(request.messages)}")
    tool = delegate_tool("a", "Work.", target.spawn() if live else target)
    lead = spec("lead", [tool_use("a", {"task": "x"}), tool_use("a", {"task": "y"}), said_last], tools=[tool])
    assert (await team_of(lead, {}).prompt("go")).result == ("seen 3" if live else "seen 1")


def said_last(request):
    return results(request)[0]


# --- workspaces ---------------------------------------------------------------------------------------------------


def test_a_workspace_is_the_agents_and_not_the_members(home):
    """team:WSP-01 team:WSP-02 team:TEAM-03 team:TEAM-16"""
    agent = create_agent(name="Backend Agent", model="m", model_client=ScriptedModel(["x"]))
    assert (home / ".agent" / "workspaces" / "Backend_Agent").is_dir()
    member = team_member(name="a", agent=agent, role="whatever", focus="x", mailbox_id="box")
    assert (member.role, member.focus, member.mailbox_id) == ("whatever", "x", "box")
    with pytest.raises(TypeError, match="workspace"):
        team_member(name="a", agent=agent, workspace="/tmp/x")


def test_two_sessions_of_one_name_share_no_directory_by_accident(home):
    """team:WSP-04 team:SPEC-15"""
    template = define_agent(name="ada", model="m", model_client=ScriptedModel(["x"]))
    assert len({template.spawn().workspace.cwd for _ in range(3)}) == 3


async def test_a_member_without_a_workspace_has_no_tools_of_files_whatever_it_is_granted(tmp_path):
    """team:WSP-05"""
    member = spec("a", ["ok"])
    team = team_of([turn(handoff("a", workspaceGrants=[{"root": str(tmp_path)}])), "done"], {"a": member})
    await team.prompt("go", permissions={"workspace_grants": [{"root": str(tmp_path)}]})
    (request,) = model_of(member).requests
    assert [name for tool in request.tools if not (name := tool["name"]).startswith("team_")] == []
    assert f"- grant 1: {tmp_path}" in said(request)


async def test_members_read_everywhere_and_write_at_home(tmp_path):
    """team:WSP-06 team:WSP-03"""
    (tmp_path / "shared.txt").write_text("what all may read")
    calls = [
        tool_use("Read", {"file_path": str(tmp_path / "shared.txt")}),
        tool_use("Write", {"file_path": str(tmp_path / "out.txt"), "content": "x"}),
        tool_use("Bash", {"command": "echo x > /dev/null"}),
        tool_use("Write", {"file_path": "report.md", "content": "x"}),
    ]
    member = create_agent(
        name="a",
        model="m",
        workspace=str(tmp_path / "home"),
        model_client=ScriptedModel([turn(*calls), "wrote report.md"]),
    )
    events = await collect(team_of([turn(handoff("a")), said], {"a": member}).query("go", stream=False))
    inner = [event.message for event in events if event.type == "agent_message" and event.source["kind"] != "root"]
    read, write, shell, own = [b["content"] for e in inner if e.type == "user" for b in e.message["content"]]
    assert "what all may read" in read
    assert (json.loads(write)["status"], json.loads(write)["tool"]) == ("permission_denied", "Write")
    assert "permission_denied" not in shell
    assert (tmp_path / "home" / "report.md").exists(), own
    assert events[-1].result.endswith("wrote report.md")
