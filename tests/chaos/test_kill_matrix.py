"""A process dies at every step of a run, on both sides: what was finished is kept, and nothing happens twice (P1 to P4).

The points run side by side, each with processes, a team and a record of its own. A whole run takes 19 model calls.
"""

import asyncio

import pytest

from tests.chaos.matrix import deaths

pytestmark = [pytest.mark.chaos, pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(180)]

MODEL_CALLS = 19

# Who dies; where; how many answers of models may have been given but not recorded (what waits for a step is written
# after 50 ms at the latest); how many tool calls had been under way.
WORKER = [
    ("alpha", "before_claim", 0, 0),
    ("alpha", "after_claim", 0, 0),
    ("alpha", "after_prompt", 0, 0),
    ("alpha", "after_model", 1, 0),
    ("alpha", "before_answer", 1, 0),
    ("alpha", "after_answer", 0, 1),
    ("alpha", "tool_begun", 0, 1),
    ("alpha", "tool_done", 0, 1),
    ("alpha", "before_finished_call", 0, 1),
    ("alpha", "before_results", 0, 1),
    ("alpha", "after_results", 0, 0),
    ("alpha", "before_settle", 1, 0),
    ("alpha", "after_settle", 0, 0),
    ("alpha", "before_settle:2", 1, 0),
    ("beta", "before_hand_off", 1, 0),
    ("beta", "after_hand_off", 0, 0),
    ("beta", "before_resume", 0, 0),
    ("beta", "after_resume", 0, 0),
    ("gamma", "before_settle", 1, 0),
    ("gamma", "after_settle:2", 0, 0),
]
COORDINATOR = [
    (None, "before_begin_job", 0, 0),
    (None, "after_begin_job", None, None),  # RQ is told while the run goes on: how far it got is not said
    (None, "before_take", 0, 0),
    (None, "after_take", 0, 0),
    (None, "after_prompt", 0, 0),
    (None, "after_model", 1, 0),
    (None, "before_answer", 1, 0),
    (None, "after_answer", 0, 1),
    (None, "tool_done", 0, 1),
    (None, "after_results", 0, 0),
    (None, "before_hand_off", 1, 0),
    (None, "after_hand_off", 0, 0),
    (None, "before_resume", 0, 0),
    (None, "after_resume", 0, 0),
    (None, "before_hand_off:2", 1, 0),
    (None, "after_hand_off:2", 0, 0),
    (None, "after_resume:2", 0, 0),
    (None, "tool_begun:2", 0, 1),
    (None, "before_hand_off:3", 0, 1),
    (None, "after_hand_off:3", 0, 0),
    (None, "after_resume:3", 0, 0),
    (None, "before_finish_run", 1, 0),
    (None, "after_finish_run", 0, 0),
    (None, "before_finish_job", 0, 0),
    (None, "after_finish_job", 0, 0),
]


async def outcomes(redis_url, folder, role, points, lanes):
    """Run all points, the same number in each lane; what was not as expected, by point."""
    results = await asyncio.gather(
        *(_lane(redis_url, folder, f"{role}{lane}", role, some) for lane, some in enumerate(_split(points, lanes)))
    )
    return {point: text for lane in results for point, text in lane.items() if text}


def _split(points, lanes):
    """Split points into lanes of one member each."""
    members = dict.fromkeys(member for member, *_ in points)
    own = [[point for point in points if point[0] == member] for member in members]
    return [some[lane::lanes] for some in own for lane in range(lanes)]


async def _lane(redis_url, folder, team, role, points):
    results = {}
    faults = [fault for _, fault, *_ in points]
    findings = aiter(deaths(redis_url, folder / team, team, role, points[0][0], faults))
    for member, fault, paid_again, unknown in points:
        found = await anext(findings)
        calls, lost = found.figures["model calls"], found.figures["effects with unknown outcome"]
        wrong = []
        if unknown is not None and not (0 <= calls - MODEL_CALLS <= paid_again and lost == unknown):
            wrong = [f"{calls} model calls, {lost} unknown outcomes"]
        results[f"{member or 'lead'} {fault}"] = [text for _, text in found.problems] + wrong
    await anext(findings, None)
    return results


async def test_a_worker_that_dies_at_any_step(redis_url, tmp_path):
    """known-bug:2 known-bug:31"""
    assert await outcomes(redis_url, tmp_path, "worker", WORKER, 2) == {}


async def test_a_coordinator_that_dies_at_any_step(redis_url, tmp_path):
    """known-bug:21"""
    assert await outcomes(redis_url, tmp_path, "coordinator", COORDINATOR, 4) == {}


async def test_the_answer_before_a_long_tool_call_is_kept_though_that_call_may_be_run_again(redis_url, tmp_path):
    lane = aiter(deaths(redis_url, tmp_path, "long", "worker", "gamma", ["tool_done"], latency="0.25-0.25"))
    findings = await anext(lane)
    await anext(lane, None)
    assert findings.problems == []
    assert findings.figures["model calls"] == MODEL_CALLS
    assert findings.figures["effects run again by policy"] == 1
