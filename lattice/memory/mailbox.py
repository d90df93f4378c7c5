"""The mailbox of a team that lives in one process."""

import copy
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from lattice.encoding import clean_text, clean_value
from lattice.errors import OptionError, SizeLimitError
from lattice.mailbox import MessageStatus, TeamMessage, check_send_options, complete_message
from lattice.run_store import StoreOptions
from lattice.runs import ALLOWED_MOVES

__all__ = ["MemoryMailbox", "create_memory_mailbox"]

_FIRST_IDS = ("first", "second", "third")


def create_memory_mailbox(*, max_message_bytes: int | None = None) -> "MemoryMailbox":
    """Return a mailbox that keeps its messages in memory.

    ``max_message_bytes`` is the largest content in UTF-8 bytes, 1 MiB by default.

    Raises:
        OptionError: the limit is not a positive integer.
    """
    limits = StoreOptions() if max_message_bytes is None else StoreOptions(max_message_bytes=max_message_bytes)
    return MemoryMailbox(max_message_bytes=limits.max_message_bytes)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryMailbox:
    """A ``TeamMailbox`` in memory; ids are ``first``, ``second``, ``third``, then ``msg_4`` and so on."""

    __slots__ = ("_boxes", "_clock", "_limit", "_messages", "_pending", "_sent")

    def __init__(self, *, max_message_bytes: int, clock: Callable[[], int] = _now_ms) -> None:
        """Take the largest content in bytes, and a clock in epoch milliseconds."""
        self._limit = max_message_bytes
        self._clock = clock
        self._sent = 0
        self._messages: dict[str, TeamMessage] = {}
        self._boxes: dict[str, dict[str, None]] = {}
        self._pending: dict[str, deque[str]] = {}

    def send(self, from_: str, to: str, content: str, **options: Any) -> TeamMessage:
        """Keep a new pending message and return it.

        Raises:
            OptionError: an option is unknown, or the ``id`` is taken.
            SizeLimitError: the content is over the limit.
        """
        check_send_options(options)
        content = clean_text(content)
        size = len(content.encode())
        if size > self._limit:
            raise SizeLimitError(f"the message from {from_!r} to {to!r}", size, self._limit)
        message = self._complete(from_, to, content, options)
        self._messages[message.id] = message
        self._boxes.setdefault(to, {})[message.id] = None
        self._pending.setdefault(to, deque()).append(message.id)
        return message

    def _complete(self, from_: str, to: str, content: str, options: dict[str, Any]) -> TeamMessage:
        values = {name: value for name, value in options.items() if value is not None}
        values["id"] = values.get("id") or self._next_id()
        if values["id"] in self._messages:
            raise OptionError(f"send: the message id {values['id']!r} is taken")
        if "metadata" in values:
            values["metadata"] = clean_value(copy.deepcopy(values["metadata"]))
        draft = TeamMessage(from_=from_, to=to, content=content, created_at=self._clock(), **values)
        return complete_message(draft, self._messages.get(draft.parent_message_id or ""))

    def _next_id(self) -> str:
        while True:
            self._sent += 1
            name = _FIRST_IDS[self._sent - 1] if self._sent <= len(_FIRST_IDS) else f"msg_{self._sent}"
            if name not in self._messages:
                return name

    def inbox(self, mailbox_id: str, status: str = "pending") -> list[TeamMessage]:
        """Return the messages of a mailbox in send order; ``status`` may be ``all``.

        Raises:
            OptionError: the status is unknown.
        """
        wanted = None if status == "all" else _status(status)
        box = [self._messages[message_id] for message_id in self._boxes.get(mailbox_id, ())]
        return [message for message in box if wanted is None or message.status is wanted]

    def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        return self._messages.get(message_id)

    def claim_next(self, mailbox_id: str) -> TeamMessage | None:
        """Turn the oldest pending message to processing and return it, or return None."""
        pending = self._pending.get(mailbox_id, deque())
        while pending:
            message_id = pending.popleft()
            message = self._messages.get(message_id)
            if message is not None and message.status is MessageStatus.PENDING:
                return self._move(message, MessageStatus.PROCESSING)
        return None

    def update_status(self, message_id: str, status: str) -> bool:
        """Move a message to another status; False when it is unknown or the move is refused.

        Raises:
            OptionError: the status is unknown.
        """
        target = _status(status)
        message = self._messages.get(message_id)
        if message is None or target not in ALLOWED_MOVES[message.status]:
            return False
        self._move(message, target)
        return True

    def reopen(self, message_id: str) -> bool:
        """Make a message under way pending again, at the head of its mailbox; False when it is not under way."""
        message = self._messages.get(message_id)
        if message is None or message.status is not MessageStatus.PROCESSING:
            return False
        self._move(message, MessageStatus.PENDING)
        self._pending[message.to].appendleft(message_id)
        return True

    def forget(self, message_ids: Iterable[str]) -> None:
        """Remove messages."""
        for message_id in message_ids:
            message = self._messages.pop(message_id, None)
            if message is not None:
                del self._boxes[message.to][message_id]

    def _move(self, message: TeamMessage, status: MessageStatus) -> TeamMessage:
        moved = message.evolve(status=status)
        self._messages[message.id] = moved
        return moved


def _status(status: str) -> MessageStatus:
    try:
        return MessageStatus(status)
    except ValueError:
        raise OptionError(f"mailbox status {status!r} is none of {', '.join(MessageStatus)}") from None
