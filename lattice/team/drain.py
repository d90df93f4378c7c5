"""``Team.drain``: works what waits in the members' mailboxes, by hand, one message at a time."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lattice.abort import AbortSignal
from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.encoding import compact_json
from lattice.errors import AbortError, LatticeError, OptionError
from lattice.mailbox import LEAD_MAILBOX, MessageStatus, TeamMailbox, TeamMessage, WorkItemRole
from lattice.memory.adapter import MailboxAdapter
from lattice.team.actor import member_source
from lattice.team.alerts import Alerts
from lattice.team.answers import Answer
from lattice.team.deadlines import within
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.delegation import DelegateRequest, DelegateResult
from lattice.team.failures import failure_of
from lattice.team.prompts import drain_envelope, urgency_of
from lattice.tools.tool import UNSET, ToolDefinition

__all__ = ["Drain", "TeamDrainResult", "read_drain_options", "unanswered"]


@dataclass(frozen=True, slots=True)
class TeamDrainResult:
    """How many messages were claimed, how many of them failed, in how many rounds (the last, empty one included)."""

    processed: int
    failed: int
    rounds: int


@dataclass(slots=True)
class _Turn:
    """What a drained member's mailbox tools note down; it has no work item of a run."""

    followed_up: set[str] = field(default_factory=set)
    item: None = None
    post: None = None
    reply: str | None = None


class _DrainRuntime:
    """The runtime of a drained member: its mailbox tools, and questions to other agents, but no run to hand off to."""

    __slots__ = ("actor", "permissions", "run_id", "signal", "source", "tools")

    def __init__(self, source: dict[str, Any], tools: Sequence[ToolDefinition], signal: AbortSignal | None) -> None:
        self.source = source
        self.tools = tools
        self.signal = signal
        self.permissions = None
        self.run_id = None
        self.actor = _Turn()

    def emit(self, event: Any) -> None:
        """Nobody listens to a drain."""

    async def delegate(self, request: Any) -> DelegateResult:
        """Ask another agent directly.

        Raises:
            LatticeError: it is a handoff, or comes with grants.
            Exception: whatever the agent's own failure is.
        """
        asked = DelegateRequest.read(request)
        if asked.wait == "accepted" or asked.workspace_grants:
            raise LatticeError(
                f'agentTool("{asked.name}") mode=handoff requires an AgentRuntime with a run; drain() has none.'
                " Available modes without AgentRuntime: ask."
            )
        agent = asked.agent.spawn() if is_agent_spec(asked.agent) else asked.agent

        async def ask(signal: AbortSignal | None) -> Answer:
            return Answer(await agent.prompt(asked.task, **({} if signal is None else {"signal": signal})))

        answer = await within(asked.timeout_ms, asked.name, self.signal, ask)
        if answer.is_error:
            raise answer.error if isinstance(answer.error, BaseException) else LatticeError(answer.text)
        message = TeamMessage(id="", from_=str(self.source["mailbox"]), to=asked.name, content=asked.task)
        return DelegateResult(
            status="completed", content=answer.text, request=message, structured_result=answer.structured_result
        )


