"""A member that is itself a team, in a worker process: its runs live in a key space of their own.

The worker that drains the member's mailbox drives the inner lead and works the inner members; others may help. What
happens inside is forwarded to the outer run's events, each event once, whoever dies.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from lattice.abort import end_tasks
from lattice.encoding import decode
from lattice.errors import AbortError, LatticeError, LeaseLostError, RunHeldError
from lattice.events import AgentMessageEvent, event_from_dict
from lattice.ids import derive_id
from lattice.run_store import EVENTS_DROPPED, FAR_BEHIND, RUN_ENDED, RunStore
from lattice.runs import ConversationState, RunRecord, RunStatus, WorkItem, run_conversation
from lattice.team.actor import Actor
from lattice.team.answers import Answer
from lattice.team.delegates import DelegateWorkers, delegates_behind
from lattice.team.failures import describe
from lattice.team.host import Held, Host
from lattice.team.lead import LeadDriver
from lattice.team.recording import Recorder
from lattice.team.team import Team

__all__ = ["NestedTeam", "key_spaces", "nested_key", "teams_by_key_space"]

_log = logging.getLogger("lattice.team")
_SLICE_MS = 2_000
_LOOK = 0.5
"""Seconds between two looks whether the lease on an inner run, whose driver died, has run out."""

_TEAM_EVENTS = frozenset({"team_message", "team_agent", "agent_message"})


MakeWorker = Callable[..., Any]


def nested_key(outer: str, member: str) -> str:
    """Return the key space of a team that is a member of another; no team's own name looks like it."""
    return f"{outer}.{member}"


def nested_run(message_id: str) -> str:
    """Return the id of the run that a nested team works on an item of the outer team with."""
    return derive_id("nested", message_id)


def key_spaces(team: Team) -> list[str]:
    """Return the key spaces of a team and of the teams inside it, the outermost first."""
    return list(teams_by_key_space(team))


def teams_by_key_space(team: Team) -> dict[str, Team]:
    """Return a team and the teams inside it, each under its key space, the outermost first."""
    return dict(_spaces(team, team.key, ()))


def _spaces(team: Team, space: str, outer: tuple[Team, ...]) -> Iterator[tuple[str, Team]]:
    yield space, team
    within = (*outer, team)
    agents = (team.lead, *(member.agent for member in team.members))
    behind = [definition for agent in agents for definition in delegates_behind(agent, team.directory)]
    for definition in (*team.members, *behind):
        if isinstance(definition.agent, Team) and definition.agent not in within:
            yield from _spaces(definition.agent, nested_key(space, definition.key), within)


