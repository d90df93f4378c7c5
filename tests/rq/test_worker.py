import asyncio
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rq import Queue, Retry
from rq.job import JobStatus
from rq.webhook import Webhook

from lattice.errors import RunHeldError, RunParkedError
from tests.rq.house import until

pytestmark = pytest.mark.redis


def rq_info(url):
    script = Path(sys.executable).with_name("rq")
    done = subprocess.run(
        [script, "info", "--url", url, "--raw"], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout


async def test_rq_tells_the_truth_from_queued_to_finished(house, engine, redis_url):
    house.enqueue("run-1")
    assert house.job("run-1").get_status() == JobStatus.QUEUED
    assert "queue lattice-trio 1, 0 executing, 0 finished, 0 failed" in await asyncio.to_thread(rq_info, redis_url)
    worker = await house.worker()
    await until(lambda: "run-1" in worker.running)
    assert house.job("run-1").get_status() == JobStatus.STARTED
    assert house.job("run-1").worker_name == worker.name
    info = await asyncio.to_thread(rq_info, redis_url)
    assert "queue lattice-trio 0, 1 executing, 0 finished, 0 failed" in info
    assert "busy lattice-trio. jobs: 0 finished, 0 failed" in info
    engine.answers["run-1"].set_result("succeeded")
    await until(lambda: not worker.running)
    info = await asyncio.to_thread(rq_info, redis_url)
    assert "queue lattice-trio 0, 0 executing, 1 finished, 0 failed" in info
    assert "idle lattice-trio. jobs: 1 finished, 0 failed" in info
    job = house.job("run-1")
    assert job.return_value()["result"] == "result of run-1"
    assert job.ended_at >= job.started_at
    assert 0 < house.blocking.ttl(job.key) <= 600
    assert house.blocking.keys("rq:execution*") == []


async def test_many_jobs_run_at_once_up_to_the_concurrency(house, engine):
    for n in range(30):
        house.enqueue(f"run-{n}")
    worker = await house.worker(concurrency=20)
    await until(lambda: len(worker.running) == 20)
    assert len(house.queue) == 10
    assert worker.current_execution_count == 20
    for n in range(30):
        await until(lambda: f"run-{n}" in engine.answers)
        engine.answers[f"run-{n}"].set_result("succeeded")
    await until(lambda: not worker.running)
    assert house.queue.finished_job_registry.count == 30
    assert worker.current_execution_count == 0


async def test_a_failed_run_fails_its_job_with_the_error(house, engine):
    engine.answers["run-1"] = "failed"
    house.enqueue("run-1")
    worker = await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FAILED)
    await until(lambda: not worker.running)
    assert house.queue.failed_job_registry.get_job_ids() == ["run-1"]
    assert "RunFailedError" in house.job("run-1").latest_result().exc_string
    assert house.queue.started_job_registry.count == 0


async def test_a_cancelled_run_makes_a_cancelled_job(house, engine):
    engine.answers["run-1"] = "cancelled"
    house.enqueue("run-1")
    worker = await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.CANCELED)
    await until(lambda: not worker.running)
    assert house.queue.canceled_job_registry.get_job_ids() == ["run-1"]
    assert house.queue.started_job_registry.count == 0


async def test_a_retry_runs_the_job_again(house, engine):
    engine.answers["run-1"] = RuntimeError("the network is away")
    house.enqueue("run-1", retry=Retry(max=2))
    await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FAILED)
    assert engine.driven == ["run-1"] * 3
    assert engine.again == [False, True, True]
    assert "the network is away" in house.job("run-1").latest_result().exc_string


async def test_a_held_run_is_left_to_its_holder(house, engine):
    engine.answers["run-1"] = RunHeldError()
    house.enqueue("run-1")
    worker = await house.worker()
    await until(lambda: engine.driven and not worker.running)
    assert house.job("run-1").get_status() == JobStatus.STARTED
    assert house.queue.started_job_registry.count == 0
    assert house.queue.failed_job_registry.count == 0


