"""The programmatic face of a running team: submit a task, follow it, get its result, cancel it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from lattice.errors import OptionError
from lattice.errors import TimeoutError as RunTimeoutError
from lattice.ids import derive_id, new_id
from lattice.mailbox import TeamMessage, mailbox_key
from lattice.redis.connection import check_server, open_blocking_redis, open_redis
from lattice.redis.keys import Keys
from lattice.redis.run_ends import RunEnds
from lattice.redis.run_store import RedisRunStore
from lattice.rq.backoff import Backoff
from lattice.rq.queue import queue_of
from lattice.rq.results import JobStanding, cancel_waiting_job, job_has_ended, job_standing, requeue_failed_job
from lattice.rq.submit import Submission, check_task, due_at, submit_run
from lattice.rq.worker import REDIS_DOWN
from lattice.run_store import EVENTS_DROPPED, FAR_BEHIND, RUN_ENDED, StoreOptions
from lattice.runs import Budget, DeadLetter, ProcessInfo, RunRecord, RunStatus, WorkState, run_conversation
from lattice.team.nested import nested_key, nested_run

__all__ = ["LatticeClient", "RunStanding"]

T = TypeVar("T")
COORDINATOR = "coordinator"
_RETRY_LOOK = 1.0
"""Seconds between two looks at a failed run that RQ is to try again: it may be days until then."""

_LOOK_AGAIN = 30.0
"""Seconds after which a waiter looks at the run itself."""

_AT_ONCE = 16
"""Commands of one client that are under way at once, each on a connection of its own."""

_SLICE_MS = 5_000
"""Milliseconds of one blocking read; a longer wait is many of them."""


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A run, its work, until when its lease holds, and who is alive; times are epoch ms of the Redis clock."""

    run: RunRecord
    work: tuple[WorkState, ...]
    held_until: int | None
    now: int
    processes: tuple[ProcessInfo, ...]
    job: JobStanding


