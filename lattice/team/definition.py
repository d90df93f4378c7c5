"""What a team is made of: member definitions, and the addresses that follow from them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lattice.errors import OptionError
from lattice.mailbox import LEAD_MAILBOX
from lattice.runs import member_conversation, run_conversation
from lattice.team.deadlines import read_ask_timeout
from lattice.team.names import SEPARATOR, clean_name, clean_tool_name, member_mailbox
from lattice.team.retries import NO_RETRY, RetryPolicy, read_retry

__all__ = [
    "CONVERSATIONS",
    "Directory",
    "TeamMemberDefinition",
    "conversation_of",
    "conversation_policy",
    "team_member",
]

CONVERSATIONS = ("work_item", "run", "member")
"""Which history a member uses: a fresh one per work item, one per run, or one for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMemberDefinition:
    """A named member of a team; made by ``team_member``.

    ``key`` is the name as it stands in keys and tool names. ``conversation`` is None where the kind of ``agent``
    decides. ``retry`` says how often, and after which failures, work is tried again before its failure is reported;
    ``timeout_ms`` how long one try may take, ``ask_timeout_ms`` how long the lead waits for an answer, in milliseconds.
    ``own_queue`` is set for an agent that is
    no member but stands behind a member's tool.
    """

    name: str
    role: str
    agent: Any
    focus: str | None = None
    mailbox_id: str | None = None
    conversation: str | None = None
    retry: RetryPolicy = NO_RETRY
    timeout_ms: int | None = None
    ask_timeout_ms: int | None = None
    own_queue: str | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", clean_name("Team member", self.name))

    @property
    def queue(self) -> str:
        """What its mailbox is called in the store."""
        return self.own_queue or self.key


def team_member(
    *,
    name: str,
    agent: Any,
    role: str = "executor",
    focus: str | None = None,
    mailbox_id: str | None = None,
    conversation: str | None = None,
    retry: int | Mapping[str, Any] | RetryPolicy | None = None,
    timeout_ms: int | None = None,
    ask_timeout_ms: int | None = None,
) -> TeamMemberDefinition:
    """Define a member of a team.

    Args:
        name: what the lead calls it; it becomes the name of its tool and of its mailbox.
        agent: an ``AgentSpec`` (a fresh session per work item), a live agent, a team, or any object with ``query``.
        role: ``"lead"``, ``"head"`` or ``"executor"``; shown to the models.
        focus: what it is good at; shown to the models.
        mailbox_id: the address of its mailbox; ``team::name`` if not given.
        conversation: ``"work_item"``, ``"run"`` or ``"member"``: which history it works in.
        retry: how often a failure that may pass is tried again before it is reported; a dict or ``RetryPolicy`` says
            more: ``{"attempts": 5, "first_delay": 2.0, "longest_delay": 60.0, "codes": ["rate_limit", "overload"]}``.
            Work that waits for its next try holds no place and no lease.
        timeout_ms: how long one try of a work item may take, in milliseconds; None is for ever.
        ask_timeout_ms: how long the lead waits for an answer when it asks, in milliseconds from the ask; then what was
            asked is cancelled, and the lead's call fails with the code ``timeout``. None is for ever.

    Raises:
        OptionError: an option cannot be used.
    """
    clean_name("Team member", name)
    if agent is None or not (callable(getattr(agent, "query", None)) or callable(getattr(agent, "spawn", None))):
        raise OptionError(f"team_member({name!r}): agent must be an AgentSpec or have query(), not {agent!r}")
    if conversation is not None and conversation not in CONVERSATIONS:
        raise OptionError(f"team_member({name!r}): conversation must be one of {CONVERSATIONS}, not {conversation!r}")
    if timeout_ms is not None and (type(timeout_ms) is not int or timeout_ms <= 0):
        raise OptionError(f"team_member({name!r}): timeout_ms must be a positive integer, not {timeout_ms!r}")
    if mailbox_id is not None and (type(mailbox_id) is not str or not mailbox_id.strip()):
        raise OptionError(f"team_member({name!r}): mailbox_id must be a text, not {mailbox_id!r}")
    return TeamMemberDefinition(
        name=name,
        role=role,
        agent=agent,
        focus=focus,
        mailbox_id=mailbox_id,
        conversation=conversation,
        retry=read_retry(retry, f"team_member({name!r})"),
        timeout_ms=timeout_ms,
        ask_timeout_ms=read_ask_timeout(ask_timeout_ms, f"team_member({name!r})"),
    )