async def test_a_run_whose_holder_ended_it_before_rq_heard_of_this_execution_is_finished(house, engine):
    """Two coordinators adopted the job of a third: what the last one writes must not stand as started for ever."""
    drive = engine.drive

    async def held_at_first(run_id, *, again=False):
        engine.answers[run_id] = RunHeldError() if not engine.driven else "succeeded"
        return await drive(run_id, again=again)

    engine.drive = held_at_first
    house.enqueue("run-1")
    await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert house.blocking.ttl(house.job("run-1").key) > 0
    assert house.queue.started_job_registry.count == 0


async def test_a_parked_run_goes_back_to_the_front_of_the_queue(house, engine):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in engine.answers)
    await first.stop_taking()
    engine.answers["run-1"].set_exception(RunParkedError())
    house.enqueue("run-2")
    await until(lambda: not first.running)
    assert house.queue.get_job_ids()[0] == "run-1"
    assert house.job("run-1").get_status() == JobStatus.QUEUED
    engine.answers["run-1"] = "succeeded"
    await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert not any(engine.again)


async def test_an_adopted_job_moves_to_the_new_worker_and_finishes_there(house, engine):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    second = await house.worker()
    assert await second.adopt(["run-1"]) == {"run-1": "adopted"}
    assert await second.adopt(["run-1"]) == {"run-1": "running"}
    assert await second.adopt(["run-2"]) == {"run-2": "unknown"}
    assert house.job("run-1").worker_name == second.name
    assert len(house.queue.started_job_registry.get_job_and_execution_ids()) == 1
    await until(lambda: len(engine.driven) == 2)
    engine.answers["run-1"].set_result("succeeded")
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED and not second.running)
    assert house.queue.finished_job_registry.get_job_ids() == ["run-1"]


async def test_an_adopted_job_is_told_as_begun_and_ended_though_its_worker_leaves_in_that_moment(
    house, engine, monkeypatch
):
    """What a storm found: the takeover was cancelled, the job's end waited for ever, and RQ's record stayed."""
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    second = await house.worker()
    write_begun, gate = second.books.write_begun, asyncio.Event()

    async def slow(begun):
        await gate.wait()
        await write_begun(begun)

    monkeypatch.setattr(second.books, "write_begun", slow)
    adopting = asyncio.ensure_future(second.adopt(["run-1"]))
    await until(lambda: "run-1" in second.running)
    adopting.cancel()
    await asyncio.gather(adopting, return_exceptions=True)
    gate.set()
    await until(lambda: len(engine.driven) == 2)
    engine.answers["run-1"].set_result("succeeded")
    await until(lambda: not second.running)
    assert house.job("run-1").get_status() == JobStatus.FINISHED
    assert house.blocking.ttl(house.job("run-1").key) > 0


async def test_an_adopted_job_whose_adopter_dies_before_it_is_begun_can_still_be_found(house, engine):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    second = await house.worker()
    found = await second.books.adopt(["run-1"])
    assert found["run-1"].id == "run-1"
    assert house.queue.started_job_registry.count == 0
    assert await second.books.stuck_ids() == ["run-1"]


async def test_a_job_that_has_been_finished_is_not_run_again(house, engine):
    engine.answers["run-1"] = "succeeded"
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED and not first.running)
    second = await house.worker()
    assert await second.adopt(["run-1"]) == {"run-1": "ended"}
    assert engine.driven == ["run-1"]
    assert len(house.job("run-1").results()) == 1


async def test_a_job_that_rq_called_failed_is_finished_by_its_adopter(house, engine):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    house.queue.started_job_registry.cleanup(timestamp=2**40)
    assert house.job("run-1").get_status() == JobStatus.FAILED
    second = await house.worker()
    assert await second.adopt(["run-1"]) == {"run-1": "adopted"}
    engine.answers["run-1"].set_result("succeeded")
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED and not second.running)
    assert house.queue.failed_job_registry.count == 0


async def test_dependents_are_enqueued_when_their_run_has_succeeded(house, engine):
    engine.answers |= {"run-2": "succeeded"}
    house.enqueue("run-1")
    house.enqueue("run-2", depends_on=["run-1"])
    await house.worker()
    await until(lambda: "run-1" in engine.answers)
    assert house.job("run-2").get_status() == JobStatus.DEFERRED
    engine.answers["run-1"].set_result("succeeded")
    await until(lambda: house.job("run-2").get_status() == JobStatus.FINISHED)
    assert engine.driven == ["run-1", "run-2"]


