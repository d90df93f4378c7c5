"""The six tools by which a model works a team's mailboxes itself."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field

from lattice.encoding import clean_text, pretty_json
from lattice.errors import LatticeError
from lattice.ids import derive_id
from lattice.mailbox import LEAD_MAILBOX, MessageStatus, TeamMessage, WorkItemRole
from lattice.team.definition import Directory
from lattice.team.prompts import quote
from lattice.tools.tool import ToolContext, ToolDefinition, tool

__all__ = ["MAILBOX_TOOL_NAMES", "Mail", "mailbox_tools"]

MAILBOX_TOOL_NAMES = ("team_send", "team_inbox", "team_read", "team_reply", "team_followup", "team_status")


class Mail(Protocol):
    """What the tools need of a team's mailboxes."""

    async def send(self, draft: TeamMessage) -> TeamMessage:
        """Send a message."""
        ...

    async def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        ...

    async def inbox(self, mailbox_id: str, status: str) -> list[TeamMessage]:
        """Return the messages of a mailbox."""
        ...

    async def update_status(self, message_id: str, status: MessageStatus) -> bool:
        """Move a message."""
        ...


class SendInput(BaseModel):
    """Input of team_send."""

    to: str = Field(description="The name of a member, or manager for the lead.")
    content: str
    urgency: Literal["note", "steer", "interrupt"] = Field(
        "note", description="How a recipient that is at work should take it: go on, adapt, or stop for it."
    )


class InboxInput(BaseModel):
    """Input of team_inbox."""

    status: Literal["pending", "processing", "done", "failed", "cancelled", "read", "all"] = "pending"


class ReadInput(BaseModel):
    """Input of team_read."""

    message_id: str


class AnswerInput(BaseModel):
    """Input of team_reply and team_followup."""

    message_id: str
    content: str


class StatusInput(BaseModel):
    """Input of team_status: nothing."""


def mailbox_tools(owner: str, mail: Mail, directory: Directory) -> list[ToolDefinition]:
    """Return the tools for the owner of a mailbox."""
    desk = _Desk(owner, mail, directory)
    specs: tuple[tuple[str, str, Any, Callable[..., Awaitable[str]]], ...] = (
        ("team_send", "Send an asynchronous message to another member of the team.", SendInput, desk.send),
        ("team_inbox", "List the messages of your team mailbox.", InboxInput, desk.inbox),
        ("team_read", "Read a message of your team mailbox and claim it.", ReadInput, desk.read),
        ("team_reply", "Send the final reply to a message and close it.", AnswerInput, desk.reply),
        ("team_followup", "Send progress on a message without closing it.", AnswerInput, desk.followup),
        ("team_status", "Count the messages of your team mailbox by status.", StatusInput, desk.status),
    )
    return [tool(name, text, schema, handler, on_recovery="rerun") for name, text, schema, handler in specs]


class _Desk:
    """Where one mailbox's owner reads and writes mail."""

    __slots__ = ("_directory", "_mail", "_owner")

    def __init__(self, owner: str, mail: Mail, directory: Directory) -> None:
        self._owner, self._mail, self._directory = owner, mail, directory

    async def send(self, value: SendInput, context: ToolContext) -> str:
        draft = TeamMessage(
            id=self._derived(context),
            from_=self._owner,
            to=self._directory.resolve(value.to),
            content=clean_text(value.content),
            run_id=_run_id(context),
            metadata={"urgency": value.urgency},
        )
        return _sent("team_message_sent", await self._mail.send(draft))

    async def inbox(self, value: InboxInput) -> str:
        messages = await self._mail.inbox(self._owner, value.status)
        return "\n\n".join(map(_shown, messages)) or "No team mailbox messages."

    async def read(self, value: ReadInput) -> str:
        message = await self._own(value.message_id)
        if message.status == MessageStatus.PENDING:
            await self._mail.update_status(message.id, MessageStatus.PROCESSING)
        return _shown(message)

    async def reply(self, value: AnswerInput, context: ToolContext) -> str:
        message = await self._own(value.message_id)
        actor = getattr(context.agent_runtime, "actor", None)
        if actor is not None and actor.item is not None and actor.item.message.id == message.id:
            # The member's own work item: the step that ends it carries this reply as its report.
            actor.reply = value.content
            return _sent("team_message_replied", self._answer(message, value.content, _reply_role(message), context))
        answer_id = self._derived(context)
        if message.status in {MessageStatus.DONE, MessageStatus.CANCELLED} and not await self._is_sent(answer_id):
            return f"Team message {message.id} is already {message.status}"
        await self._mail.update_status(message.id, MessageStatus.DONE)
        draft = self._answer(message, value.content, _reply_role(message), context)
        return _sent("team_message_replied", await self._mail.send(draft))

    async def followup(self, value: AnswerInput, context: ToolContext) -> str:
        message = await self._own(value.message_id)
        actor = getattr(context.agent_runtime, "actor", None)
        sent = await self._mail.send(self._answer(message, value.content, WorkItemRole.FOLLOWUP, context))
        if actor is not None:
            actor.followed_up.add(message.id)
        return _sent("team_message_followup_sent", sent)

    async def status(self, _value: StatusInput) -> str:
        counts = Counter(str(message.status) for message in await self._mail.inbox(self._owner, "all"))
        return pretty_json({"mailbox": self._owner, "counts": dict(counts)})

    async def _own(self, message_id: str) -> TeamMessage:
        message = await self._mail.get(message_id)
        if message is None:
            raise LatticeError(f"Team message {message_id} was not found")
        if message.to != self._owner:
            raise LatticeError(f"Team message {message_id} does not belong to {self._owner}")
        return message

    async def _is_sent(self, message_id: str) -> bool:
        return bool(message_id) and await self._mail.get(message_id) is not None

    def _answer(self, message: TeamMessage, content: str, role: str, context: ToolContext) -> TeamMessage:
        return TeamMessage(
            id=self._derived(context),
            from_=self._owner,
            to=message.from_,
            content=clean_text(content),
            thread_id=message.thread_id,
            parent_message_id=message.id,
            work_item_id=message.work_item_id,
            work_item_role=role,
            upstream_message_id=message.upstream_message_id,
            run_id=message.run_id or _run_id(context),
        )

    def _derived(self, context: ToolContext) -> str:
        """The same call, repeated after a crash, sends the same message; outside a store every call is new."""
        post = getattr(getattr(context.agent_runtime, "actor", None), "post", None)
        return "" if post is None else derive_id("mail", post.message_id(context.tool_use_id))


def _run_id(context: ToolContext) -> str | None:
    return getattr(context.agent_runtime, "run_id", None)


def _reply_role(message: TeamMessage) -> str:
    return WorkItemRole.UPSTREAM_REPORT if message.from_ == LEAD_MAILBOX else WorkItemRole.DOWNSTREAM_REPLY


def _sent(word: str, message: TeamMessage) -> str:
    lines = [word, f"id: {message.id}", f"to: {message.to}", f"thread: {message.thread_id}"]
    return "\n".join([*lines, f"work_item: {message.work_item_id}"])


def _shown(message: TeamMessage) -> str:
    lines = [
        f"id: {message.id}",
        f"from: {message.from_}",
        f"to: {message.to}",
        f"status: {message.status}",
        f"thread: {message.thread_id}",
        f"work_item: {message.work_item_id}",
        f"role: {message.work_item_role}",
    ]
    return "\n".join([*lines, "", quote(message.content)])
