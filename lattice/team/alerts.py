"""Urgent mail within one process: who is at work at which mailbox, and how they are told at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lattice.mailbox import TeamMailbox, TeamMessage
from lattice.memory.adapter import MailboxAdapter
from lattice.team.prompts import INTERRUPT, urgency_of

__all__ = ["Alerts", "LocalMail"]


class Alerted(Protocol):
    """Somebody at work who can be told of an urgent note."""

    @property
    def alert(self) -> Callable[[str], None]:
        """Takes the id of the note."""
        ...


class Alerts:
    """The agents of one team that are at work in this process."""

    __slots__ = ("_at_work",)

    def __init__(self) -> None:
        self._at_work: dict[str, list[Alerted]] = {}

    @contextmanager
    def listening(self, mailbox: str, actor: Alerted) -> Iterator[None]:
        """Tell an actor of what comes to a mailbox while the block runs."""
        actors = self._at_work.setdefault(mailbox, [])
        actors.append(actor)
        try:
            yield
        finally:
            actors.remove(actor)
            if not actors:
                self._at_work.pop(mailbox, None)

    def at_work(self, mailbox: str) -> bool:
        """Whether somebody works at a mailbox now."""
        return mailbox in self._at_work

    def tell(self, message: TeamMessage) -> None:
        """Tell whoever has worked longest at the mailbox of an ``interrupt``; other mail can wait."""
        actors = self._at_work.get(message.to)
        if actors and urgency_of(message) == INTERRUPT:
            actors[0].alert(message.id)


class LocalMail(MailboxAdapter):
    """A mailbox in this process whose urgent mail is told at once."""

    __slots__ = ("_alerts",)

    def __init__(self, mailbox: TeamMailbox, alerts: Alerts) -> None:
        super().__init__(mailbox)
        self._alerts = alerts

    async def send(self, draft: TeamMessage) -> TeamMessage:
        """Send ``draft``, and tell whoever has to deal with it now."""
        sent = await super().send(draft)
        self._alerts.tell(sent)
        return sent
