"""What every process that works on runs has one of: its leases, and the signals that other processes send it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from lattice.abort import AbortController, end_tasks
from lattice.errors import AbortError, LeaseLostError, SizeLimitError
from lattice.instruments import NO_INSTRUMENTS, Instruments
from lattice.mailbox import TeamMessage
from lattice.run_store import RunStore
from lattice.runs import Account, Allowance, Budget, Lease
from lattice.team.batch_waits import BatchWaits
from lattice.team.failures import describe
from lattice.team.keeper import LeaseKeeper, OpenStore
from lattice.team.metering import Purse

__all__ = ["Held", "Host"]

T = TypeVar("T")
_log = logging.getLogger("lattice.team")

_SLICE_MS = 5_000
"""Milliseconds of one blocking wait for signals."""

_LOOK_AGAIN = 30.0
"""Seconds after which a waiter looks for itself: a server that was restarted may have lost a signal."""

_LONGEST_PAUSE = 5.0


class Held:
    """A lease that this process holds; its signal fires when the work on it has to stop."""

    __slots__ = (
        "_listeners",
        "_unheard",
        "broken",
        "context",
        "controller",
        "ending",
        "lease",
        "lost",
        "valid_until",
    )

    def __init__(self, lease: Lease, valid_until: float) -> None:
        self.lease = lease
        self.controller = AbortController()
        self.context = copy_context()
        """Where the work was begun, so that what is said of it elsewhere is said as there."""
        self.valid_until = valid_until
        self._listeners: dict[str, Callable[..., object]] = {}
        self._unheard: list[tuple[str, tuple[str, ...]]] = []
        self.lost = False
        self.broken = False
        """Whether it was given up because the store failed."""
        self.ending = False
        """Whether the step that ends it is on its way: then it is no loss that it is gone."""

    def listen(self, **listeners: Callable[..., object]) -> None:
        """Hear what other processes say to whoever works on the lease, what they have said before included.

        ``note(id)`` hears of an urgent note, ``interrupt()`` that a run's lead is not to be called again.
        """
        self._listeners = listeners
        unheard, self._unheard = self._unheard, []
        for word, args in unheard:
            self.tell(word, *args)

    def tell(self, word: str, *args: str) -> None:
        """Tell whoever works on the lease something; who is not there yet hears it later."""
        listener = self._listeners.get(word)
        if listener is not None:
            listener(*args)
        elif not self._listeners:
            self._unheard.append((word, args))

    def lose(self, reason: BaseException) -> None:
        """Stop the work: nothing that it writes would be taken any more."""
        self.lost = True
        self.controller.abort(reason)

    async def guard(self, step: Awaitable[T]) -> T:
        """Await a step of the store; if it breaks, nobody knows what was written, so the work ends here.

        A step is carried out even if the work is cut off meanwhile: what it writes is kept nowhere else.

        Raises:
            SizeLimitError: something was over the limit; nothing was written.
            LeaseLostError: the store failed; the work goes on elsewhere, or later, from what is stored.
        """
        try:
            return await asyncio.shield(step)
        except (SizeLimitError, LeaseLostError):
            raise
        except Exception as error:
            _log.warning("%s %s: the store failed: %s", self.lease.kind, self.lease.id, describe(error))
            self.broken = True
            self.lose(error)
            raise LeaseLostError(cause=error) from error


class Host:
    """The leases and signals of one process, on the event loop that it was started on.

    ``open_store`` opens a second store for the thread that renews leases, so that a tool which blocks the event loop
    does not lose them; without it the renewal runs on the loop. ``open_team(key)`` opens the store of another key
    space, for a member that is a team itself; without it such a team runs within this process, and starts anew if it
    dies. ``instruments`` watch the work, ``tracer`` takes the traces of runs
    instead of the team's.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        process_id: str,
        lease_ms: int = 30_000,
        open_store: OpenStore | None = None,
        open_team: Callable[[str], RunStore] | None = None,
        space: str | None = None,
        instruments: Instruments = NO_INSTRUMENTS,
        tracer: Any = None,
        spaces: Mapping[str, RunStore] | None = None,
    ) -> None:
        self.store = store
        self.process_id = process_id
        self.lease_ms = lease_ms
        self._held: dict[tuple[str, str], Held] = {}
        self._waits = BatchWaits()
        self._keeper = LeaseKeeper(lease_ms, self._leases, self._renewed, open_store or (lambda: store))
        self.is_threaded = open_store is not None
        self.open_team = open_team
        self.instruments = instruments
        self.tracer = tracer
        self.space = space
        """The key space that the store is of, where it is not the team's own."""
        self.spaces: dict[str, RunStore] = {**(spaces or {}), space or "": store}
        """Its own store and those of the teams that it stands in, by key space: their runs may pay for its work."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def max_message_bytes(self) -> int:
        """The largest content of a message, in bytes."""
        return int(getattr(getattr(self.store, "options", None), "max_message_bytes", 1024 * 1024))

    @property
    def max_conversation_bytes(self) -> int:
        """The largest conversation that is gone on with, in bytes."""
        return int(getattr(getattr(self.store, "options", None), "max_conversation_bytes", 64 * 1024 * 1024))

    async def start(self) -> None:
        """Listen for signals and keep the leases alive."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._listen(), name="lattice-signals"))
        if self.is_threaded:
            self._keeper.start_thread(loop)
        else:
            self._tasks.append(loop.create_task(self._keeper.run(loop), name="lattice-leases"))

    async def stop(self) -> None:
        """Stop listening and renewing; leases that are still held run out by themselves."""
        await end_tasks(self._tasks)
        self._tasks.clear()
        await self._keeper.stop()

    # --- leases -------------------------------------------------------------------------------------------------

    def hold(self, lease: Lease) -> Held:
        """Keep a lease alive until it is released; one on the same work that is still held here is lost with that."""
        asked_at = time.monotonic() if lease.asked_at is None else lease.asked_at
        held = Held(lease, asked_at + self.lease_ms / 1000)
        earlier = self._held.get((lease.kind, lease.id))
        self._held[lease.kind, lease.id] = held
        if earlier is not None and not earlier.lost and not earlier.ending:
            self._lost(earlier)
        return held

    def release(self, held: Held) -> None:
        """Let a lease go: its work has ended or was given back."""
        key = held.lease.kind, held.lease.id
        if self._held.get(key) is held:
            del self._held[key]

    def purse(self, held: Held, account: Account) -> Purse:
        """Return what the work on a lease is paid from."""
        return Purse(account, _GuardedLedger(held, self.spaces[account.space]))

    async def check(self, held: Held) -> None:
        """Make sure that a lease is still ours; a process that was stopped for a while asks the store.

        Raises:
            LeaseLostError: it is not.
        """
        if not held.lost and time.monotonic() >= held.valid_until:
            started = time.monotonic()
            if await held.guard(self.store.renew([held.lease], self.lease_ms)):
                held.lose(LeaseLostError())
            else:
                held.valid_until = started + self.lease_ms / 1000
        if held.lost:
            raise LeaseLostError

    def _leases(self) -> list[Lease]:
        return [held.lease for held in list(self._held.values()) if not held.lost]

    def _renewed(self, asked: Iterable[Lease], lost: Iterable[Lease], started: float) -> None:
        gone = {(lease.kind, lease.id, lease.token) for lease in lost}
        for lease in asked:
            held = self._held.get((lease.kind, lease.id))
            if held is None or held.lease.token != lease.token or held.ending:
                continue
            if (lease.kind, lease.id, lease.token) in gone:
                self._lost(held)
            else:
                held.valid_until = max(held.valid_until, started + self.lease_ms / 1000)

    def _lost(self, held: Held) -> None:
        lease = held.lease
        held.context.run(_log.warning, "the lease on %s %s is lost; its work stops", lease.kind, lease.id)
        self.instruments.lease_lost(lease)
        held.lose(LeaseLostError())

    # --- signals ------------------------------------------------------------------------------------------------

    def expect(self, held: Held, batch_id: str) -> None:
        """Remember the signal of a batch from now on, so that one that comes before the wait is not missed."""
        self._waits.expect(batch_id, held)

    def expect_no_more(self, held: Held, batch_id: str) -> None:
        """Forget a batch that was not accepted after all."""
        self._waits.forget(batch_id, held)

    async def reports(self, held: Held, batch_id: str, *, look_first: bool = True) -> tuple[TeamMessage, ...]:
        """Wait until a batch is complete and return its reports, in the order of its items.

        Raises:
            LeaseLostError: the lease of whoever waits is lost.
            AbortError: the work was stopped meanwhile.
        """
        self.expect(held, batch_id)
        try:
            while True:
                if look_first:
                    word, reports = await held.guard(self.store.resume(held.lease, batch_id))
                    if word == "complete":
                        return reports
                    if word == "stale":
                        held.lose(LeaseLostError())
                        raise LeaseLostError
                look_first = True
                await self._wait(held, batch_id)
        finally:
            self.expect_no_more(held, batch_id)

    async def _wait(self, held: Held, batch_id: str) -> None:
        signal = held.controller.signal
        loop = asyncio.get_running_loop()
        look = partial(self._waits.wake, batch_id, held)
        forget = signal.add_listener(lambda: loop.call_soon_threadsafe(look))
        timer = loop.call_later(_LOOK_AGAIN, look)
        try:
            await self._waits.next_signal(batch_id, held)
        finally:
            timer.cancel()
            forget()
        if held.lost:
            raise LeaseLostError
        if signal.aborted:
            raise AbortError("Operation aborted", cause=signal.reason)

    async def _listen(self) -> None:
        pause = 0.05
        while True:
            try:
                for text in await self.store.wait_for_signals(self.process_id, _SLICE_MS):
                    self._dispatch(text)
                pause = 0.05
            except Exception as error:  # noqa: BLE001 - whatever the store raises, the process goes on listening
                _log.warning("waiting for signals failed, trying again: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._waits.wake_all()

    def _dispatch(self, text: str) -> None:
        kind, _, rest = text.partition(":")
        if kind == "batch":
            self._waits.wake(rest)
        elif kind == "cancel":
            self._cancel(rest)
        elif kind == "note":
            name, _, note_id = rest.rpartition(":")
            self._tell(name, kind, note_id)
        elif kind == "interrupt":
            self._tell(f"run:{rest}", kind)
        else:
            _log.warning("signal %r is not known", text)

    def _cancel(self, target: str) -> None:
        key = ("run", target[4:]) if target.startswith("run:") else ("message", target)
        held = self._held.get(key)
        if held is not None:
            held.lose(AbortError("The run was cancelled"))

    def _tell(self, name: str, word: str, *args: str) -> None:
        kind, _, lease_id = name.partition(":")
        held = self._held.get((kind, lease_id))
        if held is not None:
            held.tell(word, *args)


class _GuardedLedger:
    """Counts in a store; if it breaks, the work on the lease ends here, as with every other step."""

    __slots__ = ("_held", "_store")

    def __init__(self, held: Held, store: RunStore) -> None:
        self._held, self._store = held, store

    async def draw(self, run_id: str, budget: Budget, *, calls: int = 1, tokens: int = 0) -> Allowance:
        """See ``RunStore.draw``."""
        return await self._held.guard(self._store.draw(run_id, budget, calls=calls, tokens=tokens))
