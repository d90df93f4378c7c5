"""The work items of a run in this process: their turns, the members at work on them, and how they end."""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lattice.abort import AbortSignal
from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.errors import AbortError, LatticeError, SizeLimitError
from lattice.events import TeamAgentEvent, TeamMessageEvent
from lattice.mailbox import MessageStatus
from lattice.runs import Step
from lattice.team.actor import Actor
from lattice.team.crew import Crew, Job
from lattice.team.deadlines import GRACE
from lattice.team.endings import Ending, ending_of
from lattice.team.grants import granted_permissions
from lattice.team.leg import RESUME, Opening, drive, spawn
from lattice.team.local_post import Handoff, LocalPost, Office
from lattice.team.prompts import task_envelope

__all__ = ["LEASE_MS", "OWNER", "LocalWork"]

_log = logging.getLogger("lattice.team")

OWNER = "local"
LEASE_MS = 2**40


class LocalWork:
    """Works what a run's actors hand off or ask."""

    def __init__(self, run: Office) -> None:
        self._run = run
        self._crew = Crew(run.plan.max_concurrent_work_items)

    async def work(self, handoffs: Sequence[Handoff], parent: Job | None, *, asked: bool) -> None:
        """Have work items worked on; returns when all of them have ended.

        Raises:
            AbortError: the run was aborted; everything has ended as done, failed or cancelled.
            LatticeError: an ask would wait for somebody who waits for it.
        """
        jobs = [_job(handoff, parent, asked=asked) for handoff in handoffs]
        if asked:
            await self._enter_question(handoffs[0], jobs[0])
        tasks = [
            asyncio.get_running_loop().create_task(self._work_one(handoff, job, entered=asked))
            for handoff, job in zip(handoffs, jobs, strict=True)
        ]
        await self._all_ended(tasks, handoffs[0].signal)
        if self._run.signal.aborted:
            raise AbortError("Operation aborted", cause=self._run.signal.reason)

    async def _enter_question(self, handoff: Handoff, job: Job) -> None:
        try:
            self._crew.enter(job)
        except LatticeError:
            self._crew.leave(job)
            await self._run.cancel(handoff)
            raise

    async def _all_ended(self, tasks: Sequence["asyncio.Task[None]"], signal: AbortSignal) -> None:
        """Wait for tasks; when one breaks, or this is cancelled, the run is over: the others are stopped.

        Where ``signal`` has fired it is only this work that is over; who does not heed it is cut off after a while.
        """
        loop = asyncio.get_running_loop()
        forget = signal.add_listener(lambda: loop.call_soon_threadsafe(loop.call_later, GRACE, _cancel, tasks))
        try:
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            if not signal.aborted:
                self._run.controller.abort()
            await _stop(tasks)
            raise
        finally:
            forget()
        broken = [task for task in done if not task.cancelled() and task.exception() is not None]
        if pending:
            self._run.controller.abort()
            await _stop(tasks)
        for task in broken:
            error = task.exception()
            assert error is not None
            raise error

    # --- one work item ------------------------------------------------------------------------------------------

    async def _work_one(self, handoff: Handoff, job: Job, *, entered: bool) -> None:
        run = self._run
        started = False
        try:
            if not entered:
                self._crew.enter(job)
            await self._turn(job, handoff.signal)
            if not handoff.signal.aborted and not run.is_interrupted:
                started = True
                await self._perform(handoff, job)
        except Exception:
            # The mailbox broke: the run is over, and nothing that was accepted may look as if somebody worked on it.
            run.controller.abort()
            started = False
            raise
        finally:
            self._crew.leave(job)
            if not started:
                await asyncio.shield(run.cancel(handoff))

    async def _turn(self, job: Job, signal: AbortSignal) -> None:
        """Wait for the turn of a job, or for the signal that it is not to come."""
        if job.turn.done():
            return
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if not job.turn.done():
                job.turn.set_result(None)

        forget = signal.add_listener(lambda: loop.call_soon_threadsafe(stop))
        try:
            await job.turn
        finally:
            forget()

    async def _perform(self, handoff: Handoff, job: Job) -> None:
        run, item = self._run, handoff.item
        claim = await run.store.claim_message(item.message.id, OWNER, LEASE_MS)
        if claim is None:  # somebody ended it from outside
            return
        message = claim.item.message
        source = run.plan.source_of(item.member, message.to)
        caller = run.plan.caller_of(message.from_)
        await run.tell(TeamMessageEvent("claimed", caller, message.to, message.to_dict()))
        await run.tell(TeamAgentEvent("started", source))
        post = LocalPost(run, run.events.put, claim.lease, job, handoff.signal)
        actor = self._actor(handoff, post, source, job)
        try:
            with run.plan.alerts.listening(actor.mailbox, actor):
                ending = await self._answer(actor, handoff, post)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(handoff, post, Ending(status=MessageStatus.CANCELLED), source))
            raise
        await self._end(handoff, post, ending, source)

    def _actor(self, handoff: Handoff, post: LocalPost, source: dict[str, Any], job: Job) -> Actor:
        plan, item = self._run.plan, handoff.item
        return Actor(
            name=item.member,
            agent=handoff.agent,
            source=source,
            mailbox=item.message.to,
            conversation=item.conversation or item.message.id,
            directory=plan.directory,
            signal=handoff.signal,
            run_id=None,
            post=post,
            item=item,
            depth=item.depth,
            max_depth=plan.max_delegate_depth,
            chain=item.chain,
            permissions=granted_permissions(item.message),
            tools=plan.tools_for(item.message.to, handoff.agent),
            query_options=self._run.options(dict(plan.shared_options)),
            max_message_bytes=plan.max_message_bytes,
            leave=lambda: self._crew.waiting(job),
            meter=self._run.meter(),
        )

    async def _answer(self, actor: Actor, handoff: Handoff, post: LocalPost) -> Ending:
        agent = handoff.agent
        grants = (actor.permissions or {}).get("workspace_grants", ())
        try:
            session = spawn(agent) if is_agent_spec(agent) else agent
        except Exception as error:  # noqa: BLE001 - a member that cannot be made fails its work, not the run
            return ending_of(actor, None, error)
        opening: Opening = task_envelope(handoff.item.message, delegate=handoff.item.member, grants=grants)
        ending = await self._attempt(actor, session, opening, post)
        again = RESUME if isinstance(session, Agent) else opening
        for retries in itertools.count():
            delay = self._retry_delay(handoff, ending, retries)
            if delay is None:
                break
            async with actor.waiting():
                await self._pause(delay, handoff.signal)
            ending = await self._attempt(actor, session, again, post)
        if ending.status is MessageStatus.FAILED and handoff.signal.aborted:
            return Ending(status=MessageStatus.CANCELLED)
        size, limit = len((ending.report or "").encode()), self._run.plan.max_message_bytes
        return ending if size <= limit else ending_of(actor, None, SizeLimitError("the report", size, limit))

    async def _attempt(self, actor: Actor, session: Any, opening: Opening, post: LocalPost) -> Ending:
        try:
            answer = await drive(actor, session, opening)
            return ending_of(actor, answer, answer.error)
        except Exception as error:  # noqa: BLE001 - whatever a member raises is the failure of its work item
            return ending_of(actor, None, error)
        finally:
            await asyncio.shield(post.give_up())

    def _retry_delay(self, handoff: Handoff, ending: Ending, retries: int) -> float | None:
        """Seconds until the work is tried again, None if this is its end."""
        member = self._run.plan.directory.at(handoff.item.message.to)
        if member is None or ending.status is not MessageStatus.FAILED or handoff.signal.aborted:
            return None
        return member.retry.delay(ending.error, retries)

    async def _pause(self, seconds: float, signal: AbortSignal) -> None:
        """Wait, unless the work is stopped meanwhile; then the next try ends at once."""
        with suppress(AbortError):
            await signal.race(asyncio.sleep(seconds))

    async def _end(self, handoff: Handoff, post: LocalPost, ending: Ending, source: dict[str, Any]) -> None:
        run, message = self._run, handoff.item.message
        await run.tell(TeamAgentEvent("finished", source))
        step = Step(conversation=handoff.item.conversation)
        settled = await run.store.settle(post.lease, ending.outcome(), step)
        if settled.word != "settled":
            return
        error = None if ending.failure is None else ending.failure.to_dict()
        ended = await run.store.get(message.id) or message.evolve(status=ending.status)
        await run.tell(TeamMessageEvent(str(ended.status), source, message.to, ended.to_dict(), error))
        if ending.report is not None:
            report = await run.report(handoff)
            await run.tell(TeamMessageEvent("replied", source, message.from_, report.to_dict(), error))


def _job(handoff: Handoff, parent: Job | None, *, asked: bool) -> Job:
    keys: set[Any] = set() if is_agent_spec(handoff.agent) else {id(handoff.agent)}
    if not asked:
        keys.add(handoff.item.message.to)
    return Job(frozenset(keys), parent=parent, takes_place=not asked)


def _cancel(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()


async def _stop(tasks: Sequence["asyncio.Task[None]"]) -> None:
    _, pending = await asyncio.wait(tasks, timeout=GRACE)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            _log.debug("a work item ended with %r", task.exception())
