"""One team call in this process: the lead from its prompt to its final result, the members as tasks beside it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from lattice.abort import AbortController, AbortSignal
from lattice.agent.spec import is_agent_spec
from lattice.errors import AbortError, DeadlineExceededError, StoreError
from lattice.events import SDKResultMessage, TeamMessageEvent
from lattice.ids import new_id
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.run_store import MemoryRunStore
from lattice.runs import Account, RunRecord, TakenRun
from lattice.team.actor import Actor
from lattice.team.answers import Answer
from lattice.team.event_queue import EventQueue
from lattice.team.leg import drive
from lattice.team.local_post import Handoff, LocalPost, live_conversation
from lattice.team.local_work import LEASE_MS, OWNER, LocalWork
from lattice.team.metering import Meter, Purse
from lattice.team.plan import RunPlan
from lattice.team.recording import add_tokens
from lattice.team.run_trace import RunTrace

__all__ = ["LocalRun"]


class LocalRun:
    """Carries out a plan once; ``events`` holds what happens, and ends with it."""

    def __init__(self, plan: RunPlan, prompt: Any, signal: AbortSignal | None) -> None:
        self.plan = plan
        self.prompt = prompt
        self.events = EventQueue()
        self.store = MemoryRunStore(plan.mailbox)
        self.controller = AbortController()
        self.signal = AbortSignal.any([signal, self.controller.signal])
        self.trace = RunTrace(plan.tracer, plan.source, plan.trace_parent)
        self.purse = plan.purse
        self.total_usage: dict[str, int] = {"input_tokens": 0, "output_tokens": 0}
        self._crew = LocalWork(self)
        self._lead: tuple[Actor, Any] | None = None

    async def main(self) -> None:
        """Run to the end; the events end with it.

        Raises:
            AbortError: the caller's signal fired.
            Exception: whatever came out of the lead's query, or of the mailbox.
        """
        try:
            await self._main()
        except Exception as error:
            await self.trace.fail(error)
            raise
        finally:
            self._lead = None
            self.signal.release()
            self.events.end()

    def interrupt(self) -> bool:
        """Make no further call of the lead; False if it is ending already."""
        if self._lead is None:
            return False
        actor, session = self._lead
        stop = getattr(session, "interrupt", None)
        stopped = bool(stop()) if callable(stop) else False
        if not stopped and not actor.resting:
            return False
        actor.interrupted = True
        return True

    @property
    def is_interrupted(self) -> bool:
        """Whether the lead is not going to be called again."""
        return self._lead is not None and self._lead[0].interrupted

    # --- the lead -----------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self.trace.start(self.plan.trace_data, self.prompt)
        self.signal.throw_if_aborted()
        run_id = new_id()
        await self.store.start_run(RunRecord(id=run_id, team=self.plan.directory.team, task=""))
        taken = await self.store.take_run(run_id, OWNER, LEASE_MS)
        assert isinstance(taken, TakenRun)
        post = LocalPost(self, self.events.put, taken.lease, None, self.signal)
        if self.purse is None and self.plan.budget:
            self.purse = Purse(Account("", run_id, self.plan.budget), self.store)
        answer = self._with_total(await self._in_time(self._drive_lead(post)))
        if self.signal.aborted:
            raise AbortError("Operation aborted", cause=self.signal.reason)
        self.events.put(answer.event)
        await post.give_up()
        await self.trace.end(answer)

    async def _in_time(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Stop the run when its time is up.

        Raises:
            DeadlineExceededError: it was.
        """
        limit = self.plan.budget.max_seconds if self.plan.purse is None else None
        if limit is None:
            return await work
        error = DeadlineExceededError(f"The run took longer than its {limit:g} seconds")
        timer = asyncio.get_running_loop().call_later(limit, self.controller.abort, error)
        try:
            answer = await work
        except AbortError:
            if self.controller.signal.reason is error:
                raise error from None
            raise
        finally:
            timer.cancel()
        if self.controller.signal.reason is error:
            raise error
        return answer

    def meter(self) -> Meter | None:
        """Return what one actor of this run draws from."""
        return None if self.purse is None else Meter(self.purse)

    async def _drive_lead(self, post: LocalPost) -> Answer:
        actor = self._lead_actor(post)
        lead = self.plan.lead
        session = lead.spawn() if is_agent_spec(lead) else lead
        self._lead = actor, session
        try:
            with self.plan.alerts.listening(actor.mailbox, actor):
                return await drive(actor, session, self.prompt)
        except BaseException:
            await asyncio.shield(post.give_up())
            raise
        finally:
            self._lead = None

    def _lead_actor(self, post: LocalPost) -> Actor:
        plan = self.plan
        return Actor(
            name=str(plan.source["name"]),
            agent=plan.lead,
            source=plan.source,
            mailbox=str(plan.source["mailbox"]),
            conversation=live_conversation(plan.lead),
            directory=plan.directory,
            signal=self.signal,
            run_id=None,
            post=post,
            depth=plan.depth,
            chain=plan.chain,
            max_depth=plan.max_delegate_depth,
            permissions=plan.permissions,
            tools=plan.lead_tools,
            query_options=self.options({**plan.shared_options, **plan.lead_options}),
            max_message_bytes=plan.max_message_bytes,
            meter=self.meter(),
        )

    def _with_total(self, answer: Answer) -> Answer:
        if isinstance(answer.event, SDKResultMessage):
            return Answer(replace(answer.event, total_usage=dict(self.total_usage)))
        return answer

    # --- what posts and work items need -------------------------------------------------------------------------

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return query options with what ties an agent's trace to this run's."""
        if self.plan.tracer is None:
            return options
        return {**options, "tracer": self.plan.tracer, "trace_parent": self.trace.parent}

    async def tell(self, event: Any) -> None:
        """Tell an event of the team."""
        self.events.put(event)
        if isinstance(event, TeamMessageEvent):
            await self.trace.message(event)

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the total."""
        self.total_usage = add_tokens(self.total_usage, usage)

    async def room(self) -> None:
        """Wait while the listener is far behind."""
        await self.events.room()

    async def work(self, handoffs: list[Handoff], job: Any, *, asked: bool) -> None:
        """Have work items worked on, until all have ended."""
        await self._crew.work(handoffs, job, asked=asked)

    async def report(self, handoff: Handoff) -> TeamMessage:
        """Return the report on a work item that has ended, or the cancelled item itself.

        Raises:
            StoreError: the mailbox does not find it.
        """
        _, reports = await self.store.resume(handoff.lease, handoff.batch_id)
        if not reports:
            item = handoff.item.message
            raise StoreError(f"the mailbox does not find how message {item.id!r} to {item.to!r} ended; get() must")
        return reports[0]

    async def cancel(self, handoff: Handoff) -> None:
        """Cancel a work item that nobody works on."""
        message = handoff.item.message
        if await self.store.update_status(message.id, MessageStatus.CANCELLED):
            ended = message.evolve(status=MessageStatus.CANCELLED)
            source = self.plan.source_of(handoff.item.member, message.to)
            await self.tell(TeamMessageEvent("cancelled", source, message.to, ended.to_dict()))
