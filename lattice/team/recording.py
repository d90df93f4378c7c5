"""Buffers what the work on one lease adds to its conversation, journal and event stream; writes it in few steps."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lattice.encoding import decode, encode
from lattice.errors import ConversationLimitError, LeaseLostError
from lattice.journal import JournalEntry
from lattice.redaction import hide_bytes
from lattice.runs import ConversationState, Step
from lattice.team.answers import event_type
from lattice.team.host import Held, Host

__all__ = ["Recorder", "RunConversation", "RunJournal", "add_tokens"]

_log = logging.getLogger("lattice.team")

_EVENT_SECONDS = 0.05
"""How long an event waits for a step that it can travel with."""


class Recorder:
    """What one work item or one leg writes; every write names its lease.

    A user's prompt and a final answer wait for the step that ends the work. What was paid for (an answer that calls
    tools, tool results) is flushed before the next model call; the start of a tool call before the call.
    """

    def __init__(self, host: Host, held: Held, conversation: str, state: ConversationState | None = None) -> None:
        """``state`` is the conversation as stored; None for one that is known to be empty."""
        self.host = host
        self.held = held
        self.conversation = conversation
        self.state = state or ConversationState()
        self.history = RunConversation(self)
        self.journal = RunJournal(self)
        self.size = sum(map(len, self.state.messages))
        """How many bytes the conversation has, stored or buffered."""
        self.position = len(self.state.messages)
        """How many messages the conversation has, stored or buffered."""
        self.once: str | None = None
        """The id whose text the next message holds."""
        self.pausing = False
        """Whether the batch under way hands work off: its results are written with the handoff, or not at all."""
        self._with_handoff: list[bytes] = []
        self.ending = False
        """Whether what is told now is the end of the work: it is written with the step that ends it, or not at all."""
        self._with_end: list[bytes] = []
        self._reads_of_next: list[str] = []
        self._frozen = False
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._clear()

    def _clear(self) -> None:
        self._once: str | None = None
        self._messages: list[bytes] = []
        self._replace = False
        self._started: list[str] = []
        self._finished: dict[str, tuple[bytes, bool]] = {}
        self._clear_journal = False
        self._reads: list[str] = []
        self._events: list[bytes] = []
        self._deltas: list[Any] = []
        self._usage: dict[str, int] | None = None
        self._paid = False
        self._sealed = False
        self._any = False

    def reopened(self, state: ConversationState) -> None:
        """Go on from the conversation as stored, for a session that is made again; nothing may be buffered."""
        self.state = state
        self.position = len(state.messages)
        self.size = sum(map(len, state.messages))

    # --- what is added ------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Take nothing more: the work is given back as it stands, and what its end would add is not part of it."""
        self._frozen = True

    @property
    def kept(self) -> Step | None:
        """What may be written when the work is given back: nothing if it speaks of a handoff that was not sent."""
        return None if self.pausing else self.take()

    def add_message(self, message: dict[str, Any]) -> None:
        """Add a message to the conversation."""
        if self._frozen:
            return
        results = _has_results(message)
        if self.once is not None and not results:
            self._once, self.once = self.once, None
        encoded = encode(message)
        self._messages.append(encoded)
        self._reads += self._reads_of_next
        self._reads_of_next.clear()
        self.position += 1
        self.size += len(encoded)
        if message["role"] == "assistant":
            self._paid = True
        elif results:
            self._paid = True
            self._sealed = self.pausing
            self._finished = {key: kept for key, kept in self._finished.items() if kept[1]}
        self._any = True

    def replace_messages(self, messages: list[dict[str, Any]]) -> None:
        """Rewrite the conversation."""
        if self._frozen:
            return
        if self.once is not None:
            self._once, self.once = self.once, None
        self._messages = [encode(message) for message in messages]
        self._replace = self._paid = self._any = True
        self.position = len(messages)
        self.size = sum(map(len, self._messages))

    def emit(self, event: Any) -> None:
        """Add an event to the run's stream; it is written with the next step, or after a moment."""
        if self._frozen:
            return
        if event_type(event) == "stream_event":
            self._deltas.append(event)
        elif self.pausing:
            # Nobody must read that work was sent before it is: should this process die, it is sent, and told, again.
            self._with_handoff.append(_wire(event))
        elif self.ending:
            # Who gives the work back now has not ended it: somebody else will, and tell so.
            self._with_end.append(_wire(event))
            return
        else:
            self._events.append(_wire(event))
        self._any = True
        self.write_soon()

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the run's total."""
        if usage and any(usage.values()):
            self._usage = add_tokens(self._usage, usage)
            self._any = True

    @property
    def usage(self) -> dict[str, int] | None:
        """The tokens that are not written yet."""
        return self._usage

    def add_reads(self, message_ids: Iterable[str]) -> None:
        """Say that the text of reports stands in the conversation."""
        self._reads.extend(message_ids)
        self._any = True

    def add_reads_of_next(self, message_ids: Iterable[str]) -> None:
        """Say that the next message holds the text of others: what is not written is not read."""
        self._reads_of_next.extend(message_ids)

    def add_started(self, tool_use_id: str) -> None:
        """Journal the start of a tool call."""
        self._started.append(tool_use_id)
        self._any = True

    def add_finished(self, entry: JournalEntry) -> None:
        """Journal the result of a tool call."""
        if self._frozen:
            return
        record = {"result": entry.result, "end_turn": entry.end_turn, "structured_result": entry.structured_result}
        self._finished[entry.tool_use_id] = encode(record), entry.end_turn
        self._any = True
        self.write_soon()

    def clear_journal(self) -> None:
        """Empty the journal."""
        self._started.clear()
        self._finished.clear()
        self._clear_journal = True
        self._any = True

    # --- how it is written --------------------------------------------------------------------------------------

    def take(self, *, deltas: bool = False, end: bool = False) -> Step:
        """Return everything buffered as one step; what it holds is the caller's to write.

        Model stream events are left out unless ``deltas`` is set: what they were leading to stands in the same step.
        What tells of the end is left out unless ``end`` says that this is the step that ends the work.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events = self._events if self.pausing else [*self._events, *self._take_held()]
        step = Step(
            conversation=self.conversation,
            once=self._once,
            messages=tuple(self._messages),
            replace=self._replace,
            started=tuple(self._started),
            finished=tuple((tool_use_id, record) for tool_use_id, (record, _) in self._finished.items()),
            clear_journal=self._clear_journal,
            reads=tuple(self._reads),
            events=(*events, *self._with_end) if end else tuple(events),
            deltas=tuple(map(_wire, self._deltas)) if deltas else (),
            usage=self._usage,
        )
        self._clear()
        return step

    def _take_held(self) -> list[bytes]:
        held, self._with_handoff = self._with_handoff, []
        return held

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold back other writes of this recorder, so that steps are written in order."""
        async with self._lock:
            yield

    async def flush(self) -> None:
        """Write what is buffered.

        Raises:
            LeaseLostError: the lease is gone; nothing was written.
        """
        if not self._may_write():
            return
        async with self._lock:
            if not self._may_write():
                return
            word = await self.held.guard(self.host.store.append(self.held.lease, self.take(deltas=True)))
        if word == "stale":
            self.held.lose(LeaseLostError())
            raise LeaseLostError

    def _may_write(self) -> bool:
        return self._any and not self._sealed

    async def before_model_call(self) -> None:
        """Write what was paid for, and make sure that the lease is still ours.

        Raises:
            LeaseLostError: it is not.
            ConversationLimitError: the conversation is too large to go on with.
        """
        if self._paid:
            await self.flush()
        limit = self.host.max_conversation_bytes
        if self.size > limit:
            raise ConversationLimitError(self.size, limit)
        await self.host.check(self.held)

    def write_soon(self) -> None:
        """Write what is buffered within a moment, unless a step takes it along."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVENT_SECONDS, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        if self._any and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.get_running_loop().create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except LeaseLostError:
            _log.debug("%s %s: lease lost while events were written", self.held.lease.kind, self.held.lease.id)

    async def close(self) -> None:
        """Write nothing more; wait for a write that is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is not None and not self._flushing.done():
            await asyncio.gather(self._flushing, return_exceptions=True)
        self._clear()


