"""The fault suite in its short form; ``python -m tests.chaos`` is the long one."""

import pytest

from tests.chaos.storm import Plan, Storm

pytestmark = [pytest.mark.chaos, pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(240)]


async def test_a_short_storm_breaks_no_promise(tmp_path):
    """known-bug:20"""
    plan = Plan(seconds=6, seed=7, in_flight=60, lease=1.5, latency="0-0.05", max_attempts=4)
    outcome = await Storm(plan, tmp_path).run()
    assert outcome.problems == []
    assert outcome.figures["runs succeeded"] > 0
    assert outcome.figures["processes started"] > 8
