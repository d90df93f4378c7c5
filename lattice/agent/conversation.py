"""One conversation: the live messages of an agent, mirrored into its history store."""

import asyncio
import logging
from typing import Any

from lattice.errors import StoreError
from lattice.messages import (
    MalformedMessageError,
    Message,
    copy_json,
    input_tokens,
    lost_result,
    open_tool_uses,
    read_message,
    repaired,
    results_of,
)
from lattice.tools.callbacks import settled
from lattice.tracer import is_strict

__all__ = ["Conversation"]

_log = logging.getLogger("lattice.agent")


class Conversation:
    """The messages of one agent, oldest first; nobody outside ever holds the live dicts.

    A store that fails (unless it is strict) never stops the conversation: it goes on in memory, the failure is logged,
    and the next write brings the store up to date as a whole. Nothing is appended to a store that could not be read.
    """

    __slots__ = ("_behind", "_loaded", "_lock", "_store", "context_tokens", "messages")

    def __init__(self, store: Any = None) -> None:
        self.messages: list[Message] = []
        self.context_tokens = 0
        """The input tokens that the last response reported; 0 if unknown."""
        self._store = store
        self._loaded = store is None
        self._behind = False
        self._lock: asyncio.Lock | None = None

    async def load(self) -> None:
        """Read the store, once; a failed read is tried again next time.

        Raises:
            Exception: whatever a strict store raised.
        """
        if self._loaded:
            return
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._loaded:
                await self._read_store()
        self._lock = None

    async def _read_store(self) -> None:
        try:
            stored = await settled(self._store.load())
            loaded = [read_message(message) for message in stored or []]
        except Exception as error:
            if is_strict(self._store):
                raise
            _log.warning("the history store could not be read, the conversation stays in memory: %s", error)
            return
        if self._loaded:  # replace_history() was faster
            return
        fixed = repaired(loaded)
        self._behind = fixed is not loaded or bool(self.messages)
        self.messages[:0] = fixed
        self._loaded = True
        self.context_tokens = _last_reading(fixed)

    async def add(self, message: Message) -> None:
        """Add a message, and wait until the store has it."""
        self.messages.append(message)
        if self._store is not None:
            await self.save(message)

    async def save(self, message: Message) -> None:
        """Write the newest message to the store.

        Raises:
            Exception: whatever a strict store raised.
        """
        if self._store is None or not self._loaded:
            return
        behind, self._behind = self._behind, True
        try:
            if behind:
                await settled(self._store.replace([copy_json(kept) for kept in self.messages]))
            else:
                await settled(self._store.append(copy_json(message)))
        except Exception as error:
            if is_strict(self._store):
                raise
            _log.warning("the history store failed, the conversation goes on in memory: %s", error)
            return
        self._behind = False

    async def replace(self, messages: list[Message]) -> None:
        """Replace everything, in memory first.

        Raises:
            Exception: whatever a strict store raised.
        """
        self.messages[:] = messages
        self.context_tokens = 0
        self._loaded = True
        if self._store is None:
            return
        self._behind = True
        try:
            await settled(self._store.replace([copy_json(message) for message in messages]))
        except Exception as error:
            if is_strict(self._store):
                raise
            _log.warning("the history store failed, the conversation goes on in memory: %s", error)
            return
        self._behind = False

    def answer_open_calls(self) -> Message | None:
        """Answer what a last assistant message left open, in memory; returns the message to save, or None."""
        calls = open_tool_uses(self.messages)
        if not calls:
            return None
        why = "was not started because the query ended before it"
        message = {"role": "user", "content": [lost_result(call, f"Tool {call['name']} {why}") for call in calls]}
        self.messages.append(message)
        return message

    def drop_unanswered_prompt(self) -> bool:
        """Take out user messages at the end that hold no tool results; the store follows with the next write."""
        count = 0
        for message in reversed(self.messages):
            if message["role"] != "user" or results_of(message):
                break
            count += 1
        if count:
            del self.messages[-count:]
            self._behind = self._store is not None
        return count > 0

    def copy(self) -> list[Message]:
        """Return a deep copy of all messages."""
        return [copy_json(message) for message in self.messages]


def read_history(messages: Any) -> list[Message]:
    """Return copies of messages that the host hands in.

    Raises:
        StoreError: one of them is no message.
    """
    try:
        return [read_message(message) for message in messages]
    except (MalformedMessageError, TypeError) as error:
        raise StoreError(f"replace_history: {error}", cause=error) from error


def _last_reading(messages: list[Message]) -> int:
    for message in reversed(messages):
        if message["role"] == "assistant":
            return input_tokens(message.get("usage"))
    return 0
