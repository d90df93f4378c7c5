"""The fault suite in its short form; ``python -m tests.chaos`` is the long one."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.chaos.storm import KINDS, Plan, Storm
from tests.processes.commands import ROOT, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(240)]


async def test_a_short_storm_breaks_no_promise(tmp_path):
    """known-bug:20"""
    plan = Plan(seconds=6, seed=7, in_flight=60, lease=1.5, latency="0-0.05", max_attempts=4)
    outcome = await Storm(plan, tmp_path).run()
    assert outcome.problems == []
    assert outcome.figures["runs succeeded"] > 0
    assert outcome.figures["processes started"] > 8


async def test_an_outage_of_redis_costs_nobody_a_second_attempt(tmp_path):
    """The server is frozen, and restarted, for longer than a lease: who lives keeps its work.

    What a worker gives back unbegun, because its places were taken while it claimed, was no attempt.
    """
    faults = {"redis_pause": 1, "redis_outage": 1}
    plan = Plan(seconds=16, seed=3, in_flight=40, lease=4, latency="0-0.3", faults=faults, poison=False)
    outcome = await Storm(plan, tmp_path).run()
    assert outcome.problems == []
    assert sum(outcome.figures["faults"][name] for name in faults if name in outcome.figures["faults"]) >= 2
    assert outcome.figures["leases lost"] == 0
    assert [log.name for log in tmp_path.glob("*.log") if "the store failed" in log.read_text()] == []


def running_in(folder):
    """The processes that have a file in the folder open, by what they are: those of the team, and the server."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [str(file.readlink()) for file in process.joinpath("fd").iterdir()]
        except OSError:
            continue  # it has just ended, or is somebody else's
        if any(file.startswith(str(folder)) for file in files):
            found[int(process.name)] = process.joinpath("comm").read_text().strip()
    return found


def fork_servers(session):
    """The processes of a session: those that a storm has started but the ones that are a session of their own."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if status.read_bytes().rsplit(b")", 1)[1].split()[3] == str(session).encode():
                found.add(int(status.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_a_storm_that_is_broken_off_leaves_no_process_behind(tmp_path, number):
    storm = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", "--in-flight", "3", "--folder", str(tmp_path)),
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    await eventually(lambda: len(running_in(tmp_path)) > len(KINDS), 60)
    storm.send_signal(number)
    code = await asyncio.wait_for(storm.wait(), 60)
    if number == signal.SIGKILL:  # nobody is left to end the server
        servers = [pid for pid, name in running_in(tmp_path).items() if name.startswith("redis-server")]
        assert len(servers) == 1
        os.kill(servers[0], signal.SIGTERM)
    else:
        assert code == 130
    await eventually(lambda: not running_in(tmp_path) and not fork_servers(storm.pid))
