"""Drives the leads of runs: takes a run, drives its legs, ends it; hands runs over when the process leaves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lattice.agent.agent import Agent
from lattice.errors import AbortError, DeadlineExceededError, LatticeError, LeaseLostError, RunHeldError, RunParkedError
from lattice.events import error_to_dict
from lattice.runs import ConversationState, RunRecord, RunStatus, TakenRun
from lattice.team.actor import Actor, lead_source
from lattice.team.answers import Answer
from lattice.team.delegates import with_delegates
from lattice.team.failures import describe, failure_of
from lattice.team.host import Held, Host
from lattice.team.leg import RESUME, drive, interrupted, open_session, resumed
from lattice.team.metering import Meter, account_of
from lattice.team.recording import Recorder, add_tokens
from lattice.team.run_trace import RunTrace
from lattice.team.store_post import StorePost
from lattice.team.store_tracing import StoreTracing
from lattice.team.team import Team

__all__ = ["LeadDriver"]

_LIGHT = 32 * 1024
"""Bytes of a conversation up to which a waiting lead keeps its session, and saves a round trip."""

T = TypeVar("T")
_log = logging.getLogger("lattice.team")


class _Lead:
    """What belongs to one run while it is driven."""

    __slots__ = ("actor", "held", "post", "recorder", "session", "taken", "trace")

    def __init__(
        self,
        taken: TakenRun,
        held: Held,
        recorder: Recorder,
        post: StorePost,
        actor: Actor,
        trace: RunTrace | None,
    ) -> None:
        self.trace = trace
        self.taken = taken
        self.held = held
        self.recorder = recorder
        self.post = post
        self.actor = actor
        self.session: Any = None

    def take_session(self) -> Any:
        """Return the session and let go of it: whoever drives it may drop it while the lead waits."""
        session, self.session = self.session, None
        return session


class LeadDriver:
    """Drives runs of one team; any number of processes may have one."""

    def __init__(self, host: Host, team: Team) -> None:
        self.host = host
        self._tracing = StoreTracing(host, team)
        self.team = team
        self.directory = with_delegates(team.directory, [team.lead])
        self.source = lead_source(team.key)
        self.tools = team.lead_tools(host.store)
        # By lease, not by run: a leg that has lost its run may still unwind when the run is taken here again.
        self._driving: dict[Held, asyncio.Task[Any]] = {}
        self._recorders: dict[Held, Recorder] = {}
        self._leaving = asyncio.Event()
        self._sweeping: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> int:
        """How many runs are driven here, those that wait for members included."""
        return len(self._driving)

    async def drive(
        self, run_id: str, *, leave: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> dict[str, Any]:
        """Drive a run to its end and return its outcome: run_id, status, result, usage, error.

        ``leave()`` is entered while the lead waits for its members.

        Raises:
            RunHeldError: another coordinator drives it.
            RunParkedError: this coordinator is leaving, or lost the run; another one goes on.
            LatticeError: there is no such run.
        """
        if self._leaving.is_set():
            raise RunParkedError
        task = asyncio.current_task()
        assert task is not None
        taken = await _or_parked(self.host.store.take_run(run_id, self.host.process_id, self.host.lease_ms))
        if isinstance(taken, str):
            return await self._not_taken(run_id, taken)
        with self.host.instruments.driving(taken):
            return await self._drive_taken(taken, task, leave)

    async def _drive_taken(self, taken: TakenRun, task: "asyncio.Task[Any]", leave: Any) -> dict[str, Any]:
        held = self.host.hold(taken.lease)
        if self._leaving.is_set():  # said while the store was asked
            await self._let_go(held)
            self.host.release(held)
            raise RunParkedError
        self._driving[held] = task
        try:
            return await self._drive(taken, held, leave)
        except asyncio.CancelledError:
            if not self._leaving.is_set():
                raise
            await self._let_go(held)
            raise RunParkedError from None
        except LeaseLostError as error:
            return await self._lost(held, error)
        finally:
            del self._driving[held]
            recorder = self._recorders.pop(held, None)
            if recorder is not None:
                await recorder.close()
            self.host.release(held)

    async def hand_over(self) -> None:
        """Take no more runs and let go of those that are driven here, so that others go on at once."""
        self._leaving.set()
        for recorder in self._recorders.values():
            recorder.freeze()
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- taking and losing a run --------------------------------------------------------------------------------

    async def _not_taken(self, run_id: str, word: str) -> dict[str, Any]:
        if word == "held":
            raise RunHeldError
        record = await _or_parked(self.host.store.get_run(run_id))
        if record is None:
            raise LatticeError(f"there is no run {run_id}")
        return record.outcome()

    async def _lost(self, held: Held, error: LeaseLostError) -> dict[str, Any]:
        """The run was cancelled, taken by another coordinator, or the store is away."""
        run_id = held.lease.id
        if held.broken:
            await self._let_go(held)
            raise RunParkedError from error
        record = await _or_parked(self.host.store.get_run(run_id))
        _log.info("run %s was lost: it was cancelled, or another coordinator goes on with it", run_id)
        if record is not None and record.status.is_terminal:
            return record.outcome()
        raise RunParkedError from error

    async def _let_go(self, held: Held) -> None:
        recorder = self._recorders.get(held)
        step = recorder.kept if recorder is not None and not held.lost else None
        try:
            await asyncio.shield(self.host.store.hand_back(held.lease, step))
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            _log.warning("run %s could not be handed over at once: %s", held.lease.id, describe(error))

    # --- driving ------------------------------------------------------------------------------------------------

    async def _drive(self, taken: TakenRun, held: Held, leave: Any) -> dict[str, Any]:
        lead = await self._begin(taken, held)
        lead.actor.leave = leave
        timer = await self._deadline(lead)
        try:
            answer = await self._legs(lead)
        except (LeaseLostError, asyncio.CancelledError):
            raise
        except Exception as error:
            if held.lost:
                raise LeaseLostError from error
            return await self._finish(lead, None, _cause(held, error))
        finally:
            if timer is not None:
                timer.cancel()
        if held.lost:
            raise LeaseLostError
        cause = _cause(held, answer.error) if answer.is_error else answer.error
        return await self._finish(lead, answer if cause is answer.error else None, cause)

    async def _deadline(self, lead: _Lead) -> asyncio.TimerHandle | None:
        """Stop the run when its time is up, whoever is at work for it."""
        meter = lead.actor.meter
        left = None if meter is None else await meter.purse.seconds_left()
        if left is None:
            return None
        error = DeadlineExceededError("The time of the run is used up")
        return asyncio.get_running_loop().call_later(max(0.0, left), lead.held.controller.abort, error)

    async def _begin(self, taken: TakenRun, held: Held) -> _Lead:
        run = taken.run
        state = ConversationState()
        if taken.started:
            state = await held.guard(self.host.store.load(run.conversation))
        recorder = self._recorders[held] = Recorder(self.host, held, run.conversation, state)
        trace = self._tracing.root(run)
        limit = self.team.max_concurrent_work_items
        post = StorePost(self.host, held, recorder, run.id, limit=limit, trace=trace)
        actor = Actor(
            name=self.team.key,
            agent=self.team.lead,
            source=self.source,
            mailbox=self.source["mailbox"],
            conversation=run.conversation,
            directory=self.directory,
            signal=held.controller.signal,
            run_id=run.id,
            post=post,
            depth=run.options.get("depth", 0),
            max_depth=self._depth_of(run),
            permissions=run.options.get("permissions"),
            tools=self.tools,
            query_options=self._tracing.options(self.team.lead, trace),
            max_message_bytes=self.host.max_message_bytes,
        )
        held.listen(note=actor.alert, interrupt=partial(self._interrupt, actor, post))
        account = account_of(run, self.team.budget, self.host.space)
        if account is not None:
            actor.meter = Meter(self.host.purse(held, account))
        actor.is_heavy = lambda: recorder.size > _LIGHT
        actor.reopen = partial(self._reopen, run.conversation, recorder)
        return _Lead(taken, held, recorder, post, actor, trace)

    def _interrupt(self, actor: Actor, post: StorePost) -> None:
        """Make no further call of a lead: what is under way is finished, what is queued is cancelled."""
        actor.interrupted = post.interrupted = True
        stop = getattr(actor.session, "interrupt", None)
        if callable(stop):
            stop()
        if actor.resting:  # what was handed off while the word was on its way
            task = asyncio.get_running_loop().create_task(_quietly(post.cancel_queued()))
            self._sweeping.add(task)
            task.add_done_callback(self._sweeping.discard)

    def _open(self, conversation: str, recorder: Recorder) -> Any:
        return open_session(self.team.lead, conversation, history_store=recorder.history, journal=recorder.journal)

    async def _reopen(self, conversation: str, recorder: Recorder) -> Any:
        recorder.reopened(await recorder.held.guard(self.host.store.load(conversation)))
        return self._open(conversation, recorder)

    def _depth_of(self, run: RunRecord) -> int:
        """A team inside another goes no deeper than the outermost allows."""
        own = self.team.max_delegate_depth + int(run.options.get("depth", 0))
        return min(own, int(run.options.get("max_depth", own)))

    async def _legs(self, lead: _Lead) -> Answer:
        taken, recorder = lead.taken, lead.recorder
        run = taken.run
        opening: Any = RESUME
        if run.interrupted:
            self._interrupt(lead.actor, lead.post)
        lead.session = self._open(run.conversation, recorder)
        if lead.trace is not None and not taken.started:
            await lead.trace.start(self._tracing.data, run.task)
        if run.batch is not None and not taken.delivered:
            async with lead.actor.waiting():
                reports = await lead.post.reports_of(run.batch)
            opening = await resumed(lead.actor, reports)
            if lead.actor.interrupted:
                return interrupted()
        elif run.id not in recorder.state.entered or not isinstance(lead.session, Agent):
            recorder.once = run.id
            opening = run.task
        if lead.actor.interrupted:
            return interrupted()
        return await drive(lead.actor, lead.take_session(), opening, rounds=run.round)

    async def _finish(self, lead: _Lead, answer: Answer | None, error: Any) -> dict[str, Any]:
        """Write the result and close the run; the result is its last event."""
        store, run_id = self.host.store, lead.taken.run.id
        aborted = isinstance(error, AbortError) or (answer is not None and answer.aborted)
        status = RunStatus.SUCCEEDED if answer is not None and not answer.is_error else RunStatus.FAILED
        if aborted:
            status = RunStatus.CANCELLED
        failure = None if status is RunStatus.SUCCEEDED else failure_of(error).to_dict()
        run = lead.taken.run
        if run.round or lead.post.has_sent:  # members have added to the total
            stored = await lead.held.guard(store.get_run(run_id))
            run = run if stored is None else stored
        total = add_tokens(run.total_usage, lead.recorder.usage)
        result = _wire_result(answer, error)
        result["total_usage"] = total
        lead.recorder.ending = True
        lead.recorder.emit(result)
        async with lead.recorder.writing():
            lead.held.ending = True
            step = lead.recorder.take(end=True)
            word = await lead.held.guard(store.finish_run(lead.held.lease, status, result, step, failure))
        if word == "stale":
            raise LeaseLostError
        if failure is None:
            _log.info("run %s", status)
        else:  # the text of an error may quote what was worked on: that is for `lattice show`
            _log.warning("run %s: %s (%s)", status, failure["code"], failure["name"])
        if lead.trace is not None:
            await lead.trace.conclude(answer, error)
        return replace(run, status=status, result=result, error=failure, total_usage=total).outcome()


def _cause(held: Held, error: Any) -> Any:
    """Return the deadline instead of the abort that it caused."""
    reason = held.controller.signal.reason
    return reason if isinstance(reason, DeadlineExceededError) else error


async def _quietly(step: Awaitable[object]) -> None:
    """Await a step whose failure ends the work elsewhere."""
    with suppress(LeaseLostError):
        await step


async def _or_parked(step: Awaitable[T]) -> T:
    """Await a step of the store; if it breaks, the run is left to whoever comes next.

    Raises:
        RunParkedError: it broke.
    """
    try:
        return await step
    except Exception as error:
        _log.warning("the store failed, the run is left to whoever comes next: %s", describe(error))
        raise RunParkedError(cause=error) from error


def _wire_result(answer: Answer | None, error: Any) -> dict[str, Any]:
    if answer is not None:
        event = answer.event
        return dict(event) if isinstance(event, dict) else event.to_dict()
    return {
        "type": "result",
        "subtype": "error",
        "is_error": True,
        "result": "",
        "session_id": "",
        "num_turns": 0,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "error": error_to_dict(error),
    }
