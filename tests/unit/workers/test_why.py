"""What ``lattice doctor RUN`` says, for each state that a run and its work can be in."""

from datetime import UTC, datetime

from lattice.client import RunStanding
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.rq.results import JobStanding
from lattice.runs import ProcessInfo, RunRecord, RunStatus, WorkState
from workers.why import explain

NOW = 1_000_000
COORDINATOR = ProcessInfo(id="coordinator-1", role="coordinator", host="h", pid=7, concurrency=2)
WORKER = ProcessInfo(id="worker-1", role="worker", host="h", pid=8, member="a", concurrency=1)


def standing(status, *work, processes=(COORDINATOR, WORKER), held_until=NOW + 20_000, job="started", **more):
    owner = more.pop("owner", "coordinator-1" if status in ("running", "waiting") else None)
    run = RunRecord(id="r", team="t", task="x", status=RunStatus(status), owner=owner, **more)
    job = job if isinstance(job, JobStanding) else JobStanding(job)
    return RunStanding(run, work, held_until, NOW, tuple(processes), job)


def item(status="pending", **more):
    message = TeamMessage(id="m", from_="manager", to="t::a", content="x", status=MessageStatus(status))
    return WorkState(message=message, member="a", **more)


def says(finding):
    return finding.status, finding.says, finding.do


def of_item(*args, **more):
    return explain(standing("waiting", item(*args, **more)))[1]


def test_a_run_that_has_ended_says_how():
    (found,) = explain(standing("failed", item("failed"), error={"code": "budget_exceeded", "message": "spent"}))
    assert says(found) == ("ok", "it has ended: failed: budget_exceeded: spent", None)


def test_a_queued_run_waits_for_a_coordinator():
    (found,) = explain(standing("queued", processes=(), job="queued"))
    assert says(found) == ("wrong", "it waits for a coordinator, and none is alive", "lattice-coordinator")
    (found,) = explain(standing("queued", job=JobStanding("queued", 3)))
    assert says(found) == ("ok", "it is about to start, 3 in line before it", None)
    full = ProcessInfo(id="c", role="coordinator", host="h", pid=1, concurrency=1, busy=1)
    assert explain(standing("queued", processes=(full,), job="queued"))[0].status == "warning"


def test_a_run_that_is_not_due_or_has_no_job():
    due = JobStanding("scheduled", due=datetime(2030, 1, 31, 8, tzinfo=UTC))
    assert "2030-01-31 08:00:00 UTC" in explain(standing("queued", job=due))[0].says
    assert "--after" in explain(standing("queued", job="deferred"))[0].says
    (found,) = explain(standing("queued", job=None))
    assert (found.status, found.do) == ("wrong", "lattice cancel r")


def test_who_holds_a_run_and_until_when():
    assert "the lead is at work; coordinator-1 (pid 7 on h) holds it" in explain(standing("running"))[0].says
    assert "waits for its members" in explain(standing("waiting"))[0].says


def test_a_run_of_a_dead_coordinator_is_taken_over_if_there_is_one():
    found = explain(standing("running", owner="coordinator-9"))[0]
    assert found.status == "warning"
    assert "within 21 s" in found.says
    found = explain(standing("running", owner="coordinator-9", processes=(WORKER,)))[0]
    assert (found.status, found.do) == ("wrong", "lattice-coordinator")


def test_work_without_a_worker():
    found = explain(standing("waiting", item(), processes=(COORDINATOR,)))[1]
    assert says(found) == ("wrong", "waits for a worker of a, and none is alive", "lattice-worker --member a")
    busy = ProcessInfo(id="w", role="worker", host="h", pid=1, member="a", concurrency=1, busy=1)
    assert "every worker of a is full" in explain(standing("waiting", item(), processes=(COORDINATOR, busy)))[1].says


def test_work_that_waits_for_a_retry_or_its_turn():
    assert of_item(due_at=NOW + 9_000, retry_reason="overload: x").says == "is tried again in 9 s after overload: x"
    assert "m0 works in the same conversation" in of_item(behind="m0").says
    assert "about to be claimed" in of_item().says


def test_work_under_way_and_work_of_a_dead_worker():
    found = of_item("processing", owner="worker-1", attempts=2, lease_until=NOW + 5_000)
    assert "worker-1 (pid 8 on h) works on it, attempt 2 (lease for 5 s more" in found.says
    found = of_item("processing", owner="worker-9", attempts=1, lease_until=NOW + 5_000)
    assert (found.status, "free again in 6 s" in found.says) == ("warning", True)
    alone = standing("waiting", item("processing", owner="worker-9", lease_until=NOW), processes=(COORDINATOR,))
    assert explain(alone)[1].status == "wrong"


def test_work_that_has_ended_is_left_out():
    assert len(explain(standing("waiting", item("done"), item("pending")))) == 2
