"""Talks to any team mailbox: a host's adapter may be sync or async, and may return dicts."""

import inspect
from collections.abc import Iterable
from typing import Any

from lattice.mailbox import MessageStatus, TeamMailbox, TeamMessage

__all__ = ["MailboxAdapter"]


class MailboxAdapter:
    """The five mailbox methods as coroutines that return ``TeamMessage``; extra abilities are used where they exist."""

    __slots__ = ("_accepted", "mailbox")

    def __init__(self, mailbox: TeamMailbox) -> None:
        self.mailbox = mailbox
        self._accepted = _accepted_options(mailbox.send)

    async def send(self, draft: TeamMessage) -> TeamMessage:
        """Send ``draft``; an id that it has is kept where the mailbox takes one."""
        options = {
            "id": draft.id,
            "thread_id": draft.thread_id,
            "parent_message_id": draft.parent_message_id,
            "work_item_id": draft.work_item_id,
            "work_item_role": draft.work_item_role,
            "upstream_message_id": draft.upstream_message_id,
            "parent_work_item_id": draft.parent_work_item_id,
            "run_id": draft.run_id,
            "metadata": draft.metadata,
        }
        given = {
            name: value
            for name, value in options.items()
            if value and (self._accepted is None or name in self._accepted)
        }
        return TeamMessage.from_dict(await _result(self.mailbox.send(draft.from_, draft.to, draft.content, **given)))

    async def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        record = await _result(self.mailbox.get(message_id))
        return None if record is None else TeamMessage.from_dict(record)

    async def inbox(self, mailbox_id: str, status: str) -> list[TeamMessage]:
        """Return the messages of a mailbox in send order."""
        return [TeamMessage.from_dict(record) for record in await _result(self.mailbox.inbox(mailbox_id, status))]

    async def update_status(self, message_id: str, status: MessageStatus) -> bool:
        """Move a message; an adapter that answers nothing is taken to have done it."""
        answer = await _result(self.mailbox.update_status(message_id, str(status)))
        return answer is None or bool(answer)

    async def reopen(self, message_id: str) -> None:
        """Make a message pending again where the mailbox knows how; elsewhere it keeps showing as processing."""
        reopen = getattr(self.mailbox, "reopen", None)
        if reopen is not None:
            await _result(reopen(message_id))

    async def forget(self, message_ids: Iterable[str]) -> None:
        """Remove messages where the mailbox knows how."""
        forget = getattr(self.mailbox, "forget", None)
        if forget is not None:
            await _result(forget(message_ids))


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _accepted_options(send: Any) -> frozenset[str] | None:
    try:
        parameters = inspect.signature(send).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)