class LatticeClient:
    """Talks to a team's processes through Redis; an async context manager.

    Every call that waits goes on waiting when Redis goes away and comes back.
    """

    def __init__(self, *, team: str, redis_url: str, options: StoreOptions | None = None) -> None:
        """Take the team's name (as its key: ``team.key``), where Redis is, and the limits of the store."""
        self.team = team
        self.redis_url = redis_url
        self.options = options or StoreOptions()
        self._keys = Keys(team)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            StoreError: Redis cannot be reached, or cannot be used.
        """
        self._redis = open_redis(self.redis_url)
        self._client: Any = self._redis
        await check_server(self._redis, self.redis_url)
        self._store = RedisRunStore(self._redis, self.team, self.options)
        self._ends = RunEnds(self._redis, self._keys)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._blocking = open_blocking_redis(self.redis_url)
        self._queue = queue_of(self.team, self._blocking)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self._ends.close()
        await self._store.close()
        await self._redis.aclose()
        self._blocking.close()

    @property
    def keep(self) -> int:
        """How many seconds ended runs are kept."""
        return max(1, self.options.retention_ms // 1000)

    # --- a run from submit to result ----------------------------------------------------------------------------

    async def submit(
        self,
        task: Any,
        *,
        id: str | None = None,  # noqa: A002 - the word that users of --id know
        at: datetime | None = None,
        in_: float | timedelta | None = None,
        retry: int = 0,
        retry_interval: float = 0.0,
        webhooks: Sequence[str] = (),
        depends_on: Sequence[str] = (),
        max_seconds: float | None = None,
        max_model_calls: int | None = None,
        max_tokens: int | None = None,
        options: dict[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> str:
        """Submit a task and return the id of its run; when this returns, the run will reach an end that can be seen.

        Args:
            task: text or content blocks.
            id: a key that makes this idempotent: the same key gives the same run, which is not started again.
            at: when the run becomes due.
            in_: the same as seconds (or a timedelta) from now.
            retry: how often a run that failed is tried again.
            retry_interval: seconds before it is.
            webhooks: URLs that get a POST when the run has succeeded or failed.
            depends_on: ids of runs that must have succeeded first.
            max_seconds: how long the run may take from its first start; then it fails with ``deadline_exceeded``.
            max_model_calls: how many model calls it may make, all members together; then ``budget_exceeded``.
            max_tokens: how many tokens it may use, cached ones included; then ``budget_exceeded``.
            options: what the run's record keeps beside the task.
            traceparent: the W3C trace context that the run belongs to; by default that of the current OpenTelemetry
                span, if there is one.

        Raises:
            OptionError: a value cannot be used.
            SizeLimitError: the task is over the limit.
        """
        submission = Submission(
            at=due_at(at, in_),
            retry=retry,
            retry_interval=retry_interval,
            webhooks=tuple(webhooks),
            depends_on=tuple(depends_on),
        )
        budget = Budget(max_seconds=max_seconds, max_model_calls=max_model_calls, max_tokens=max_tokens)
        if id is not None and not id.strip():
            raise OptionError("id is empty; leave it out, or give a key that names the task")
        run_id = new_id() if id is None else derive_id(self.team, "submit", id)
        run = RunRecord(
            id=run_id,
            team=self.team,
            task=check_task(task, self.options.max_message_bytes),
            conversation=run_conversation(run_id),
            options={
                **(options or {}),
                **({"retry": retry} if retry else {}),
                **({"budget": budget.to_dict()} if budget else {}),
            },
            traceparent=traceparent or _current_traceparent(),
        )
        async with self._at_once:
            await self._start(run, submission, taken=id is not None)
        return run_id

    async def _start(self, run: RunRecord, submission: Submission, *, taken: bool) -> None:
        backoff = Backoff()
        while True:
            try:
                await submit_run(
                    self._redis,
                    self._queue,
                    self._store,
                    run,
                    keep=self.keep,
                    submission=submission,
                    run_key=self._keys.run(run.id) if taken else None,
                )
            except REDIS_DOWN as error:
                # The reply may have been lost, not the transaction: from now on the id may be taken.
                taken = True
                if backoff.tries >= 5:
                    raise
                await backoff.pause("submitting", error)
            else:
                return

    async def result(self, run_id: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ASYNC109 - documented
        """Wait for a run to end and return its outcome: run_id, status, result, usage, error.

        Raises:
            OptionError: there is no such run.
            TimeoutError: it has not ended within ``timeout`` seconds; it goes on.
        """
        try:
            async with asyncio.timeout(timeout):
                return (await self._ended(run_id)).outcome()
        except TimeoutError:
            raise RunTimeoutError(f"run {run_id} has not ended within {timeout:g} s; it goes on") from None

    async def events(self, run_id: str, after: str = "0") -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield ``(offset, event)`` from an offset on, as they happen, until the run has ended.

        The last event is the lead's ``result``; a run that did not succeed ends with ``{"type": "run_ended", "status":
        ...}``. Whoever comes back with the last offset that it saw misses nothing and gets nothing twice. If a run has
        more events than are kept, ``{"type": "events_dropped", "dropped": 1200}`` stands in the place of the others.

        Raises:
            OptionError: there is no such run.
        """
        await self.run(run_id)
        first = True
        while True:
            batch = await self._patiently(partial(self._store.read_events, run_id, after, block_ms=_SLICE_MS))
            if batch and (first or len(batch) >= FAR_BEHIND):
                lost = await self._patiently(partial(self._store.lost_events, run_id, after))
                if lost:
                    yield after, {"type": EVENTS_DROPPED, "dropped": lost}
            first = False
            for offset, event in batch:
                after = offset
                if event.get("type") != RUN_ENDED:
                    yield offset, event
                elif await self._is_final(await self.run(run_id)):
                    if event.get("status") != RunStatus.SUCCEEDED:
                        yield offset, event
                    return
            if not batch and await self._is_final(await self.run(run_id)):
                return

    async def cancel(self, run_id: str, reason: str = "cancelled by the submitter") -> str:
        """Cancel a run and all that works for it. ``cancelled``, or ``ended`` if it had ended before.

        Raises:
            OptionError: there is no such run.
        """
        word = await self._store.cancel_run(run_id, reason)
        if word == "missing":
            raise _missing(run_id)
        await self._cancel_inside(self._store, self.team, run_id, reason)
        if word == "cancelled":
            outcome = (await self.run(run_id)).outcome()
            await cancel_waiting_job(self._redis, self._queue, run_id, outcome, self.keep)
        return word

    async def _cancel_inside(self, store: RedisRunStore, space: str, run_id: str, reason: str) -> None:
        """Cancel the runs of teams inside: whoever should pass it on to them may be dead, or deaf."""
        for state in await store.work_items(run_id):
            inner, nested = nested_key(space, mailbox_key(state.message.to)), nested_run(state.message.id)
            if await self._client.exists(Keys(inner).run(nested)):
                inside = RedisRunStore(self._redis, inner, self.options)
                try:
                    await inside.cancel_run(nested, reason)
                    await self._cancel_inside(inside, inner, nested, reason)
                finally:
                    await inside.close()

    async def interrupt(self, run_id: str) -> str:
        """Have a run end without another call of its lead, as ``team.interrupt()`` does in one process.

        What is under way is finished, work that nobody has begun is cancelled; the run succeeds, and its lead's result
        has the subtype ``interrupted``. A run that nobody has taken yet ends before its first model call. Returns
        ``interrupted``, or ``ended`` if the run had ended before.

        Raises:
            OptionError: there is no such run.
        """
        word = await self._store.interrupt_run(run_id)
        if word == "missing":
            raise _missing(run_id)
        return word

    async def resume(
        self,
        run_id: str,
        *,
        max_seconds: float | None = None,
        max_model_calls: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """Let a failed run go on from its last recorded step; limits replace those that it had.

        Raises:
            OptionError: there is no such run, it has not failed, or a limit cannot be used.
        """
        budget = Budget(max_seconds=max_seconds, max_model_calls=max_model_calls, max_tokens=max_tokens)
        word = await self._store.reopen_run(run_id, budget)
        if word == "missing":
            raise _missing(run_id)
        if word == "refused":
            status = (await self.run(run_id)).status
            raise OptionError(f"run {run_id} is {status}; only a run that has failed can be resumed")
        await asyncio.to_thread(requeue_failed_job, self._queue, run_id)

    # --- looking ------------------------------------------------------------------------------------------------

    async def run(self, run_id: str) -> RunRecord:
        """Return a run.

        Raises:
            OptionError: there is no such run.
        """
        found = await self._patiently(partial(self._store.get_run, run_id))
        if found is None:
            raise _missing(run_id)
        return found

    async def runs(self, limit: int = 50) -> list[RunRecord]:
        """Return the newest runs, the newest first."""
        return await self._store.list_runs(limit)

    async def inbox(self, member: str, status: str = "pending") -> list[TeamMessage]:
        """Return the messages of a member's mailbox in send order; ``status`` may be ``all``."""
        return await self._store.inbox(member, status)

    async def standing(self, run_id: str) -> RunStanding:
        """Return where a run and its work stand, and who is alive to go on with it.

        Raises:
            OptionError: there is no such run.
        """
        run = await self.run(run_id)
        work, until, now, processes, job = await asyncio.gather(
            self._store.work_items(run_id),
            self._store.held_until(run_id),
            self._store.now(),
            self._store.processes(),
            job_standing(self._redis, self._queue, run_id),
        )
        return RunStanding(run, tuple(work), until, now, tuple(processes), job)

    async def work_items(self, run_id: str) -> list[WorkState]:
        """Return the work of a run in send order, each with where it stands."""
        return await self._store.work_items(run_id)

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters first."""
        return await self._store.dead_letters(limit)

    async def dead_letter(self, message_id: str) -> DeadLetter | None:
        """Return one dead letter, or None."""
        letters = await self._store.dead_letters(self.options.max_dead_letters)
        return next((letter for letter in letters if letter.message.id == message_id), None)

    async def requeue_dead(self, message_id: str) -> TeamMessage | None:
        """Send the work of a dead letter again, outside its run, and return the new message; None if there is none.

        Raises:
            StoreError: the mailbox is at its depth limit.
        """
        return await self._store.requeue_dead(message_id)

    async def drop_dead(self, message_id: str) -> bool:
        """Take a message off the dead letters; False if it is none."""
        return await self._store.drop_dead(message_id)

    async def processes(self) -> list[ProcessInfo]:
        """Return the live processes of the team."""
        return await self._store.processes()

    async def unattended(self, run_id: str) -> list[str]:
        """Name what a run waits for while nobody is alive to do it: members, or ``coordinator``."""
        run = await self.run(run_id)
        if run.status.is_terminal:
            return []
        live = await self._patiently(self._store.processes)
        attended = {process.member if process.role == "worker" else process.role for process in live}
        needed = set(await self._patiently(partial(self._store.waiting_members, run_id)))
        if run.status is not RunStatus.WAITING:
            needed.add(COORDINATOR)
        return sorted(needed - attended)

    # --- waiting ------------------------------------------------------------------------------------------------

    async def _ended(self, run_id: str) -> RunRecord:
        seen = False
        while True:
            tip = b"" if seen else await self._patiently(partial(self._last_event, run_id))
            run = await self.run(run_id)
            if await self._is_final(run):
                return run
            if run.status.is_terminal or not tip:
                seen = False
                await asyncio.sleep(_RETRY_LOOK)
            else:
                seen = await self._patiently(partial(self._ends.wait, run_id, tip, _LOOK_AGAIN))

    async def _last_event(self, run_id: str) -> bytes:
        async with self._at_once:
            found = await self._client.xrevrange(self._keys.events(run_id), count=1)
        return found[0][0] if found else b"0"

    async def _is_final(self, run: RunRecord) -> bool:
        """Whether a run has ended and RQ will not try it again."""
        if run.status is RunStatus.FAILED and run.options.get("retry"):
            return await self._patiently(partial(job_has_ended, self._redis, run.id))
        return run.status.is_terminal

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        backoff = Backoff()
        while True:
            try:
                return await ask()
            except REDIS_DOWN as error:
                await backoff.pause("waiting for a run", error)


def _current_traceparent() -> str | None:
    api = sys.modules.get("opentelemetry.trace")
    if api is None or not api.get_current_span().get_span_context().is_valid:
        return None
    from lattice.integrations.opentelemetry.propagation import current_traceparent  # noqa: PLC0415 - only if it is used

    return current_traceparent()


def _missing(run_id: str) -> OptionError:
    return OptionError(f"there is no run {run_id!r}; `lattice runs` lists those that are kept")