class RunConversation:
    """A ``HistoryStore`` over a recorder; its errors stop the query."""

    __slots__ = ("_recorder",)
    _strict = True

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def load(self) -> list[dict[str, Any]]:
        """Return the messages as stored; they are not kept a second time here."""
        recorder = self._recorder
        messages = recorder.state.messages
        recorder.state = replace(recorder.state, messages=())
        return [decode(message) for message in messages]

    def append(self, message: dict[str, Any]) -> None:
        """Add a message."""
        self._recorder.add_message(message)

    def replace(self, messages: list[dict[str, Any]]) -> None:
        """Rewrite the conversation."""
        self._recorder.replace_messages(messages)


class RunJournal:
    """A ``ToolJournal`` over a recorder."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def load(self) -> dict[str, JournalEntry]:
        """Return the entries as stored."""
        return {tool_use_id: _entry(tool_use_id, raw) for tool_use_id, raw in self._recorder.state.journal.items()}

    async def started(self, tool_use_id: str) -> None:
        """Record a start, durably, together with the conversation up to it."""
        recorder = self._recorder
        recorder.add_started(tool_use_id)
        await recorder.flush()

    async def starting(self, tool_use_id: str) -> None:
        """Make sure that the lease is still ours: nothing must be begun by whoever has lost it."""
        del tool_use_id
        await self._recorder.host.check(self._recorder.held)

    async def finished(self, entry: JournalEntry) -> None:
        """Record a result."""
        self._recorder.add_finished(entry)

    async def clear(self) -> None:
        """Forget the batch."""
        self._recorder.clear_journal()


def _wire(event: Any) -> bytes:
    return hide_bytes(encode(event if isinstance(event, dict) else event.to_dict()))


def _entry(tool_use_id: str, raw: bytes) -> JournalEntry:
    if not raw:
        return JournalEntry(tool_use_id)
    record = decode(raw)
    return JournalEntry(tool_use_id, record["result"], record["end_turn"], record["structured_result"])


def add_tokens(total: dict[str, int] | None, more: dict[str, int] | None) -> dict[str, int]:
    """Return the sum of two token counts."""
    total, more = total or {}, more or {}
    return {name: total.get(name, 0) + more.get(name, 0) for name in (*total, *(n for n in more if n not in total))}


def _has_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any(block.get("type") == "tool_result" for block in content)
