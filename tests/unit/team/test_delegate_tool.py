import pytest

from lattice import create_bare_agent, create_memory_mailbox, create_team_runner, delegate_tool
from lattice.errors import OptionError
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import brief, collect, echo, results, said, spec


def delegate(name="worker", reply=None, **options):
    return delegate_tool(name, "Work.", spec(name, reply or echo(name)), **options)


def test_the_input_is_a_task_and_the_description_the_hosts():
    """team:DLG-01 team:DLG-04 agent:OPT-08"""
    definition = delegate()
    assert definition.kind == "agent_tool"
    assert definition.description == "Work."
    assert list(definition.json_schema["properties"]) == ["task"]
    with pytest.raises(OptionError, match=r'delegateTool\("worker"\): unknown option "x"'):
        delegate(x=1)
    with pytest.raises(OptionError, match="wait must be"):
        delegate(wait="never")


async def test_without_a_runtime_it_says_where_to_get_one():
    """team:DLG-02 agent:AT-31"""
    agent = create_bare_agent(
        model="m",
        model_client=ScriptedModel([tool_use("worker", {"task": "x"}), lambda request: results(request)[0]]),
        tools=[delegate()],
    )
    text = (await agent.prompt("go")).result
    assert 'delegateTool("worker") requires an AgentRuntime' in text
    assert "create_team_runner" in text


async def test_a_runner_has_the_work_done_and_keeps_the_mail():
    """team:DLG-05 team:DLG-06 team:RUN-01 team:RUN-02 team:RUN-19"""
    root = spec("root", [tool_use("worker", {"task": "x"}), "end"], tools=[delegate()])
    mailbox = create_memory_mailbox()
    runner = create_team_runner(root=root, mailbox=mailbox)
    events = await collect(runner.query("go", stream=False))
    assert [brief(event) for event in events][2:4] == ["sent worker", "claimed worker"]
    assert next(e for e in events if e.type == "user").tool_use_result == "worker did x"
    (report,) = mailbox.inbox("manager", "all")
    assert (report.from_, report.work_item_role, report.content) == ("worker", "upstream_report", "worker did x")
    sent = next(e for e in events if e.type == "team_message")
    assert sent.source == {"kind": "root", "name": "root", "mailbox": "manager"}
    assert runner.root is root
    assert runner.mailbox is mailbox


async def test_accepted_behaves_like_a_handoff():
    """team:DLG-03 team:HND-18"""
    root = spec("root", [tool_use("worker", {"task": "x"}), said], tools=[delegate(wait="accepted")])
    runner = create_team_runner({"root": root})
    result = await runner.prompt("go")
    assert result.result.startswith("Team runtime update:")
    assert result.result.endswith("worker did x")
    assert runner.mailbox.inbox("worker", "all")[0].status == "done"


async def test_delegates_delegate():
    """team:DLG-07"""
    middle = spec(
        "middle", [tool_use("worker", {"task": "x"}), lambda r: f"middle: {results(r)[0]}"], tools=[delegate()]
    )
    root = spec(
        "root",
        [tool_use("middle", {"task": "y"}), lambda r: results(r)[0]],
        tools=[delegate_tool("middle", "Middle.", middle)],
    )
    events = await collect(create_team_runner(root=root).query("go", stream=False))
    assert events[-1].result == "middle: worker did x"
    assert "worker:result" in [brief(event) for event in events]


def test_a_runner_needs_somebody_to_run():
    """team:RUN-01"""
    with pytest.raises(OptionError, match="requires either team or root"):
        create_team_runner()
    with pytest.raises(OptionError, match="unknown option"):
        create_team_runner(root=spec("r", ["x"]), extra=1)
    with pytest.raises(OptionError, match="positive integer"):
        create_team_runner(root=spec("r", ["x"]), max_concurrent_work_items=0)


async def test_a_failed_delegate_is_a_tool_error():
    """team:W-12"""
    root = spec(
        "root",
        [turn(tool_use("worker", {"task": "x"})), lambda r: results(r)[0]],
        tools=[delegate(reply=[ValueError("bad")])],
    )
    text = (await create_team_runner(root=root).prompt("go")).result
    assert text.startswith("Tool worker failed: Delegated work assigned to worker failed.")
