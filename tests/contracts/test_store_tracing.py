"""Context traces of teams whose members are separate processes: one root, whoever traces, on every back end."""

import pytest
from langsmith import RunTree

from lattice.integrations.langsmith import create_langsmith_context_tracer
from lattice.testing import turn
from tests.cluster import Cluster, until
from tests.teams import echo, handoff, spec, team_of


class Tracer:
    def __init__(self):
        self.rows = []

    def on_event(self, event):
        self.rows.append(event.to_dict())

    def of(self, kind):
        return [row for row in self.rows if row["type"] == kind]

    def root(self):
        (root,) = [row for row in self.of("run_start") if "parent_run_id" not in row]
        return root


@pytest.fixture
async def cluster(backend):
    clusters = []

    def make(team):
        clusters.append(Cluster(backend, team))
        return clusters[-1]

    yield make
    for made in clusters:
        await made.close()


def traced_team(tracer, **options):
    return team_of([turn(handoff("a")), "done"], {"a": echo("a")}, tracer=tracer, **options)


async def test_one_root_and_a_child_for_every_run_of_an_agent(cluster):
    """team:TRC-01 team:TRC-02 team:TRC-03 team:TRC-05"""
    tracer = Tracer()
    await cluster(traced_team(tracer)).run("go")
    root = tracer.root()
    children = [row for row in tracer.of("run_start") if row is not root]
    assert [row["source"].get("member") for row in children] == [None, "a", None]
    assert {row["parent_run_id"] for row in children} == {root["run_id"]}
    assert {row["session_id"] for row in tracer.rows} == {root["session_id"]}
    assert root["data"]["runtime"] == "team"
    own = [row for row in tracer.rows if row["run_id"] == root["run_id"]]
    assert (own[1]["type"], own[1]["data"]["message"]["content"]) == ("user_message", "go")
    assert (own[-1]["type"], own[-1]["data"]["result"]) == ("result", "done")


async def test_messages_of_the_team_are_rows_of_the_root(cluster):
    """team:TRC-10"""
    tracer = Tracer()
    await cluster(traced_team(tracer)).run("go")
    rows = tracer.of("team_message")
    assert [row["data"]["subtype"] for row in rows] == ["sent", "claimed", "done", "replied"]
    assert {row["run_id"] for row in rows} == {tracer.root()["run_id"]}


async def test_a_nested_team_is_a_child_of_the_outer_root_in_its_session(cluster):
    """team:TRC-06"""
    tracer = Tracer()
    inner = team_of([turn(handoff("b")), "inner done"], {"b": echo("b")}, name="inner", tracer=tracer)
    await cluster(team_of([turn(handoff("inner")), "done"], {"inner": inner}, name="outer", tracer=tracer)).run("go")
    root = tracer.root()
    (nested,) = [row for row in tracer.of("run_start") if row["data"].get("runtime") == "team" and row is not root]
    assert nested["parent_run_id"] == root["run_id"]
    assert len([row for row in tracer.of("run_start") if row.get("parent_run_id") == nested["run_id"]]) == 3
    assert {row["session_id"] for row in tracer.rows} == {root["session_id"]}


async def test_langsmith_gets_one_tree_from_several_processes(cluster):
    """team:TRC-13 - each process has a tracer of its own, as worker processes do."""
    runs = {}

    class Client:
        def create_run(self, **run):
            runs[str(run["id"])] = run

        def update_run(self, **_run):
            pass

    def process_tracer():
        return create_langsmith_context_tracer(
            run_tree=lambda config: RunTree(**config, ls_client=Client()), fail_on_error=True
        )

    class EachItsOwn:
        """Stands for the tracer that each process makes of the same team."""

        def __init__(self):
            self.tracers = {}

        def on_event(self, event):
            process = event.source.get("member", "coordinator")
            self.tracers.setdefault(process, process_tracer()).on_event(event)

    inner = team_of([turn(handoff("b")), "inner done"], {"b": echo("b")}, name="inner")
    host_tracer = EachItsOwn()
    made = cluster(team_of([turn(handoff("inner")), "done"], {"inner": inner}, name="outer", tracer=host_tracer))
    inner.tracer = host_tracer
    await made.run("go")
    (root,) = [run for run in runs.values() if run.get("parent_run_id") is None]
    orders = {run["dotted_order"] for run in runs.values()}
    assert {run["trace_id"] for run in runs.values()} == {root["id"]}
    assert len(runs) == len(orders) > 12
    for run in runs.values():
        above, _, own = run["dotted_order"].rpartition(".")
        assert own.endswith(str(run["id"]))
        assert run is root or (above in orders and above.endswith(str(run["parent_run_id"])))


async def test_a_run_that_another_coordinator_goes_on_with_keeps_its_root(cluster, backend):
    """team:TRC-01"""
    tracer = Tracer()
    made = cluster(traced_team(tracer))
    await made.submit("go")
    first = await made.coordinator()
    driving = first.drive("run")

    async def waits():
        return (await made.store.get_run("run")).status == "waiting"

    await until(waits)
    await first.kill()
    await made.expire()
    await made.workers()
    outcome = await (await made.coordinator()).drive("run")
    assert outcome["status"] == "succeeded"
    assert driving.done()
    root = tracer.root()
    assert len([row for row in tracer.of("result") if row["run_id"] == root["run_id"]]) == 1
    assert {row["session_id"] for row in tracer.rows} == {root["session_id"]}


async def test_without_a_tracer_of_the_team_agents_trace_for_themselves(cluster):
    """team:TRC-11 - no run has a parent that nobody recorded."""
    tracer = Tracer()
    await cluster(team_of([turn(handoff("a")), "done"], {"a": spec("a", echo("a"), tracer=tracer)})).run("go")
    (start,) = tracer.of("run_start")
    assert "parent_run_id" not in start


async def test_a_tracer_that_fails_fails_no_run_of_the_team(cluster):
    class Broken:
        def on_event(self, event):
            raise RuntimeError("no disk")

    outcome = await cluster(traced_team(Broken())).run("go")
    assert outcome["status"] == "succeeded"
