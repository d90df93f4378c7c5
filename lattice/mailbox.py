"""Contract: a team's mailboxes, and the message that travels through them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from lattice.errors import OptionError

__all__ = [
    "LEAD_MAILBOX",
    "SEND_OPTIONS",
    "MailboxStatusFilter",
    "MessageStatus",
    "TeamMailbox",
    "TeamMessage",
    "WorkItemRole",
    "check_send_options",
    "complete_message",
    "infer_role",
    "mailbox_key",
]

LEAD_MAILBOX = "manager"
"""The mailbox id of every team's lead; keys are kept apart by team, so leads never mix."""

MailboxStatusFilter = str
"""A message status, or ``"all"``."""


class MessageStatus(StrEnum):
    """Where a message stands; see ``ALLOWED_MOVES`` in ``lattice.runs`` for the arrows between them."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    READ = "read"

    @property
    def is_terminal(self) -> bool:
        """Whether the message can change no more."""
        return self not in (MessageStatus.PENDING, MessageStatus.PROCESSING)


class WorkItemRole(StrEnum):
    """What a message is to the work item that it belongs to."""

    UPSTREAM_REQUEST = "upstream_request"
    DELEGATION = "delegation"
    EXECUTOR_RESULT = "executor_result"
    DOWNSTREAM_REPLY = "downstream_reply"
    UPSTREAM_REPORT = "upstream_report"
    FOLLOWUP = "followup"
    MESSAGE = "message"


_WIRE = {
    "id": "id",
    "from_": "from",
    "to": "to",
    "content": "content",
    "status": "status",
    "created_at": "createdAt",
    "thread_id": "threadId",
    "parent_message_id": "parentMessageId",
    "work_item_id": "workItemId",
    "work_item_role": "workItemRole",
    "upstream_message_id": "upstreamMessageId",
    "parent_work_item_id": "parentWorkItemId",
    "run_id": "runId",
    "metadata": "metadata",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMessage:
    """One message between two mailboxes.

    ``from_`` and ``to`` are mailbox ids (``"engineering::backend"``, ``"manager"``), ``created_at`` is epoch
    milliseconds of the store's clock. ``parent_work_item_id`` is the enclosing item of a nested delegation.
    """

    id: str
    from_: str
    to: str
    content: str
    status: MessageStatus = MessageStatus.PENDING
    created_at: int = 0
    thread_id: str = ""
    parent_message_id: str | None = None
    work_item_id: str | None = None
    work_item_role: str | None = None
    upstream_message_id: str | None = None
    parent_work_item_id: str | None = None
    run_id: str | None = None
    metadata: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; absent fields are absent."""
        record = {}
        for name, wire in _WIRE.items():
            value = getattr(self, name)
            if value is not None:
                record[wire] = str(value) if name in ("status", "work_item_role") else value
        return record

    @classmethod
    def from_dict(cls, record: "Mapping[str, Any] | TeamMessage") -> "TeamMessage":
        """Read a record in wire spelling (snake_case is understood too).

        Raises:
            OptionError: a required field is missing or the status is none of the six.
        """
        if isinstance(record, TeamMessage):
            return record
        values: dict[str, Any] = {}
        for name, wire in _WIRE.items():
            value = record.get(wire, record.get(name))
            if value is not None:
                values[name] = value
        for required in ("id", "from_", "to", "content"):
            if required not in values:
                raise OptionError(f"a mailbox message needs {_WIRE[required]!r}; got the keys {sorted(record)}")
        try:
            values["status"] = MessageStatus(values.get("status", "pending"))
        except ValueError:
            known = ", ".join(MessageStatus)
            raise OptionError(f"message {values['id']}: status {values['status']!r} is none of {known}") from None
        values.setdefault("thread_id", values["id"])
        return cls(**values)

    def evolve(self, **changes: Any) -> "TeamMessage":
        """Return a copy with some fields changed."""
        return replace(self, **changes)


class TeamMailbox(Protocol):
    """Five message-centric methods; the runtime drives the states, an adapter only keeps them.

    A host's adapter may be sync or async and may return dicts in wire spelling. ``claim_next`` must be atomic where
    several claimants share the mailbox.
    """

    def send(self, from_: str, to: str, content: str, **options: Any) -> Any:
        """Keep a new pending message and return it.

        Options: thread_id, parent_message_id, work_item_id, work_item_role, upstream_message_id,
        parent_work_item_id, run_id, metadata, id.
        """
        ...

    def inbox(self, mailbox_id: str, status: MailboxStatusFilter = "pending") -> Any:
        """Return the messages of a mailbox in send order."""
        ...

    def get(self, message_id: str) -> Any:
        """Return a message, or None."""
        ...

    def claim_next(self, mailbox_id: str) -> Any:
        """Turn the oldest pending message to processing and return it, or return None."""
        ...

    def update_status(self, message_id: str, status: str) -> Any:
        """Move a message to another status; False when the message is unknown or the move is refused."""
        ...


SEND_OPTIONS = frozenset(
    {
        "id",
        "thread_id",
        "parent_message_id",
        "work_item_id",
        "work_item_role",
        "upstream_message_id",
        "parent_work_item_id",
        "run_id",
        "metadata",
    }
)
"""What ``TeamMailbox.send`` takes beyond sender, recipient and content."""


def mailbox_key(mailbox_id: str) -> str:
    """Return what names a mailbox inside its team: ``backend`` for ``engineering::backend``, else the id itself."""
    return mailbox_id.rpartition("::")[2] or mailbox_id


def check_send_options(options: Mapping[str, Any]) -> None:
    """Refuse options that ``send`` does not know.

    Raises:
        OptionError: an option is unknown.
    """
    unknown = sorted(set(options) - SEND_OPTIONS)
    if unknown:
        raise OptionError(f"send: unknown option {', '.join(map(repr, unknown))}; known are {sorted(SEND_OPTIONS)}")


def infer_role(from_: str, to: str, parent: TeamMessage | None) -> str:
    """Return the role of a message that was sent without one."""
    if from_ == LEAD_MAILBOX:
        return WorkItemRole.UPSTREAM_REQUEST
    if to == LEAD_MAILBOX:
        return WorkItemRole.UPSTREAM_REPORT
    if parent is not None and parent.work_item_role == WorkItemRole.EXECUTOR_RESULT:
        return WorkItemRole.DOWNSTREAM_REPLY
    if parent is not None and parent.work_item_id:
        return WorkItemRole.EXECUTOR_RESULT
    return WorkItemRole.DELEGATION


def complete_message(message: TeamMessage, parent: TeamMessage | None) -> TeamMessage:
    """Fill in what the sender left open: thread, work item, upstream message and role.

    ``parent`` is the stored message that ``parent_message_id`` names, None when it is unknown.
    """
    work_item = message.work_item_id or (parent.work_item_id if parent else None) or message.id
    thread = message.thread_id or (parent.thread_id if parent else None) or message.id
    upstream = message.upstream_message_id or (parent.upstream_message_id if parent else None) or work_item
    role = message.work_item_role or infer_role(message.from_, message.to, parent)
    return replace(message, work_item_id=work_item, thread_id=thread, upstream_message_id=upstream, work_item_role=role)