class Directory:
    """Who is in a team, and where their mail goes."""

    __slots__ = ("_by_key", "_by_mailbox", "_delegates", "team")

    def __init__(self, team: str, members: Iterable[TeamMemberDefinition]) -> None:
        """Give every member an address.

        Raises:
            OptionError: two members would share a name, a key or a mailbox.
        """
        self.team = team
        self._by_key: dict[str, TeamMemberDefinition] = {}
        self._by_mailbox: dict[str, TeamMemberDefinition] = {}
        self._delegates: dict[str, TeamMemberDefinition] = {}
        for member in members:
            self._add(member)

    def extended(self, delegates: Iterable[TeamMemberDefinition]) -> "Directory":
        """Return a directory that also knows agents which are no members, by their mailboxes."""
        copy = Directory(self.team, self)
        copy._delegates = {str(delegate.mailbox_id): delegate for delegate in delegates}
        return copy

    def _add(self, member: TeamMemberDefinition) -> None:
        key = member.key
        other = self._by_key.get(key)
        if other is not None:
            raise OptionError(
                f"team {self.team!r}: the members {other.name!r} and {member.name!r} would both be called {key!r};"
                " rename one of them"
            )
        mailbox_id = member.mailbox_id or member_mailbox(self.team, key)
        if mailbox_id == LEAD_MAILBOX or mailbox_id in self._by_mailbox:
            raise OptionError(f"team {self.team!r}: the mailbox {mailbox_id!r} of {member.name!r} is taken")
        member = replace(member, mailbox_id=mailbox_id)
        self._by_key[key] = self._by_mailbox[mailbox_id] = member

    def __iter__(self) -> Iterator[TeamMemberDefinition]:
        return iter(self._by_key.values())

    def member(self, key: str) -> TeamMemberDefinition | None:
        """Return the member with this key, or None."""
        return self._by_key.get(key)

    def require(self, key: str) -> TeamMemberDefinition:
        """Return the member with this name or key.

        Raises:
            OptionError: the team has no such member.
        """
        member = self._by_key.get(key) or self._by_key.get(clean_tool_name(key))
        if member is None:
            known = ", ".join(self._by_key) or "none"
            raise OptionError(f"team {self.team!r} has no member {key!r}; its members are {known}")
        return member

    def at(self, mailbox_id: str) -> TeamMemberDefinition | None:
        """Return the member, or delegate, whose mailbox this is, or None."""
        return self._by_mailbox.get(mailbox_id) or self._delegates.get(mailbox_id)

    def resolve(self, to: str) -> str:
        """Return the mailbox id of a recipient, given as a name or a mailbox id.

        Raises:
            OptionError: the team has no such recipient.
        """
        if to == LEAD_MAILBOX or to in self._by_mailbox:
            return to
        member = None if SEPARATOR in to else self._by_key.get(clean_tool_name(to.strip()))
        if member is None or member.mailbox_id is None:
            raise OptionError(f"nobody in team {self.team!r} is called {to!r}; recipients are {self.recipients()}")
        return member.mailbox_id

    def recipients(self) -> str:
        """Return the names that mail can be sent to, for a message to a human or a model."""
        return ", ".join([LEAD_MAILBOX, *self._by_key])


def conversation_policy(member: TeamMemberDefinition) -> str:
    """Return which history a member works in in a worker process; a nested team keeps none of its own."""
    if member.conversation is not None:
        return member.conversation
    agent = member.agent
    is_fresh = callable(getattr(agent, "spawn", None)) or callable(getattr(agent, "drain", None))
    return "work_item" if is_fresh else "run"


def conversation_of(member: TeamMemberDefinition, run_id: str | None, message_id: str) -> str:
    """Return the conversation in which a member does a piece of work in a worker process."""
    policy = conversation_policy(member)
    if policy == "member":
        return member_conversation(member.queue)
    if policy == "run" and run_id is not None:
        return run_conversation(run_id, member.queue)
    return message_id
