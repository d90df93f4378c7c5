"""The checker of the fault suite can fail: for each promise there is a broken script that makes it say so."""

import asyncio
import time
from contextlib import suppress

import pytest

from lattice.errors import TimeoutError as RunTimeoutError
from lattice.redis.run_store import RedisRunStore
from lattice.redis.scripts import load_scripts
from tests.chaos.apps import MEMBERS
from tests.chaos.broken import BROKEN, VARIANTS, broken_scripts
from tests.chaos.checker import PROMISES, QUIET_SECONDS, Cancel, check
from tests.chaos.faults import FAULT
from tests.chaos.matrix import story_of, team_of_processes
from tests.chaos.memory import after_retention, rq_is_done
from tests.chaos.record import read_record
from tests.processes.commands import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(180)]

AT_ONCE = 6


class BrokenStore(RedisRunStore):
    """A store whose scripts may be replaced."""

    def __init__(self, redis, team, name):
        super().__init__(redis, team)
        self._scripts = {**load_scripts(), **(broken_scripts(name) if name else {})}


async def what_is_found_broken(redis_url, folder, team, name, variant):
    """Drive a run with a variant (or, without a name, with sound scripts); the promises that were not kept."""
    environment = {"CHAOS_LATENCY": variant.slow, **({BROKEN: name} if name else {})}
    async with team_of_processes(redis_url, folder, team, environment=environment) as (processes, client, redis):
        store = BrokenStore(redis, team, name)
        run_id = await _drive(processes, client, store, folder, variant)
        cancels = {}
        if variant.cancelled:
            cancels = await _cancel(store, folder, run_id)
        story = await story_of(redis, team, folder, {run_id: 1}, cancels=cancels)
        findings = check(story)
        if not variant.never_ends:
            await eventually(
                lambda: rq_is_done(redis, team)
            )  # whoever drove the run is not killed before it could say so
            processes.close()  # who still forgets runs, forgets them by the sound scripts
            left, _ = await after_retention(redis, store, team)
            findings.expect("memory", not left, f"left: {left}")
        return findings


async def _drive(processes, client, store, folder, variant):
    role, member, fault = variant.dies or (None, None, None)
    doomed = processes.start(role, member, **{FAULT: fault}) if role else None
    for kind in (None, *MEMBERS[:3]):
        if doomed is None or kind != member:
            processes.start("worker" if kind else "coordinator", kind)
    run_id = await client.submit("run 1 plain")
    if doomed is not None:
        assert await doomed.ended(20) == -9
        processes.start(role, member)
    if variant.cancelled:
        await eventually(lambda: any(line.get("actor") == "alpha" for line in read_record(folder)))
    else:
        with suppress(RunTimeoutError):
            await client.result(run_id, timeout=3 if variant.never_ends else 30)
    return run_id


async def _cancel(store, folder, run_id):
    """Cancel, and wait until nothing more is begun for as long as it may be, and once more."""
    assert await store.cancel_run(run_id, "told to") == "cancelled"
    cancels = {run_id: Cancel(time.time())}
    seen = -1
    while seen != len(record := read_record(folder)):
        seen = len(record)
        await asyncio.sleep(QUIET_SECONDS)
    return cancels


async def each(redis_url, folder, variants):
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number, name, variant):
        team = f"variant{number}"
        async with gate:
            return await what_is_found_broken(redis_url, folder / team, team, name, variant)

    return await asyncio.gather(*(one(number, *pair) for number, pair in enumerate(variants)))


async def test_every_promise_is_seen_to_be_broken_by_a_broken_script(redis_url, tmp_path):
    found = await each(redis_url, tmp_path, list(VARIANTS.items()))
    missed = {
        name: (variant.promise, findings.problems)
        for (name, variant), findings in zip(VARIANTS.items(), found, strict=True)
        if variant.promise not in findings.broken
    }
    assert missed == {}


async def test_the_sound_scripts_break_no_promise_in_the_same_scenes(redis_url, tmp_path):
    scenes = {(v.dies, v.cancelled, v.slow): v for v in VARIANTS.values() if not v.never_ends}
    found = await each(redis_url, tmp_path, [(None, variant) for variant in scenes.values()])
    assert [findings.problems for findings in found] == [[]] * len(scenes)


def test_there_is_a_broken_script_for_every_promise():
    assert {variant.promise for variant in VARIANTS.values()} == set(PROMISES)
