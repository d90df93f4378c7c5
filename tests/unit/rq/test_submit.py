from datetime import UTC, datetime, timedelta, timezone

import pytest

from lattice.errors import OptionError, SizeLimitError
from lattice.rq.submit import Submission, check_task, due_at


@pytest.mark.parametrize("task", ["", "  \n", [], None, 7, ["text"], {}])
def test_a_task_that_says_nothing_is_refused(task):
    with pytest.raises(OptionError):
        check_task(task, 1000)


def test_the_size_limit_counts_bytes_of_the_text():
    assert check_task("é" * 50, 100) == "é" * 50
    with pytest.raises(SizeLimitError) as caught:
        check_task("é" * 51, 100)
    assert (caught.value.size, caught.value.limit) == (102, 100)


def test_content_blocks_are_measured_as_json_and_cleaned():
    blocks = [{"type": "text", "text": "bad \ud800 end"}]
    assert check_task(blocks, 1000) == [{"type": "text", "text": "bad � end"}]
    with pytest.raises(SizeLimitError):
        check_task([{"type": "text", "text": "x" * 100}], 100)


def test_a_lone_surrogate_in_a_task_is_replaced():
    assert check_task("a\udc00b", 100) == "a�b"


def test_in_and_at_are_times_in_utc():
    before = datetime.now(UTC)
    due = due_at(None, 60)
    assert timedelta(seconds=59) < due - before < timedelta(seconds=62)
    assert due_at(None, timedelta(minutes=1)) > before
    at = datetime(2030, 1, 1, 8, tzinfo=timezone(timedelta(hours=2)))
    assert due_at(at, None) == datetime(2030, 1, 1, 6, tzinfo=UTC)
    assert due_at(datetime(2030, 1, 1, 8), None).tzinfo is UTC  # noqa: DTZ001 - a naive time is local
    assert due_at(None, None) is None


@pytest.mark.parametrize("in_", [-1, float("nan"), 1e12, "soon", True])
def test_a_delay_that_is_none_is_refused(in_):
    with pytest.raises(OptionError, match="in must be"):
        due_at(None, in_)


def test_at_and_in_together_are_refused():
    with pytest.raises(OptionError, match="one of them"):
        due_at(datetime.now(UTC), 5)


@pytest.mark.parametrize(
    "options",
    [
        {"retry": -1},
        {"retry": True},
        {"retry": 1.5},
        {"retry": 1, "retry_interval": -1},
        {"retry_interval": float("inf")},
        {"webhooks": ("ftp://example.com",)},
        {"webhooks": ("example.com/hook",)},
        {"at": datetime.now(UTC), "depends_on": ("r",)},
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_starts(options):
    with pytest.raises(OptionError):
        Submission(**options)


def test_webhooks_are_posted_on_success_and_on_failure():
    hooks = Submission(webhooks=("https://example.com/hook",)).rq_webhooks()
    assert [(hook.job_status, hook.method) for hook in hooks] == [("finished", "POST"), ("failed", "POST")]


def test_retries_have_rqs_form():
    retry = Submission(retry=3, retry_interval=0.5).rq_retry()
    assert (retry.max, retry.intervals) == (3, [1])
    assert Submission().rq_retry() is None
