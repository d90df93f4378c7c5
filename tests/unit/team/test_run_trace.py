import json

import pytest

from lattice import AbortController, AbortError, OptionError, create_bare_agent
from lattice.testing import ScriptedModel, turn
from tests.teams import echo, handoff, spec, team_of


class Tracer:
    def __init__(self):
        self.rows = []
        self.flushed = 0

    def on_event(self, event):
        self.rows.append(event.to_dict())

    def flush(self):
        self.flushed += 1

    def of(self, kind):
        return [row for row in self.rows if row["type"] == kind]


def make(**options):
    return team_of([turn(handoff("a")), "done"], {"a": echo("a")}, **options)


async def test_one_root_and_a_child_for_every_run_of_an_agent():
    """team:TRC-01 team:TRC-02 team:TRC-06"""
    tracer = Tracer()
    await make().prompt("go", tracer=tracer)
    root, *children = tracer.of("run_start")
    assert len(children) == 3
    assert "parent_run_id" not in root
    assert {child["parent_run_id"] for child in children} == {root["run_id"]}
    assert {row["session_id"] for row in tracer.rows} == {root["session_id"]}


async def test_the_root_says_what_runs_and_how_it_ended():
    """team:TRC-03 team:TRC-12"""
    tracer = Tracer()
    await make(runner={"max_concurrent_work_items": 2}).prompt("go", tracer=tracer)
    root = [row for row in tracer.rows if row["run_id"] == tracer.rows[0]["run_id"]]
    assert root[0]["data"] == {
        "runtime": "team",
        "team": "squad",
        "max_delegate_depth": 8,
        "max_concurrent_work_items": 2,
    }
    assert (root[1]["type"], root[1]["data"]["message"]["content"]) == ("user_message", "go")
    end = root[-1]
    assert (end["type"], end["data"]["subtype"], end["data"]["result"]) == ("result", "success", "done")
    assert end["data"]["is_error"] is False
    assert end["data"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    json.dumps(root)


async def test_agents_keep_their_own_session_and_source():
    """team:TRC-04 team:TRC-05"""
    tracer = Tracer()
    await make().prompt("go", tracer=tracer)
    _, lead, member, again = tracer.of("run_start")
    assert lead["data"]["agent_session_id"] == again["data"]["agent_session_id"]
    assert lead["data"]["agent_session_id"] != member["data"]["agent_session_id"]
    assert member["source"] == {
        "kind": "team_member",
        "name": "a",
        "team": "squad",
        "member": "a",
        "mailbox": "squad::a",
    }
    assert lead["source"]["kind"] == "root"


async def test_messages_of_the_team_stand_in_the_trace():
    """team:TRC-10 team:W-31"""
    tracer = Tracer()
    await make().prompt("go", tracer=tracer)
    assert [row["data"]["subtype"] for row in tracer.of("team_message")] == ["sent", "claimed", "done", "replied"]


async def test_rows_are_numbered_per_tracer_and_flushed():
    """team:TRC-08 team:TRC-09"""
    tracer = Tracer()
    await make().prompt("go", tracer=tracer)
    assert [row["seq"] for row in tracer.rows] == list(range(1, len(tracer.rows) + 1))
    assert tracer.flushed == 4


async def test_an_abort_is_an_error_row_and_a_result():
    """team:TRC-07"""
    tracer, controller = Tracer(), AbortController()
    controller.abort()
    with pytest.raises(AbortError):
        await make().prompt("go", tracer=tracer, signal=controller.signal)
    assert [row["type"] for row in tracer.rows] == ["run_start", "user_message", "error", "result"]
    assert tracer.rows[-1]["data"]["subtype"] == "error_abort"
    assert tracer.rows[-1]["data"]["num_turns"] == 0


async def test_a_nested_team_is_a_child_of_the_outer_root():
    """team:TRC-06"""
    tracer = Tracer()
    inner = team_of([turn(handoff("b")), "inner done"], {"b": echo("b")}, name="inner")
    await team_of([turn(handoff("inner")), "done"], {"inner": inner}, name="outer").prompt("go", tracer=tracer)
    roots = [row for row in tracer.of("run_start") if row["data"].get("runtime") == "team"]
    outer, nested = roots
    assert nested["parent_run_id"] == outer["run_id"]
    below = [row for row in tracer.of("run_start") if row.get("parent_run_id") == nested["run_id"]]
    assert len(below) == 3
    assert len({row["session_id"] for row in tracer.rows}) == 1


async def test_the_tracer_of_a_team_takes_its_runs_unless_the_query_names_another():
    """team:TRC-01"""
    own, other = Tracer(), Tracer()
    await make(tracer=own).prompt("go")
    assert len(own.of("run_start")) == 4
    await make(tracer=own).prompt("go", tracer=other)
    assert len(own.of("run_start")) == len(other.of("run_start")) == 4
    with pytest.raises(OptionError, match="on_event"):
        make(tracer=object())


async def test_draining_mailboxes_is_not_traced():
    """team:TRC-14"""
    tracer = Tracer()
    team = make(tracer=tracer)
    await team.send("manager", "a", "hello")
    await team.drain(max_rounds=1)
    assert tracer.rows == []


async def test_a_host_may_hang_a_query_below_a_run_of_its_own():
    """team:TRC-15"""
    tracer = Tracer()
    agent = create_bare_agent(model="m", model_client=ScriptedModel(["hi"]), tracer=tracer)
    await agent.prompt("go", trace_parent=("session", "parent"))
    assert {(row["session_id"], row["parent_run_id"]) for row in tracer.rows} == {("session", "parent")}


async def test_without_a_tracer_no_run_has_a_parent_that_nobody_recorded():
    """team:TRC-11 team:W-31"""
    tracer = Tracer()
    own = spec("a", echo("a"), tracer=tracer)
    await team_of([turn(handoff("a")), "done"], {"a": own}).prompt("go")
    (start,) = tracer.of("run_start")
    assert "parent_run_id" not in start
