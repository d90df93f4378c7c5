"""What the parts of the memory store share: the records, and whose turn it is."""

import time
from collections.abc import Callable

from lattice.errors import SizeLimitError
from lattice.mailbox import TeamMailbox, TeamMessage
from lattice.memory.adapter import MailboxAdapter
from lattice.memory.mailbox import MemoryMailbox
from lattice.memory.state import ItemState, LoopLock
from lattice.memory.work import Work
from lattice.run_store import StoreOptions
from lattice.runs import DeadLetter, ProcessInfo

__all__ = ["StorePart"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class StorePart:
    """The common ground of the memory store's parts."""

    def __init__(
        self,
        mailbox: TeamMailbox | None = None,
        *,
        options: StoreOptions | None = None,
        mailbox_ids: dict[str, str] | None = None,
        clock: Callable[[], int] = _now_ms,
        expire_leases: bool = False,
    ) -> None:
        self.options = options or StoreOptions()
        self.mailbox: TeamMailbox = (
            MemoryMailbox(max_message_bytes=self.options.max_message_bytes, clock=clock) if mailbox is None else mailbox
        )
        self._adapter = MailboxAdapter(self.mailbox)
        self._work = Work(self._adapter, self.options, clock, expire=expire_leases)
        self._work.mailbox_ids.update(mailbox_ids or {})
        self._turn = LoopLock()
        self._processes: dict[str, tuple[ProcessInfo, int]] = {}
        self._dead: dict[str, DeadLetter] = {}

    def _check_size(self, message: TeamMessage) -> None:
        size = len(message.content.encode(errors="replace"))
        if size > self.options.max_message_bytes:
            raise SizeLimitError(
                f"the message from {message.from_!r} to {message.to!r}", size, self.options.max_message_bytes
            )

    async def _reopen(self, state: ItemState, *, first: bool) -> None:
        state.lease = None
        await self._adapter.reopen(state.item.message.id)
        self._work.queue(state.item.member).give_back(state.item.message.id, first=first)
