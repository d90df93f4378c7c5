"""A team's mailboxes over the run store, for the tools of agents in worker processes."""

from dataclasses import replace

from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.ids import new_id
from lattice.mailbox import MessageStatus, TeamMessage, complete_message, mailbox_key
from lattice.run_store import RunStore
from lattice.team.definition import Directory, conversation_of

__all__ = ["StoreMail"]


class StoreMail:
    """Mail over a ``RunStore``: what is sent to a member is work for its workers, what is sent to the lead waits."""

    __slots__ = ("_directory", "_store")

    def __init__(self, store: RunStore, directory: Directory) -> None:
        self._store, self._directory = store, directory

    async def send(self, draft: TeamMessage) -> TeamMessage:
        """Send a message; one that answers another keeps its thread and work item."""
        parent = await self._store.get(draft.parent_message_id) if draft.parent_message_id else None
        message = complete_message(replace(draft, id=draft.id or new_id()), parent)
        member = self._directory.at(message.to)
        if member is None:
            return await self._store.send(message, member=None)
        conversation = conversation_of(member, message.run_id, message.id)
        shared = None if conversation == message.id else conversation
        listens = isinstance(member.agent, Agent) or is_agent_spec(member.agent)
        return await self._store.send(message, member=member.queue, conversation=shared, listens=listens)

    async def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        return await self._store.get(message_id)

    async def inbox(self, mailbox_id: str, status: str) -> list[TeamMessage]:
        """Return the messages of a mailbox in send order."""
        member = self._directory.at(mailbox_id)
        return await self._store.inbox(mailbox_key(mailbox_id) if member is None else member.queue, status)

    async def update_status(self, message_id: str, status: MessageStatus) -> bool:
        """Move a message."""
        return await self._store.update_status(message_id, str(status))
