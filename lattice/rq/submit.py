"""Putting a run on its way: its record and its RQ job, in one transaction."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from redis.asyncio import Redis
from redis.exceptions import WatchError
from rq import Queue, Retry
from rq.job import Job
from rq.webhook import Webhook

from lattice.encoding import clean_value, encode
from lattice.errors import OptionError, SizeLimitError
from lattice.rq.queue import make_job
from lattice.runs import RunRecord

__all__ = ["Submission", "check_task", "due_at", "submit_run"]

_LONGEST_DESCRIPTION = 120
_LONGEST_DELAY = 10 * 366 * 86_400
_WEBHOOK_STATES: tuple[Literal["finished"], Literal["failed"]] = ("finished", "failed")


class StartScript(Protocol):
    """What a store offers so that a run can start inside a foreign transaction."""

    def start_run_call(self, run: RunRecord) -> tuple[str, Sequence[str], Sequence[Any]]:
        """Return the source, the keys and the arguments of the script that records a queued run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """When and how often a run is tried, and who is told.

    ``at`` is when it becomes due (None: now). A run that failed is tried ``retry`` more times, after
    ``retry_interval`` seconds. ``webhooks`` are URLs that get a POST when the run has succeeded or failed.
    ``depends_on`` are ids of runs that must have succeeded first.

    Raises:
        OptionError: a value cannot be used.
    """

    at: datetime | None = None
    retry: int = 0
    retry_interval: float = 0.0
    webhooks: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.retry) is not int or not 0 <= self.retry <= 1000:
            raise OptionError(f"retry must be a whole number from 0 to 1000, not {self.retry!r}")
        if not math.isfinite(self.retry_interval) or self.retry_interval < 0:
            raise OptionError(f"retry_interval must be 0 or more seconds, not {self.retry_interval!r}")
        if self.at is not None and self.depends_on:
            raise OptionError("at and depends_on cannot be combined: a run starts at a time or after other runs")
        self.rq_webhooks()

    def rq_webhooks(self) -> list[Webhook]:
        """Return what RQ calls when the run has ended."""
        try:
            return [Webhook(url, status, method="POST") for url in self.webhooks for status in _WEBHOOK_STATES]
        except ValueError as error:
            raise OptionError(f"webhook: {error}") from None

    def rq_retry(self) -> Retry | None:
        """Return RQ's form of the retries."""
        return Retry(max=self.retry, interval=math.ceil(self.retry_interval)) if self.retry else None


def due_at(at: datetime | None, in_: float | timedelta | None) -> datetime | None:
    """Turn ``at`` or ``in_`` (seconds) into the time at which a run becomes due; a naive time is local.

    Raises:
        OptionError: both are given, or the value is none.
    """
    if at is not None and in_ is not None:
        raise OptionError("at and in are two ways to say the same; give one of them")
    if at is not None:
        if not isinstance(at, datetime):
            raise OptionError(f"at must be a datetime, not {at!r}")
        return at.astimezone(UTC)
    if in_ is None:
        return None
    seconds = in_.total_seconds() if isinstance(in_, timedelta) else in_
    if type(seconds) not in (int, float) or not 0 <= seconds <= _LONGEST_DELAY:
        raise OptionError(f"in must be seconds from 0 to ten years, not {in_!r}")
    return datetime.now(UTC) + timedelta(seconds=seconds)


def check_task(task: Any, limit: int) -> Any:
    """Return the task with its text cleaned.

    Raises:
        OptionError: it is empty, or neither text nor content blocks.
        SizeLimitError: it has more than ``limit`` bytes.
    """
    if isinstance(task, str):
        if not task.strip():
            raise OptionError("the task is empty; say what the team is to do")
    elif not isinstance(task, (list, tuple)) or not task or not all(isinstance(block, dict) for block in task):
        raise OptionError(f"a task is text or a list of content blocks, not {type(task).__name__}")
    cleaned = clean_value(task)
    size = len(cleaned.encode()) if isinstance(cleaned, str) else len(encode(cleaned))
    if size > limit:
        raise SizeLimitError("the task", size, limit)
    return cleaned


async def submit_run(
    redis: Redis,
    queue: Queue,
    store: StartScript,
    run: RunRecord,
    *,
    keep: int,
    submission: Submission,
    run_key: str | None = None,
) -> str:
    """Record a run and enqueue its job, both or neither. ``started``, or ``exists`` when the id is taken.

    ``run_key``, the key of the run's record, is given where the id may be taken: it is watched, so that two submits of
    one id start one run. ``keep`` is how many seconds results are kept.
    """
    transaction = _Transaction(queue, store.start_run_call(run), run, keep, submission, run_key)
    while True:
        try:
            if submission.depends_on:
                return await asyncio.to_thread(transaction.run_blocking)
            return await transaction.run(redis)
        except WatchError:
            continue


@dataclass(frozen=True, slots=True)
class _Transaction:
    """The script goes as source: inside a transaction nobody could heal a lost script cache."""

    queue: Queue
    script: tuple[str, Sequence[str], Sequence[Any]]
    run_record: RunRecord
    keep: int
    submission: Submission
    run_key: str | None

    async def run(self, redis: Redis) -> str:
        pipe: Any = redis.pipeline()
        async with pipe:
            if self.run_key is not None:
                await pipe.watch(self.run_key)
                if await pipe.exists(self.run_key):
                    return "exists"
                pipe.multi()
            self._record(pipe)
            if self.submission.at is None:
                # RQ starts the transaction of a pipeline that has none, which then must be empty.
                pipe.explicit_transaction = True
                self.queue.enqueue_job(self._job(), pipeline=pipe)
            else:
                self.queue.schedule_job(self._job(), self.submission.at, pipeline=pipe)
            await pipe.execute()
        return "started"

    def run_blocking(self) -> str:
        """The same for a run that depends on others: RQ reads their jobs in between."""
        connection: Any = self.queue.connection
        with connection.pipeline() as pipe:
            if self.run_key is not None:
                pipe.watch(self.run_key)
                if pipe.exists(self.run_key):
                    return "exists"
            self.queue.enqueue_job(self._job(), pipeline=pipe)
            self._record(pipe)
            pipe.execute()
        return "started"

    def _record(self, pipe: Any) -> None:
        source, keys, args = self.script
        pipe.eval(source, len(keys), *keys, *args)

    def _job(self) -> Job:
        return make_job(
            self.queue,
            self.run_record.id,
            description=_description(self.run_record.task),
            keep=self.keep,
            retry=self.submission.rq_retry(),
            webhooks=self.submission.rq_webhooks(),
            depends_on=self.submission.depends_on,
        )


def _description(task: Any) -> str:
    text = task if isinstance(task, str) else " ".join(str(block.get("text", block.get("type"))) for block in task)
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DESCRIPTION else line[: _LONGEST_DESCRIPTION - 1] + "…"
