"""A member's worker: claims the work items of one mailbox, works several at a time, settles them."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lattice.abort import end_tasks
from lattice.errors import LeaseLostError
from lattice.runs import Claim
from lattice.team.definition import TeamMemberDefinition
from lattice.team.delegates import DelegateWorkers
from lattice.team.failures import describe
from lattice.team.host import Host
from lattice.team.member import MemberWork
from lattice.team.nested import NestedTeam, nested_key
from lattice.team.slots import Slots
from lattice.team.team import Team
from lattice.team.upkeep import LeaseWatch

__all__ = ["MemberWorker"]

_log = logging.getLogger("lattice.team")

_SHORTEST_SLICE_MS, _LONGEST_SLICE_MS = 1_000, 5_000
_LONGEST_PAUSE = 5.0
_MOST_WAITING = 1_000
"""How many work items may wait for work that they handed off themselves; beyond it no more are claimed."""


class MemberWorker:
    """Works one member's mailbox until it is told to stop.

    At most ``concurrency`` items are worked on at once; an item that waits for others does not count. Every ``tick_ms``
    (and when a lease runs out) expired leases are freed and forgotten runs removed; ``on_tick`` is called then. Of a
    member that is a team, runs that nobody waits for any more are cancelled.
    """

    def __init__(
        self,
        host: Host,
        team: Team,
        member: str | TeamMemberDefinition,
        *,
        concurrency: int = 1,
        tick_ms: int = 1_000,
        on_tick: Callable[[], object] | None = None,
    ) -> None:
        self.host = host
        self.slots = Slots(concurrency)
        definition = team.directory.require(member) if isinstance(member, str) else member
        self._nested = self._nest(host, team, definition, concurrency, tick_ms)
        self._work = MemberWork(host, team, definition, self.slots, self._nested)
        self.member = definition.queue
        self._delegates = DelegateWorkers(host, team, MemberWorker, concurrency=concurrency, tick_ms=tick_ms)
        if isinstance(member, str):
            self._delegates.serve(definition.agent)
        self._tick = tick_ms / 1000
        self._leases = LeaseWatch(host.store, host.process_id, host.lease_ms, longest=self._tick, runs=False)
        self._look = asyncio.Event()
        self._work.put_off = self._look.set
        self._on_tick = on_tick
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = True
        self._waiting: asyncio.Future[list[Claim]] | None = None
        self._asking_since: float | None = None
        """Since when the mailbox has been asked, or waited at, without an answer."""
        self.settled = 0
        """How many work items were brought to an end here."""

    @staticmethod
    def _nest(
        host: Host, team: Team, definition: TeamMemberDefinition, concurrency: int, tick_ms: int
    ) -> NestedTeam | None:
        if host.open_team is None or not isinstance(definition.agent, Team):
            return None

        def make_worker(inner_host: Host, inner: Team, key: str | TeamMemberDefinition) -> MemberWorker:
            return MemberWorker(inner_host, inner, key, concurrency=concurrency, tick_ms=tick_ms)

        space = nested_key(host.space or team.key, definition.key)
        return NestedTeam(host, definition.agent, space, make_worker)

    @property
    def silent_for(self) -> float:
        """Seconds since the mailbox last answered; 0 while there is no place for more work, or none is wanted."""
        return time.monotonic() - self._asking_since if self._taking and self._asking_since is not None else 0.0

    @property
    def busy(self) -> int:
        """How many work items are under way, those that wait for others included."""
        return len(self._tasks)

    # --- the life of a worker -----------------------------------------------------------------------------------

    async def run(self, burst: bool = False) -> None:
        """Claim and work until ``drain`` or ``stop``; with ``burst`` until the mailbox is empty."""
        self._delegates.start()
        if self._nested is not None:
            await self._nested.start()
        ticking = asyncio.get_running_loop().create_task(self._tick_for_ever())
        pause = 0.05
        try:
            while self._taking:
                try:
                    if await self._take(burst=burst):
                        break
                    pause = 0.05
                except Exception as error:  # noqa: BLE001 - whatever the store raises, the worker goes on
                    _log.warning("claiming for %s failed, trying again: %s", self.member, describe(error))
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            await end_tasks([ticking])
            if not self._taking and self._tasks:  # they may need whom they asked, as long as they are let
                await asyncio.wait(self._tasks)
            await self._delegates.stop()
            if self._nested is not None:
                await self._nested.stop(0)

    async def drain(self, timeout_s: float) -> None:
        """Claim nothing more; give what is under way ``timeout_s`` to end, then hand it back."""
        self._stop_taking()
        if self._tasks and timeout_s > 0:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        await self.stop()

    async def stop(self) -> None:
        """Claim nothing more and hand back at once what is under way."""
        self._stop_taking()
        self._work.park()
        if self._nested is not None:
            await self._nested.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _stop_taking(self) -> None:
        self._taking = False
        self._work.claim_next = False
        self.slots.wake()
        if self._waiting is not None:
            self._waiting.cancel()

    # --- claiming -----------------------------------------------------------------------------------------------

    async def _take(self, *, burst: bool) -> bool:
        """Claim once and start what was claimed; wait if there is nothing to do. True when a burst is over."""
        await self.slots.some_free()
        if not self._taking:
            return False
        if len(self._tasks) >= _MOST_WAITING:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            return False
        places = self.slots.reserve()
        if not places:
            return False
        if await self._claim(places) == places:
            return False
        # A claim that gets less than it asked for has emptied the mailbox: the next message rings.
        if not burst:
            while await self._await_claims():
                pass
            return False
        if not self._tasks:
            return True
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return False

    async def _claim(self, places: int) -> int:
        """Claim into places that are reserved, so that nobody who comes back takes them meanwhile."""
        host = self.host
        claims: list[Claim] = []
        if self._asking_since is None:
            self._asking_since = time.monotonic()
        try:
            claims = await host.store.claim(self.member, host.process_id, host.lease_ms, places)
            self._asking_since = None
            if not self._taking:  # it was told to leave meanwhile
                claims, late = [], claims
                await self._work.give_back(late)
        finally:
            for _ in range(places - len(claims)):
                self.slots.give_back()
        for claim in claims:
            self._start(claim)
        return len(claims)

    async def _await_claims(self) -> bool:
        """Claim at the next ring; True if that has emptied the mailbox again.

        No place is kept meanwhile for what comes: whoever comes back may need it.
        """
        places, host = self.slots.free, self.host
        if places <= 0 or not self._taking or len(self._tasks) >= _MOST_WAITING:
            return False
        # A lease counts from when it was asked for, so a wait takes a small part of it only.
        slice_ms = min(_LONGEST_SLICE_MS, max(_SHORTEST_SLICE_MS, host.lease_ms // 6))
        waiting = host.store.await_claims(self.member, host.process_id, host.lease_ms, places, slice_ms)
        self._asking_since = time.monotonic()
        self._waiting = asyncio.ensure_future(waiting)
        claims: list[Claim] = []
        try:
            claims = await self._waiting
            self._asking_since = None
        except asyncio.CancelledError:
            if self._taking:
                raise
        finally:
            self._waiting.cancel()
            self._waiting = None
        await self._start_some(claims)
        return len(claims) < places

    async def _start_some(self, claims: list[Claim]) -> None:
        """Start what there are places for, and give the rest back."""
        places = max(0, self.slots.free) if self._taking else 0
        for claim in claims[:places]:
            self.slots.take()
            self._start(claim)
        await self._work.give_back(claims[places:])

    def _start(self, claim: Claim) -> None:
        """Work a claim in a place that is taken."""
        task = asyncio.get_running_loop().create_task(self._work_from(claim))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_from(self, claim: Claim) -> None:
        """Work an item, then those that come with each settle."""
        following: Claim | None = claim
        try:
            while following is not None:
                claim = following
                following = await self._work.work_one(claim)
                self.settled += 1
        except LeaseLostError:
            _log.info("a work item of %s was lost to another worker", self.member, extra=_about(claim))
        except asyncio.CancelledError:
            if not self._work.parking:
                raise
        except Exception:  # noqa: BLE001 - its lease runs out and another worker tries; this one goes on
            _log.exception("a work item of %s could not be brought to an end here", self.member, extra=_about(claim))
        finally:
            self.slots.give_back()

    # --- idle ticks ---------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        host = self.host
        while True:
            pause = self._leases.longest
            self._look.clear()
            try:
                if self._on_tick is not None:
                    result = self._on_tick()
                    if hasattr(result, "__await__"):
                        await result
                freed = await self._leases.look()
                await host.store.forget_runs()
                due, pause = await asyncio.gather(host.store.wake_due(), self._leases.pause(len(freed)))
                pause = pause if due is None else min(pause, due / 1000)
                if self._nested is not None:
                    await self._nested.end_orphans(now=any(lease.word == "dead" for lease in freed))
            except Exception as error:  # noqa: BLE001 - the next tick may work
                _log.warning("upkeep failed, trying again: %s", describe(error))
            await self._rest(pause)

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, or until work was put off: it may be due before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look.wait()


def _about(claim: Claim) -> dict[str, Any]:
    """Return what a log line about a work item carries."""
    message = claim.item.message
    return {"run_id": message.run_id, "message_id": message.id, "attempt": claim.attempt}