async def test_webhooks_are_sent_from_a_thread(house, engine):
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    engine.answers["run-1"] = "succeeded"
    url = f"http://127.0.0.1:{server.server_port}/"
    house.enqueue("run-1", webhooks=[Webhook(url, "finished", method="POST")])
    await house.worker()
    await until(lambda: got)
    assert b'"job_id": "run-1"' in got[0]
    await asyncio.to_thread(server.shutdown)
    server.server_close()


async def test_burst_ends_when_nothing_is_queued_or_running(house, engine):
    for n in range(5):
        engine.answers[f"run-{n}"] = "succeeded"
        house.enqueue(f"run-{n}")
    worker = await house.worker(burst=True, concurrency=2)
    await asyncio.wait_for(worker.taking, 10)
    assert house.queue.finished_job_registry.count == 5


async def test_a_plain_function_runs_in_a_thread(house):
    job = house.queue.enqueue_call("os.path.basename", args=("/a/b",), job_id="plain")
    await house.worker()
    await until(lambda: job.get_status() == JobStatus.FINISHED)
    assert job.return_value() == "b"


async def test_a_job_without_an_engine_fails_and_says_what_to_start(house):
    house.enqueue("run-1")
    await house.worker(engine=False)
    await until(lambda: house.job("run-1").get_status() == JobStatus.FAILED)
    assert "lattice-coordinator" in house.job("run-1").latest_result().exc_string


async def test_a_job_that_was_deleted_while_queued_leaves_no_trace(house, engine):
    house.enqueue("run-1")
    house.blocking.delete("rq:job:run-1")
    house.enqueue("run-2")
    engine.answers["run-2"] = "succeeded"
    await house.worker()
    await until(lambda: house.job("run-2").get_status() == JobStatus.FINISHED)
    assert house.blocking.exists("rq:job:run-1", house.queue.intermediate_queue_key) == 0


async def test_work_goes_on_after_connections_were_killed(house, engine):
    worker = await house.worker()
    await until(lambda: worker.get_state() == "idle")
    for _ in range(3):
        house.blocking.client_kill_filter(_type="normal", skipme=True)
    engine.answers["run-1"] = "succeeded"
    house.enqueue("run-1")
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)


async def test_a_job_that_nobody_can_read_does_not_stop_the_queue(house, engine):
    engine.answers["run-2"] = "succeeded"
    house.enqueue("run-1")
    house.blocking.hset("rq:job:run-1", "created_at", "no time at all")
    house.enqueue("run-2")
    await house.worker()
    await until(lambda: house.job("run-2").get_status() == JobStatus.FINISHED)
    assert house.blocking.lrange(house.queue.intermediate_queue_key, 0, -1) == []


async def test_a_pickled_job_fails_instead_of_being_unpickled(house, engine):
    Queue("lattice-trio", connection=house.blocking).enqueue_call("os.getpid", job_id="pickled")
    await house.worker()
    await until(lambda: house.queue.failed_job_registry.get_job_ids() == ["pickled"])


async def test_many_jobs_that_end_at_once_cost_few_round_trips(house, engine):
    for n in range(200):
        engine.answers[f"run-{n}"] = "succeeded"
        house.enqueue(f"run-{n}")
    house.blocking.config_resetstat()
    worker = await house.worker(concurrency=100, burst=True)
    await asyncio.wait_for(worker.taking, 20)
    commands = house.blocking.info("commandstats")
    assert house.queue.finished_job_registry.count == 200
    assert sum(command["calls"] for command in commands.values()) < 200 * 26
    assert commands["cmdstat_exec"]["calls"] < 40


async def test_a_requeued_job_is_driven_again(house, engine):
    engine.answers["run-1"] = "failed"
    house.enqueue("run-1")
    worker = await house.worker()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FAILED and not worker.running)
    engine.answers["run-1"] = "succeeded"
    house.job("run-1").requeue()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert engine.again == [False, True]
    assert house.queue.failed_job_registry.count == 0
