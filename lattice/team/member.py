"""Works one work item of a member: from the claim to the step that ends it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lattice.agent.agent import Agent
from lattice.errors import AgentSetupError, LeaseLostError, RunParkedError, SizeLimitError
from lattice.errors import TimeoutError as DeadlineError
from lattice.ids import derive_id
from lattice.mailbox import MessageStatus
from lattice.runs import Claim, ConversationState, Settled, WorkItem
from lattice.team.actor import Actor, member_source
from lattice.team.answers import Answer
from lattice.team.definition import TeamMemberDefinition
from lattice.team.delegates import with_delegates
from lattice.team.drain import unanswered
from lattice.team.endings import Ending, ending_of
from lattice.team.failures import AgentRuntimeFailure, describe
from lattice.team.grants import granted_permissions
from lattice.team.host import Held, Host
from lattice.team.leg import RESUME, drive, open_session, resumed
from lattice.team.metering import Meter, account_of
from lattice.team.prompts import drain_envelope, task_envelope
from lattice.team.recording import Recorder
from lattice.team.retries import retry_code
from lattice.team.slots import Slots
from lattice.team.store_post import StorePost
from lattice.team.store_tracing import StoreTracing
from lattice.team.team import Team
from lattice.team.work_events import WorkEvents

__all__ = ["MemberWork"]

_log = logging.getLogger("lattice.team")


class Nested(Protocol):
    """A member that is itself a team."""

    async def work(
        self, actor: Actor, held: Held, recorder: Recorder, state: ConversationState | None, prompt: str
    ) -> Answer:
        """Have the team work on an item, and return its lead's answer."""
        ...

    async def reopen(self, message_id: str) -> None:
        """Let the team's run for an item go on, if it failed."""
        ...


@dataclass(slots=True)
class _Work:
    """What belongs to one work item while it is worked on."""

    claim: Claim
    held: Held
    state: ConversationState | None
    recorder: Recorder
    post: StorePost
    actor: Actor
    session: Any = None
    broken: AgentSetupError | None = None
    """Why there is no session: no worker could make one."""


