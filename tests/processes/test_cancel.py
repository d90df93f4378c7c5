"""A cancel reaches everything that works for a run within a second, whatever it is doing, and leaves nothing behind."""

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from lattice.client import LatticeClient
from tests.processes.commands import Commands, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes]

APP = "tests.apps.endless:team"
REACH = 1.0
"""Seconds within which a cancel has to be felt everywhere."""


class Scene:
    """A team at work in processes, and the marks that its work leaves."""

    def __init__(self, commands, client, folder):
        self.commands, self.client, self.folder = commands, client, folder
        self.workers = {}

    async def start(self, *members):
        await self._start("lattice-coordinator")
        for member in members:
            self.workers[member] = await self._start("lattice-worker", "--member", member)

    async def _start(self, name, *args):
        return self.commands.start(name, *args, "--lease", "5s", LATTICE_TEST_MARKS=str(self.folder))

    async def begin(self, task, mark):
        run_id = await self.client.submit(task)
        await eventually((self.folder / mark).exists)
        return run_id

    def marked_at(self, mark):
        return float((self.folder / mark).read_text())

    async def cancel(self, run_id):
        """Cancel with the command; returns when it had come back."""
        done = await self.commands.done("lattice", "cancel", run_id, "--json")
        assert json.loads(done.out)["status"] == "cancelled", done.err
        return time.time()

    async def is_over(self, run_id):
        """Everything of the run has ended, and nobody holds anything."""
        run = await self.client.run(run_id)
        assert run.status == "cancelled"
        for state in await self.client.work_items(run_id):
            assert (state.message.status, state.lease_until) == ("cancelled", None)
        outcome = await self.client.result(run_id, timeout=10)
        assert (outcome["status"], outcome["error"]["code"]) == ("cancelled", "cancelled")

    async def nobody_is_busy(self):
        return not [process for process in await self.client.processes() if process.busy]


@pytest.fixture
async def scene(redis_url, tmp_path):
    commands = Commands(tmp_path, {"LATTICE_REDIS_URL": redis_url, "LATTICE_APP": APP}, warm=True)
    async with LatticeClient(team="endless", redis_url=redis_url) as client:
        yield Scene(commands, client, tmp_path)
        commands.close()


@pytest.mark.parametrize(
    ("task", "members", "mark"),
    [
        ("lead model", (), "lead-model"),
        ("lead tool", (), "lead-tool"),
        ("handoff model", ("model",), "model"),
        ("ask model", ("model",), "model"),
        ("handoff tool", ("tool",), "tool"),
        ("ask tool", ("tool",), "tool"),
        ("handoff team", ("team",), "team"),
    ],
)
async def test_work_under_way_stops(scene, task, members, mark):
    await scene.start(*members)
    run_id = await scene.begin(task, mark)
    cancelled = await scene.cancel(run_id)
    await eventually(scene.nobody_is_busy)  # heartbeats say so
    assert scene.marked_at(mark) <= cancelled + REACH
    await scene.is_over(run_id)


async def test_child_processes_are_ended(scene):
    await scene.start("shell")
    run_id = await scene.begin("handoff shell", "shell")
    shell = await eventually(lambda: (scene.folder / "shell").read_text().strip())
    await scene.cancel(run_id)
    await eventually(lambda: _is_zombie(shell), bound=REACH)
    assert not [pid for pid in _pids() if _group_of(pid) == int(shell) and not _is_zombie(pid)]
    await scene.is_over(run_id)


def _pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0", "0"]


def _is_zombie(pid):
    return _stat(pid)[0] in "ZX"


def _group_of(pid):
    return int(_stat(pid)[2])


async def test_a_run_that_nobody_has_taken_is_cancelled(scene):
    run_id = await scene.client.submit("handoff model")
    await scene.cancel(run_id)
    await scene.is_over(run_id)
    await scene.start("model")
    await eventually(lambda: scene.client.processes())
    assert not (scene.folder / "model").exists()


async def test_a_run_that_is_not_due_yet_is_cancelled(scene):
    run_id = await scene.client.submit("handoff model", in_=600)
    await scene.cancel(run_id)
    await scene.is_over(run_id)


async def test_messages_that_nobody_has_claimed_are_cancelled(scene):
    await scene.start()
    run_id = await scene.client.submit("handoff model")

    async def sent():
        return await scene.client.work_items(run_id)

    await eventually(sent)
    await scene.cancel(run_id)
    await scene.is_over(run_id)
    assert await scene.client.inbox("model") == []


async def test_work_that_waits_for_a_retry_is_cancelled(scene):
    await scene.start("retry")
    run_id = await scene.begin("handoff retry", "retry")

    async def put_off():
        return [state for state in await scene.client.work_items(run_id) if state.due_at]

    await eventually(put_off)
    await scene.cancel(run_id)
    await scene.is_over(run_id)


@pytest.mark.parametrize("deaf", ["lattice-worker", "lattice-coordinator"])
async def test_a_process_that_hears_nothing_is_fenced_off_and_stops_when_it_wakes_up(scene, deaf):
    await scene.start("model")
    task, mark = ("handoff model", "model") if deaf == "lattice-worker" else ("lead model", "lead-model")
    run_id = await scene.begin(task, mark)
    process = scene.workers["model"] if deaf == "lattice-worker" else scene.commands.started[0]
    process.kill(signal.SIGSTOP)
    await scene.cancel(run_id)
    await scene.is_over(run_id)
    stopped_at = scene.marked_at(mark)
    process.kill(signal.SIGCONT)
    woken = time.time()
    await eventually(scene.nobody_is_busy)
    assert scene.marked_at(mark) in (stopped_at, pytest.approx(woken, abs=REACH))
    await scene.is_over(run_id)
    process.kill(signal.SIGTERM)
    assert await process.ended() == 0, process.err


async def test_the_run_of_a_team_inside_is_cancelled_though_nobody_passes_it_on(scene, redis_url):
    await scene.start("team")
    run_id = await scene.begin("handoff team", "team")
    scene.workers["team"].kill(signal.SIGSTOP)
    await scene.cancel(run_id)
    await scene.is_over(run_id)
    async with LatticeClient(team="endless.team", redis_url=redis_url) as inside:
        (run,) = await inside.runs()
        assert run.status == "cancelled"
        (state,) = await inside.work_items(run.id)
        assert (state.message.status, state.lease_until) == ("cancelled", None)
    scene.workers["team"].kill(signal.SIGCONT)
    await eventually(scene.nobody_is_busy)


async def test_a_worker_goes_on_with_other_work_after_a_cancel(scene):
    await scene.start("model")
    first = await scene.begin("handoff model", "model")
    await scene.cancel(first)
    stopped_at = scene.marked_at("model")
    second = await scene.client.submit("handoff model")
    await eventually(lambda: scene.marked_at("model") > stopped_at + 0.05)
    await asyncio.gather(scene.client.cancel(second), scene.client.cancel(second))
    await scene.is_over(second)