class Drain:
    """One call of ``Team.drain``."""

    def __init__(
        self,
        directory: Directory,
        mailbox: TeamMailbox,
        tools: Mapping[str, Sequence[ToolDefinition]],
        alerts: Alerts,
    ) -> None:
        self._directory = directory
        self._alerts = alerts
        self._mailbox = mailbox
        self._mail = MailboxAdapter(mailbox)
        self._tools = tools

    async def run(self, max_rounds: int, max_messages: int, signal: AbortSignal | None) -> TeamDrainResult:
        """Go round the members until nothing is left or a limit is reached.

        Raises:
            AbortError: the signal fired.
        """
        processed = failed = rounds = 0
        while rounds < max_rounds and processed < max_messages:
            if signal is not None:
                signal.throw_if_aborted()
            rounds += 1
            before = processed
            for member in self._directory:
                if processed >= max_messages:
                    break
                message = await self._claim(member)
                if message is not None:
                    processed += 1
                    failed += not await self._work(member, message, signal)
            if processed == before:
                break
        return TeamDrainResult(processed, failed, rounds)

    async def _claim(self, member: TeamMemberDefinition) -> TeamMessage | None:
        mailbox_id = str(member.mailbox_id)
        if self._alerts.at_work(mailbox_id) and await self._next_is_a_note(mailbox_id):
            return None
        claimed = self._mailbox.claim_next(mailbox_id)
        record = await claimed if inspect.isawaitable(claimed) else claimed
        return None if record is None else TeamMessage.from_dict(record)

    async def _next_is_a_note(self, mailbox_id: str) -> bool:
        """Whether a note is next: it belongs to the member that is at work, not to a prompt beside it."""
        pending = await self._mail.inbox(mailbox_id, MessageStatus.PENDING)
        return bool(pending) and urgency_of(pending[0]) is not None

    async def _work(self, member: TeamMemberDefinition, message: TeamMessage, signal: AbortSignal | None) -> bool:
        """Prompt a member with a message and see to it that the message is closed; False if it failed."""
        tools = self._tools.get(member.key, ())
        runtime = _DrainRuntime(member_source(self._directory.team, member), tools, signal)
        answer, error = await self._prompt(member, message, runtime, signal)
        if signal is not None and signal.aborted:
            await self._mail.update_status(message.id, MessageStatus.CANCELLED)
            raise AbortError("Operation aborted", cause=signal.reason)
        now = await self._mail.get(message.id)
        is_open = now is not None and now.status is MessageStatus.PROCESSING
        if error is None and answer is not None and not tools and is_open:
            await self._close(member, message, answer)
            return True
        followed_up = message.id in runtime.actor.followed_up
        if is_open and not followed_up:
            reason = failure_of(error).message if error is not None else "" if answer is None else answer.text
            await self._fail(member, message, reason)
            return False
        return error is None

    async def _prompt(
        self, member: TeamMemberDefinition, message: TeamMessage, runtime: _DrainRuntime, signal: AbortSignal | None
    ) -> tuple[Answer | None, Any]:
        agent = member.agent.spawn() if is_agent_spec(member.agent) else member.agent
        envelope = drain_envelope(
            message, member=member.key, role=member.role, focus=member.focus, has_mailbox_tools=bool(runtime.tools)
        )
        options: dict[str, Any] = {} if signal is None else {"signal": signal}
        if isinstance(agent, Agent):
            options["runtime"] = runtime
        try:
            answer = Answer(await agent.prompt(envelope, **options))
        except Exception as error:  # noqa: BLE001 - a member that breaks fails its message, not the drain
            return None, error
        if not answer.is_error:
            return answer, None
        return answer, answer.error or LatticeError(answer.text or f"{member.key} failed")

    async def _close(self, member: TeamMemberDefinition, message: TeamMessage, answer: Answer) -> None:
        await self._mail.update_status(message.id, MessageStatus.DONE)
        text = answer.text
        if not text and answer.structured_result is not UNSET:
            text = compact_json(answer.structured_result)
        await self._mail.send(_answer(member, message, text, WorkItemRole.UPSTREAM_REPORT))

    async def _fail(self, member: TeamMemberDefinition, message: TeamMessage, reason: str) -> None:
        await self._mail.update_status(message.id, MessageStatus.FAILED)
        await self._mail.send(_answer(member, message, unanswered(member.key, reason), WorkItemRole.FOLLOWUP))


def unanswered(member: str, reason: str) -> str:
    """Return what the sender of a message is told whose recipient ended its turn without an answer."""
    text = f"{member} ended without team_reply or team_followup."
    return f"{text} Reason: {reason}" if reason else text


def _answer(member: TeamMemberDefinition, message: TeamMessage, content: str, role: str) -> TeamMessage:
    return TeamMessage(
        id="",
        from_=str(member.mailbox_id),
        to=message.from_ or LEAD_MAILBOX,
        content=content,
        thread_id=message.thread_id,
        parent_message_id=message.id,
        work_item_id=message.work_item_id,
        work_item_role=role,
        upstream_message_id=message.upstream_message_id,
        run_id=message.run_id,
    )


def read_drain_options(options: Mapping[str, Any]) -> tuple[int, int, AbortSignal | None]:
    """Return the limits and the signal of a drain.

    Raises:
        OptionError: an option is unknown or cannot be used.
    """
    spelled = {"maxRounds": "max_rounds", "maxMessages": "max_messages"}
    given = {spelled.get(key, key): value for key, value in options.items() if value is not None}
    known = ("max_rounds", "max_messages", "signal")
    for key in given:
        if key not in known:
            raise OptionError(f'drain: unknown option "{key}"; known are {", ".join(known)}')
    for key in ("max_rounds", "max_messages"):
        value = given.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"drain: {key} must be a positive integer, not {value!r}")
    return given.get("max_rounds", 10), given.get("max_messages", 50), given.get("signal")
