"""Who is at work: the lead in one of its legs, or a member on one work item, and what belongs to that work."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from lattice.abort import AbortSignal
from lattice.mailbox import LEAD_MAILBOX, TeamMessage
from lattice.runs import Account, WorkItem
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.metering import Meter
from lattice.tools.tool import ToolDefinition

__all__ = ["Actor", "Post", "lead_source", "member_source"]


def lead_source(team: str) -> dict[str, Any]:
    """Return how events name a team's lead."""
    return {"kind": "root", "name": team, "team": team, "mailbox": LEAD_MAILBOX}


def member_source(team: str, member: TeamMemberDefinition) -> dict[str, Any]:
    """Return how events name a member."""
    key = member.key
    return {"kind": "team_member", "name": key, "team": team, "member": key, "mailbox": member.mailbox_id}


class Post(Protocol):
    """How an actor's mail travels and its events are told: through a shared store, or within this process."""

    def emit(self, event: Any) -> None:
        """Tell an event of an agent."""
        ...

    async def tell(self, event: Any) -> None:
        """Tell an event of the team."""
        ...

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the run's total."""
        ...

    async def before_model_call(self) -> None:
        """Raise if the work has to stop here."""
        ...

    async def before_sending(self) -> None:
        """Raise if the work is not ours any more."""
        ...

    async def notes(self, mailbox: str, queue: str) -> list[TeamMessage]:
        """Take the notes that other agents have sent to a mailbox (``queue`` in the store), each of them once."""
        ...

    def message_id(self, tool_use_id: str) -> str:
        """Return the id of what a tool call sends; the same when the call is repeated after a crash."""
        ...

    def conversation(self, member: TeamMemberDefinition | None, agent: Any, key: str, message_id: str) -> str:
        """Return the conversation that an agent would do a piece of work in; ``message_id`` if in one of its own."""
        ...

    async def hand_off(self, item: WorkItem, agent: Any) -> TeamMessage:
        """Accept a handoff; it is sent at once, or with the others of its response."""
        ...

    async def ask(
        self, item: WorkItem, agent: Any, sent: Callable[[TeamMessage], Awaitable[None]], timeout_ms: int | None
    ) -> TeamMessage | None:
        """Send a question and return the report on it, or the question itself if it was cancelled.

        None if it was cancelled because no report has come within ``timeout_ms`` of the sending.
        """
        ...

    async def reports(self) -> tuple[TeamMessage, ...]:
        """See to it that what was handed off is worked on; return its reports in the order of the handoffs."""
        ...


@dataclass(slots=True, kw_only=True)
class Actor:
    """One agent at work on one conversation.

    ``item`` is the work item of a member and None for a lead. ``chain`` are the conversations that wait for this one;
    ``leave()`` gives the actor's working place back while it waits for others. ``reply`` is what the member said by
    ``team_reply`` about its own work item: its report. ``followed_up`` are messages that it sent progress on.
    ``is_heavy()`` says that its session takes much memory: it is dropped while the actor waits, and ``reopen()`` makes
    it again. ``session`` answers the query under way; ``alerts`` are urgent notes that it has not been shown yet,
    ``shown`` notes that it has. ``resting`` says that it waits for what it handed off, ``interrupted`` that it is not
    to be asked again after that.
    """

    name: str
    agent: Any
    source: dict[str, Any]
    mailbox: str
    conversation: str
    directory: Directory
    signal: AbortSignal
    run_id: str | None
    post: Post
    item: WorkItem | None = None
    depth: int = 0
    max_depth: int = 8
    chain: tuple[str, ...] = ()
    permissions: Any = None
    tools: Sequence[ToolDefinition] = ()
    query_options: dict[str, Any] = field(default_factory=dict)
    max_message_bytes: int = 1024 * 1024
    reply: str | None = None
    followed_up: set[str] = field(default_factory=set)
    interrupted: bool = False
    resting: bool = False
    session: Any = None
    alerts: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    is_heavy: Callable[[], bool] = bool
    reopen: Callable[[], Awaitable[Any]] | None = None
    leave: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    meter: Meter | None = None

    @property
    def account(self) -> Account | None:
        """What its model calls, and those of whoever it asks, are drawn from."""
        return None if self.meter is None else self.meter.purse.account

    @property
    def is_lead(self) -> bool:
        """Whether this is the lead of its team."""
        return self.item is None

    def alert(self, note_id: str) -> None:
        """Have the agent deal with an urgent note now: a model call is broken off, a batch of tools runs to its end."""
        if note_id in self.shown:
            return
        self.alerts.add(note_id)
        cut_in = getattr(self.session, "cut_in", None)
        if callable(cut_in):
            cut_in()

    def waiting(self) -> AbstractAsyncContextManager[None]:
        """Give the working place back while the block runs."""
        return self.leave()
