"""When work is tried again."""

import pytest

from lattice import AbortController, AbortError, team_member
from lattice.errors import APIError, OptionError, ToolPermissionDeniedError
from lattice.errors import TimeoutError as DeadlineError
from lattice.team.retries import DEFAULT_CODES, NO_RETRY, RetryPolicy, read_retry, retry_code
from lattice.testing import turn
from tests.teams import handoff, model_of, said, spec, team_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (APIError("x", status=429), "rate_limit"),
        (APIError("x", status=529), "overload"),
        (APIError("x", status=500), "overload"),
        (APIError("x", code="overloaded_error"), "overload"),
        (APIError("x", code="rate_limit_error"), "rate_limit"),
        (APIError("x", code="timeout"), "request_timeout"),
        (APIError("x", code="connection_error"), "connection_error"),
        (DeadlineError("late"), "request_timeout"),
        (APIError("x", status=400), "api_error"),
        (APIError("x"), "api_error"),
        (ToolPermissionDeniedError({"reason": "no"}), "permission_denied"),
        ({"code": "max_turns_exceeded"}, "max_turns_exceeded"),
        (RuntimeError("x"), "agent_error"),
    ],
)
def test_failures_are_told_apart(error, code):
    assert retry_code(error) == code


def test_only_failures_that_pass_are_tried_again_and_only_so_often():
    policy = RetryPolicy(attempts=3)
    busy = APIError("x", status=529)
    assert policy.delay(busy, 0) is not None
    assert policy.delay(busy, 1) is not None
    assert policy.delay(busy, 2) is None
    assert policy.delay(APIError("x", status=400), 0) is None
    assert NO_RETRY.delay(busy, 0) is None


def test_delays_double_up_to_the_longest_with_jitter():
    policy = RetryPolicy(attempts=100, first_delay=1.0, longest_delay=10.0)
    busy = APIError("x", status=529)
    for retries, longest in ((0, 1), (1, 2), (3, 8), (4, 10), (90, 10)):
        found = {policy.delay(busy, retries) for _ in range(20)}
        assert len(found) > 1
        assert all(longest / 2 <= delay <= longest for delay in found)


def test_a_provider_that_says_when_is_not_asked_before():
    assert RetryPolicy(first_delay=1.0).delay(APIError("x", status=429, retry_after=30), 0) >= 30


def test_what_the_option_stands_for():
    assert read_retry(None, "m") == read_retry(0, "m") == NO_RETRY
    assert read_retry(2, "m") == RetryPolicy(attempts=3)
    assert read_retry({"attempts": 5, "codes": ["store_error"]}, "m") == RetryPolicy(attempts=5, codes=("store_error",))
    assert read_retry({}, "m").codes == DEFAULT_CODES
    policy = RetryPolicy(attempts=9)
    assert read_retry(policy, "m") is policy


@pytest.mark.parametrize(
    "option",
    [
        True,
        -1,
        "3",
        {"tries": 3},
        {"attempts": 0},
        {"first_delay": -1},
        {"longest_delay": float("inf")},
        {"codes": "overload"},
        {"codes": ["overload", "permission_denied"]},
    ],
)
def test_options_that_cannot_be_used_are_refused(option):
    with pytest.raises(OptionError, match="retry"):
        read_retry(option, "team_member('a')")


# --- in one process -------------------------------------------------------------------------------------------------


BUSY = APIError("busy", status=529)


def retrying(script, **retry):
    return team_member(name="a", role="executor", agent=spec("a", script), retry={"first_delay": 0, **retry})


async def test_work_is_tried_again_in_the_same_conversation():
    team = team_of([turn(handoff("a")), said], {"a": retrying([BUSY, BUSY, "third try"])})
    assert (await team.prompt("go")).result.endswith("third try")
    assert [len(request.messages) for request in model_of(team.members[0].agent).requests] == [1, 1, 1]


async def test_a_failure_is_reported_when_the_tries_are_used_up():
    team = team_of([turn(handoff("a")), said], {"a": retrying([BUSY, BUSY, "too late"], attempts=2)})
    assert "Error code: api_error" in (await team.prompt("go")).result


async def test_waiting_for_a_retry_takes_no_place_and_ends_with_the_run():
    stop = AbortController()

    def second(_request):
        stop.abort()
        return "done"

    members = {"a": retrying([BUSY, "never"], first_delay=3_600), "b": second}
    team = team_of([turn(handoff("a"), handoff("b")), "never"], members)
    with pytest.raises(AbortError):
        await team.prompt("go", signal=stop.signal)
    assert model_of(team.members[0].agent).calls == 1