class NestedTeam:
    """The part of a nested team that one worker process carries."""

    def __init__(self, outer: Host, team: Team, key: str, make_worker: MakeWorker) -> None:
        assert outer.open_team is not None, "a nested team needs a store of its own"
        open_team = outer.open_team
        self._team = team
        self._outer = outer
        self._key = key
        self._store: RunStore = open_team(key)
        self._host = Host(
            self._store,
            process_id=outer.process_id,
            lease_ms=outer.lease_ms,
            open_store=(lambda: open_team(key)) if outer.is_threaded else None,
            open_team=open_team,
            space=key,
            spaces=outer.spaces,
            instruments=outer.instruments,
            tracer=outer.tracer,
        )
        self._driver = LeadDriver(self._host, team)
        self._workers = [make_worker(self._host, team, member.key) for member in team.members]
        self._delegates = DelegateWorkers(self._host, team, make_worker)
        self._delegates.serve(team.lead)
        self._tasks: list[asyncio.Task[None]] = []
        self._worked: dict[str, Held] = {}
        """The leases on outer items that are worked on here, by inner run."""
        self._look_at = 0.0

    async def start(self) -> None:
        """Begin to work the inner members' mailboxes."""
        await self._host.start()
        self._delegates.start()
        self._tasks = [asyncio.get_running_loop().create_task(worker.run()) for worker in self._workers]

    async def stop(self, timeout_s: float) -> None:
        """Hand over the inner runs and whatever the inner members do not finish in time."""
        await self.leave()
        await self._delegates.stop()
        await asyncio.gather(*(worker.drain(timeout_s) for worker in self._workers))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._host.stop()
        await self._store.close()

    async def leave(self) -> None:
        """Hand over the inner runs; those who wait for them here hear ``RunParkedError``."""
        await self._driver.hand_over()

    async def end_orphans(self, *, now: bool) -> None:
        """Cancel inner runs whose outer item has ended without them: its worker was lost, and nobody told them.

        Looks once a lease at most, or ``now``. What is worked on here hears of its end in another way.
        """
        if now:
            self._look_at = 0.0
        if time.monotonic() < self._look_at:
            return
        for run_id, message_id in await self._store.nested_runs():
            held = self._worked.get(run_id)
            if held is not None and not held.lost:
                continue
            message = await self._outer.store.get(message_id)
            if message is None or message.status.is_terminal:
                _log.info("nested run %s is cancelled: the work that it belongs to has ended", run_id)
                await self._store.cancel_run(run_id, "the work that it belongs to has ended")
        self._look_at = time.monotonic() + self._host.lease_ms / 1000

    # --- one work item of the outer team --------------------------------------------------------------------------

    async def work(
        self, actor: Actor, held: Held, recorder: Recorder, state: ConversationState | None, prompt: str
    ) -> Answer:
        """Have the inner team work on an item, and return its lead's answer.

        Raises:
            LeaseLostError: the item is not ours any more.
            RunParkedError: this process is leaving.
        """
        assert actor.item is not None
        run_id = nested_run(actor.item.message.id)
        await held.guard(self._store.start_run(self._record(run_id, actor, actor.item, prompt)))
        forwarding = asyncio.get_running_loop().create_task(self._forward(run_id, actor, recorder, state))
        self._worked[run_id] = held
        try:
            outcome = await self._drive(run_id, held, actor)
            await forwarding
        finally:
            if self._worked.get(run_id) is held:
                del self._worked[run_id]
            await end_tasks([forwarding])
        record = await self._store.get_run(run_id)
        recorder.add_usage(outcome.get("usage"))
        if record is not None and record.status is RunStatus.CANCELLED:
            raise AbortError("The nested run was cancelled")
        if record is None or record.result is None:
            raise LatticeError(f"the nested run {run_id} ended without a result")
        return Answer(event_from_dict(record.result))

    async def reopen(self, message_id: str) -> None:
        """Let the inner run of an item go on from its last recorded step, if it failed."""
        await self._store.reopen_run(nested_run(message_id))

    def _record(self, run_id: str, actor: Actor, item: WorkItem, prompt: str) -> RunRecord:
        options: dict[str, Any] = {"depth": item.depth, "max_depth": actor.max_depth}
        if actor.permissions is not None:
            options["permissions"] = actor.permissions
        if actor.account is not None:
            options["account"] = actor.account.to_list()
        if item.trace is not None:
            options["trace"] = item.trace
        return RunRecord(
            id=run_id,
            team=self._key,
            task=prompt,
            conversation=run_conversation(run_id),
            options=options,
            traceparent=self._host.instruments.traceparent(),
            outer_item=item.message.id,
        )

    async def _drive(self, run_id: str, held: Held, actor: Actor) -> dict[str, Any]:
        """Drive the inner run; one whose driver died is taken over as soon as its lease has run out."""
        loop = asyncio.get_running_loop()
        forget = held.controller.signal.add_listener(lambda: loop.call_soon_threadsafe(self._cancel, run_id, held))
        try:
            while True:
                try:
                    return await self._driver.drive(run_id, leave=actor.leave)
                except RunHeldError:
                    await asyncio.sleep(min(self._host.lease_ms / 4000, _LOOK))
                    if held.lost:
                        raise LeaseLostError from None
        finally:
            forget()

    def _cancel(self, run_id: str, held: Held) -> None:
        """The outer item was cancelled: so is the inner run. A lost lease means that somebody else goes on with it."""
        reason = held.controller.signal.reason
        if isinstance(reason, LeaseLostError) or held.broken:
            return
        task = asyncio.get_running_loop().create_task(self._cancel_quietly(run_id))
        task.add_done_callback(self._tasks.remove)
        self._tasks.append(task)

    async def _cancel_quietly(self, run_id: str) -> None:
        try:
            await self._store.cancel_run(run_id, "the work that it belongs to was cancelled")
        except Exception as error:  # noqa: BLE001 - its own deadline or lease ends it
            _log.warning("nested run %s could not be cancelled: %s", run_id, describe(error))

    # --- events -------------------------------------------------------------------------------------------------

    async def _forward(self, run_id: str, actor: Actor, recorder: Recorder, state: ConversationState | None) -> None:
        """Copy the inner run's events to the outer run's, with the place where the copying stands.

        Where some are not kept any more, that is told as it is to a reader of the inner run.
        """
        offset = "0" if state is None or not state.messages else str(decode(state.messages[-1])["content"])
        first = True
        while True:
            events = await self._store.read_events(run_id, offset, block_ms=_SLICE_MS)
            if not events:
                continue
            if first or len(events) >= FAR_BEHIND:
                lost = await self._store.lost_events(run_id, offset)
                if lost:
                    recorder.emit({"type": EVENTS_DROPPED, "dropped": lost})
            first = False
            offset, last = events[-1]
            ended = last["type"] == RUN_ENDED
            for _, event in events[:-1] if ended else events:
                recorder.emit(_as_seen_outside(event, actor.source))
            recorder.add_message({"role": "user", "content": offset})
            if ended:
                return


def _as_seen_outside(event: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """The inner lead speaks as the outer member; what the inner team tells stays as it is."""
    if event["type"] in _TEAM_EVENTS:
        return event
    if event["type"] == "stream_event":
        return event if event.get("source") else {**event, "source": source}
    return AgentMessageEvent(source, event).to_dict()