class MemberWork:
    """Works the items of one member in this process; ``slots`` are the places that its worker has."""

    def __init__(
        self, host: Host, team: Team, member: TeamMemberDefinition, slots: Slots, nested: Nested | None = None
    ) -> None:
        self.host = host
        self.team = team
        self.member = member
        self.directory = with_delegates(team.directory, [member.agent])
        self.source = member_source(team.key, self.member)
        self._events = WorkEvents(team.key, member, self.directory, self.source)
        self.tools = team.store_tools(host.store, member)
        self.slots = slots
        self._nested = nested
        self.claim_next = True
        self.put_off: Callable[[], object] = _nothing
        """Called when work was put off, so that somebody looks when it is due."""
        self.parking = False
        """Whether what is cut off is to be handed back: this process is leaving."""
        self._recorders: set[Recorder] = set()
        self._tracing = StoreTracing(host, team)

    def park(self) -> None:
        """From now on, what is cancelled is handed back as it stands."""
        self.parking = True
        self.claim_next = False
        for recorder in self._recorders:
            recorder.freeze()

    async def work_one(self, claim: Claim) -> Claim | None:
        """Work an item to its end, and return the next claim of the mailbox if one came with it.

        Raises:
            LeaseLostError: the lease was lost; somebody else goes on with the item, or it was cancelled.
        """
        with self.host.instruments.working(claim):
            return await self._work_one(claim)

    async def _work_one(self, claim: Claim) -> Claim | None:
        held = self.host.hold(claim.lease)
        work = None
        try:
            work = await self._begin(claim, held)
            ending = await self._perform(work)
            if ending.retry_in is not None:
                await self._postpone(work, ending, ending.retry_in)
                return None
            settled = await self._settle(work, ending)
            return settled.next[0] if settled.next else None
        except asyncio.CancelledError:
            if self.parking:
                await self._hand_back(held, work)
            raise
        except LeaseLostError:
            if held.broken:
                await self._hand_back(held, None)
            raise
        except RunParkedError as error:
            await self._hand_back(held, work)
            raise LeaseLostError(cause=error) from error
        finally:
            if work is not None:
                self._recorders.discard(work.recorder)
                await work.recorder.close()
            self.host.release(held)

    # --- beginning ----------------------------------------------------------------------------------------------

    async def _begin(self, claim: Claim, held: Held) -> _Work:
        item = claim.item
        state = None
        if claim.started or item.shared:
            state = await held.guard(self.host.store.load(item.conversation))
        recorder = Recorder(self.host, held, item.conversation, state)
        self._recorders.add(recorder)
        trace = self._tracing.joined(item)
        limit = self.team.max_concurrent_work_items
        post = StorePost(self.host, held, recorder, item.message.run_id, limit=limit, trace=trace)
        actor = Actor(
            name=self.member.key,
            agent=self.member.agent,
            source=self.source,
            mailbox=str(self.member.mailbox_id),
            conversation=item.conversation,
            directory=self.directory,
            signal=held.controller.signal,
            run_id=item.message.run_id,
            post=post,
            item=item,
            depth=item.depth,
            max_depth=self.team.max_delegate_depth,
            chain=item.chain,
            permissions=granted_permissions(item.message),
            tools=self.tools,
            query_options=self._tracing.options(self.member.agent, trace),
            max_message_bytes=self.host.max_message_bytes,
            leave=self.slots.left,
            meter=await self._meter(item, held),
        )
        held.listen(note=actor.alert)
        work = _Work(claim, held, state, recorder, post, actor)
        try:
            work.session = open_session(
                self.member.agent, item.conversation, history_store=recorder.history, journal=recorder.journal
            )
        except AgentSetupError as error:
            work.broken = error
        if not isinstance(work.session, Agent):
            actor.tools = ()
        return work

    async def _meter(self, item: WorkItem, held: Held) -> Meter | None:
        """Mail brings no account along: it is paid by the run that it was sent in."""
        account = item.account
        if account is None and item.mode == "message" and item.message.run_id is not None:
            run = await held.guard(self.host.store.get_run(item.message.run_id))
            account = None if run is None else account_of(run, self.team.budget, self.host.space)
        return None if account is None else Meter(self.host.purse(held, account))

    async def _opening(self, work: _Work) -> Any:
        """Return what the session is asked: the task once, the reports that it waits for, or to go on."""
        claim, message = work.claim, work.claim.item.message
        if self._nested is not None:
            return self._envelope(work)
        if claim.batch is not None and not claim.delivered:
            async with work.actor.waiting():
                reports = await work.post.reports_of(claim.batch)
            return await resumed(work.actor, reports)
        entered = work.state is not None and message.id in work.state.entered
        if entered and isinstance(work.session, Agent):
            return RESUME
        work.recorder.once = message.id
        return self._envelope(work)

    def _envelope(self, work: _Work) -> str:
        item, member = work.claim.item, self.member
        grants = (work.actor.permissions or {}).get("workspace_grants", ())
        if item.mode != "message":
            return task_envelope(item.message, delegate=member.key, grants=grants)
        return drain_envelope(
            item.message,
            member=member.key,
            role=member.role,
            focus=member.focus,
            has_mailbox_tools=bool(work.actor.tools),
            grants=grants,
        )

    # --- working ------------------------------------------------------------------------------------------------

    async def _perform(self, work: _Work) -> Ending:
        """Drive the member to its answer; whatever it raises is the answer too."""
        await self._events.claimed(work.post, work.claim.item.message)
        if work.broken is not None:
            _log.error("%s fails for good: %s", work.claim.item.message.id, work.broken.message)
            return ending_of(work.actor, None, work.broken)
        timer = self._deadline(work.held)
        try:
            ending = await self._attempt(work, None)
            delay = self._retry_delay(work, ending)
            if delay is not None:
                return replace(ending, retry_in=delay)
            if work.claim.item.mode == "message" and work.actor.tools:
                ending = self._answered(work, ending)
            return await self._within_limit(work, ending)
        finally:
            if timer is not None:
                timer.cancel()

    async def _attempt(self, work: _Work, opening: Any) -> Ending:
        try:
            answer = await self._ask(work, await self._opening(work) if opening is None else opening)
        except (LeaseLostError, RunParkedError):
            raise
        except Exception as error:
            if work.held.lost:
                raise LeaseLostError from error
            return ending_of(work.actor, None, self._cause(work.held, error))
        if work.held.lost:
            raise LeaseLostError
        return ending_of(work.actor, answer, self._cause(work.held, answer.error))

    async def _ask(self, work: _Work, opening: Any) -> Answer:
        if self._nested is None:
            return await drive(work.actor, work.session, opening)
        if work.claim.retries:
            await work.held.guard(self._nested.reopen(work.claim.item.message.id))
        return await self._nested.work(work.actor, work.held, work.recorder, work.state, opening)

    def _retry_delay(self, work: _Work, ending: Ending) -> float | None:
        """Seconds until the work is tried again, None if this is its end."""
        if ending.status is not MessageStatus.FAILED or work.held.lost:
            return None
        return self.member.retry.delay(ending.error, work.claim.retries)

    async def _postpone(self, work: _Work, ending: Ending, delay: float) -> None:
        """Put the work off: nobody holds it until it is due."""
        assert ending.failure is not None
        failure, message = ending.failure, work.claim.item.message
        code = retry_code(ending.error)
        _log.info("%s of %s is tried again in %.1f s: %s", message.id, self.member.key, delay, failure.message)
        self._events.put_off(work.post, message, failure)
        async with work.recorder.writing():
            work.held.ending = True
            reason, step = f"{code}: {failure.message}", work.recorder.kept
            held, delay_ms = work.held, max(1, round(delay * 1000))
            word = await held.guard(self.host.store.postpone(held.lease, delay_ms, reason, step))
        if word == "stale":
            work.held.lose(LeaseLostError())
            raise LeaseLostError
        self.put_off()

    def _answered(self, work: _Work, ending: Ending) -> Ending:
        """Mail is ended by ``team_reply`` and left open after ``team_followup``; plain words reach nobody."""
        message = work.claim.item.message
        if work.actor.reply is not None or ending.status is MessageStatus.CANCELLED:
            return ending
        if message.id in work.actor.followed_up and ending.status is MessageStatus.DONE:
            return Ending(status=MessageStatus.PROCESSING)
        reason = ending.failure.message if ending.failure is not None else ending.report or ""
        text = unanswered(self.member.key, reason)
        failure = ending.failure or AgentRuntimeFailure("agent_error", text, "LatticeError")
        return Ending(status=MessageStatus.FAILED, report=text, failure=failure)

    @staticmethod
    def _cause(held: Held, error: Any) -> Any:
        """Return the deadline instead of the abort that it caused."""
        reason = held.controller.signal.reason
        return reason if isinstance(reason, DeadlineError) else error

    async def _within_limit(self, work: _Work, ending: Ending) -> Ending:
        """Tell the author of a report that is too large, once; then it is a failure."""
        limit = self.host.max_message_bytes
        size = len((ending.report or "").encode())
        if size <= limit:
            return ending
        error = SizeLimitError("your report", size, limit)
        if isinstance(work.session, Agent) and not work.actor.signal.aborted:
            work.actor.reply = None
            ending = await self._attempt(work, f"{error.message} Answer with a shorter report.")
            if len((ending.report or "").encode()) <= limit:
                return ending
        return ending_of(work.actor, None, error)

    def _deadline(self, held: Held) -> asyncio.TimerHandle | None:
        limit = self.member.timeout_ms
        if limit is None:
            return None
        error = DeadlineError(f"The work item took longer than {limit}ms")
        return asyncio.get_running_loop().call_later(limit / 1000, held.controller.abort, error)

    # --- ending -------------------------------------------------------------------------------------------------

    async def _settle(self, work: _Work, ending: Ending) -> Settled:
        message = work.claim.item.message
        report_id = derive_id("report", message.id)
        work.recorder.ending = True
        await self._events.ended(work.post, message, ending, report_id)
        may_claim = self.claim_next and not self.slots.wanted
        claim_next = (self.member.queue, self.host.process_id, self.host.lease_ms) if may_claim else None
        outcome = ending.outcome(report_id)
        async with work.recorder.writing():
            work.held.ending = True
            step = work.recorder.take(end=True)
            settled = await self._to_the_end(self._surely(work.held, outcome, step, claim_next))
        if settled.word == "stale":
            work.held.lose(LeaseLostError())
            raise LeaseLostError
        _log_ending(ending)
        return settled

    async def _to_the_end(self, settling: Coroutine[Any, Any, Settled]) -> Settled:
        """Settle even if the work is cut off meanwhile: then what came along is given back at once."""
        task = asyncio.ensure_future(settling)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self.parking:
                await self.give_back((await task).next)
            raise

    async def _surely(self, held: Held, outcome: Any, step: Any, claim_next: Any) -> Settled:
        """Settle; repeat it while the store is away and the lease lasts: settling twice is settling once."""
        pause = 0.1
        while True:
            try:
                return await self.host.store.settle(held.lease, outcome, step, claim_next=claim_next)
            except SizeLimitError:
                raise
            except Exception as error:
                if held.lost or time.monotonic() > held.valid_until + self.host.lease_ms / 1000:
                    raise LeaseLostError(cause=error) from error
                _log.warning("settling %s failed, trying again: %s", held.lease.id, describe(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)

    async def give_back(self, claims: Iterable[Claim]) -> None:
        """Give back what was claimed and not begun; if the store is away, the leases run out by themselves."""
        for claim in claims:
            try:
                await asyncio.shield(self.host.store.hand_back(claim.lease))
            except Exception as error:  # noqa: BLE001 - the lease runs out by itself
                _log.warning("%s could not be handed back: %s", claim.lease.id, describe(error))

    async def _hand_back(self, held: Held, work: _Work | None) -> None:
        """Give the item back; if the store is away its lease runs out by itself."""
        step = work.recorder.kept if work is not None and not held.lost else None
        try:
            await asyncio.shield(self.host.store.hand_back(held.lease, step))
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            _log.warning("%s could not be handed back: %s", held.lease.id, describe(error))


def _log_ending(ending: Ending) -> None:
    """Say how a work item ended; the text of a failure may quote what was worked on: only code and name are told."""
    if ending.failure is None:
        _log.info("work item %s", ending.status)
    else:
        _log.warning("work item %s: %s (%s)", ending.status, ending.failure.code, ending.failure.name)


def _nothing() -> None:
    return
