"""Agents that are asked directly, without a team around: what of their caller's they get."""

from lattice import agent_tool, create_team, define_agent, team_member
from lattice.testing import ScriptedModel, tool_use
from tests.teams import ask, results, spec


def first_result(request):
    return results(request)[0]


def writer(target, workspace):
    """A template that writes a file outside of its own workspace and says what came of it."""
    script = [tool_use("Write", {"file_path": str(target), "content": "hello"}), first_result]
    model = ScriptedModel(script)
    return define_agent(name="writer", model="scripted", workspace=str(workspace), model_client=model)


async def asked(child, **options):
    agent = spec("lead", [ask("child"), first_result], tools=[agent_tool("child", child)]).spawn()
    return (await agent.prompt("go", **options)).result


async def test_the_child_may_write_where_its_caller_may(tmp_path):
    """team:W-36"""
    shared = tmp_path / "shared"
    shared.mkdir()
    permissions = {"workspace_grants": [{"root": str(shared), "access": ["write"]}]}
    await asked(writer(shared / "x", tmp_path / "own"), permissions=permissions)
    assert (shared / "x").read_text() == "hello"


async def test_the_child_may_not_write_where_its_caller_may_not(tmp_path):
    """team:W-36"""
    shared = tmp_path / "shared"
    shared.mkdir()
    text = await asked(writer(shared / "x", tmp_path / "own"))
    assert "denied" in text
    assert not (shared / "x").exists()


async def test_a_team_that_is_asked_directly_may_pass_them_on(tmp_path):
    """team:W-36"""
    shared = tmp_path / "shared"
    shared.mkdir()
    grant = {"root": str(shared), "access": ["write"]}
    member = team_member(name="writer", agent=writer(shared / "x", tmp_path / "own"))
    lead = spec("inner", [ask("writer", workspaceGrants=[grant]), first_result])
    team = create_team(name="squad", lead=lead, members=[member])
    await asked(team, permissions={"workspace_grants": [grant]})
    assert (shared / "x").read_text() == "hello"


async def test_a_hosts_own_agent_is_not_given_options_that_it_may_not_know():
    class Own:
        async def prompt(self, prompt, signal=None):
            return {"type": "result", "subtype": "success", "is_error": False, "result": "own"}

        query = prompt

    assert await asked(Own(), permissions={"workspace_grants": [{"root": "/srv"}]}) == "own"
