"""The runtime of one actor: what its tools can ask of the team while it works."""

import time
from collections.abc import Sequence
from typing import Any

from lattice.encoding import clean_text
from lattice.errors import LatticeError, SizeLimitError
from lattice.events import TeamMessageEvent
from lattice.mailbox import MessageStatus, TeamMessage, WorkItemRole
from lattice.runs import WorkItem
from lattice.team.actor import Actor, member_source
from lattice.team.deadlines import late
from lattice.team.definition import TeamMemberDefinition, conversation_policy
from lattice.team.delegation import DelegateRequest, DelegateResult, never_ends
from lattice.team.failures import AgentRuntimeFailure, failure_of, failure_text
from lattice.team.grants import authorize_grants, grant_records
from lattice.team.names import clean_tool_name
from lattice.team.prompts import mail_note, report_text
from lattice.tools.tool import UNSET, ToolDefinition
from lattice.workspace.grants import WorkspaceGrant

__all__ = ["TeamRuntime", "conversation_policy"]


class TeamRuntime:
    """An ``AgentRuntime``; ``accepted`` counts what the response under way has handed off."""

    __slots__ = ("_has_mail", "accepted", "actor")

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.accepted = 0
        # Without members nobody can write notes, so nobody has to look for them.
        self._has_mail = next(iter(actor.directory), None) is not None

    @property
    def source(self) -> dict[str, Any]:
        """Who is at work."""
        return self.actor.source

    @property
    def permissions(self) -> Any:
        """What the actor may do beyond its own workspace."""
        return self.actor.permissions

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """The tools that the team adds."""
        return self.actor.tools

    @property
    def run_id(self) -> str | None:
        """The run that the work belongs to."""
        return self.actor.run_id

    def emit(self, event: Any) -> None:
        """Tell the run's listeners something."""
        self.actor.post.emit(event)

    def should_pause_after_tool_batch(self) -> bool:
        """Whether the query ends here because it handed work off."""
        return self.accepted > 0

    async def before_model_call(self) -> None:
        """Raise if the work has to stop here."""
        await self.actor.post.before_model_call()
        if self.actor.meter is not None:
            await self.actor.meter.before_call()

    async def before_sending(self) -> None:
        """Raise if the work is not ours any more: this process may have been stopped since it was asked last."""
        await self.actor.post.before_sending()

    async def mail_after_tool_batch(self) -> list[dict[str, Any]]:
        """Return what the actor is to be shown of mail that came while it worked, and of a budget near its end."""
        actor = self.actor
        note = await actor.meter.note() if actor.meter is not None and actor.is_lead else None
        blocks = [] if note is None else [{"type": "text", "text": note}]
        return blocks + (await self._mail() if self._has_mail else [])

    def has_urgent_mail(self) -> bool:
        """Whether the agent is to be shown its mail before it goes on."""
        return self._has_mail and bool(self.actor.alerts)

    async def _mail(self) -> list[dict[str, Any]]:
        actor = self.actor
        member = actor.directory.at(actor.mailbox)
        notes = await actor.post.notes(actor.mailbox, actor.mailbox if member is None else member.queue)
        actor.alerts.clear()
        actor.shown.update(note.id for note in notes)
        return [{"type": "text", "text": mail_note(notes)}] if notes else []

    async def delegate(self, request: Any) -> DelegateResult:
        """Have another agent do something: ask it, or hand work off to it.

        Raises:
            LatticeError: the request cannot be taken: too deep, a cycle, too large, not authorised.
        """
        asked = DelegateRequest.read(request)
        actor = self.actor
        if actor.depth >= actor.max_depth:
            raise LatticeError(f"Reached maximum delegate depth ({actor.max_depth})")
        grants = authorize_grants(asked.workspace_grants, actor.permissions, asked.name)
        item = self._item(asked, grants)
        if asked.wait == "accepted":
            return await self._hand_off(item, asked.agent)
        return await self._ask(item, asked)

    # --- handing off and asking ---------------------------------------------------------------------------------

    async def _hand_off(self, item: WorkItem, agent: Any) -> DelegateResult:
        message = await self.actor.post.hand_off(item, agent)
        self.accepted += 1
        await self._tell_sent(message)
        return DelegateResult(status="accepted", content="", request=message, workspace_grants=_grants_of(message))

    async def _ask(self, item: WorkItem, asked: DelegateRequest) -> DelegateResult:
        limit = asked.timeout_ms
        async with self.actor.waiting():
            report = await self.actor.post.ask(item, asked.agent, self._tell_sent, limit)
        if report is None:
            assert limit is not None
            failure = failure_of(late(asked.name, limit))
            content = failure_text(asked.name, failure)
            return DelegateResult(status="failed", content=content, request=item.message, error=failure)
        if report.status == MessageStatus.CANCELLED:
            failure = AgentRuntimeFailure("cancelled", "The work was cancelled before it was finished.", "AbortError")
            return DelegateResult(status="failed", content=failure.message, request=item.message, error=failure)
        metadata = report.metadata or {}
        failed = AgentRuntimeFailure.from_dict(metadata["error"]) if isinstance(metadata.get("error"), dict) else None
        return DelegateResult(
            status="completed" if failed is None else "failed",
            content=report_text(report),
            request=item.message,
            reply=report,
            error=failed,
            structured_result=metadata.get("structuredResult", UNSET),
        )

    async def _tell_sent(self, message: TeamMessage) -> None:
        await self.actor.post.tell(TeamMessageEvent("sent", self.source, message.to, message.to_dict()))

    # --- the work item ------------------------------------------------------------------------------------------

    def _item(self, asked: DelegateRequest, grants: Sequence[WorkspaceGrant]) -> WorkItem:
        actor = self.actor
        mailbox = asked.target_mailbox_id or clean_tool_name(asked.name)
        member = actor.directory.at(mailbox)
        message_id = actor.post.message_id(asked.tool_use_id)
        message = self._message(asked, mailbox, message_id, grants, member)
        key = member.queue if member is not None else clean_tool_name(asked.name)
        conversation = actor.post.conversation(member, asked.agent, key, message_id)
        chain = (*actor.chain, actor.conversation)
        if conversation in chain:
            raise never_ends(asked.name)
        return WorkItem(
            message=message,
            member=key,
            conversation=conversation,
            mode="handoff" if asked.wait == "accepted" else "ask",
            depth=actor.depth + 1,
            shared=conversation not in {message_id, ""},
            description=asked.description,
            chain=chain,
            account=actor.account,
        )

    def _message(
        self,
        asked: DelegateRequest,
        mailbox: str,
        message_id: str,
        grants: Sequence[WorkspaceGrant],
        member: TeamMemberDefinition | None,
    ) -> TeamMessage:
        actor = self.actor
        content = clean_text(asked.task)
        size = len(content.encode())
        if size > actor.max_message_bytes:
            raise SizeLimitError(f"the task for {asked.name}", size, actor.max_message_bytes)
        metadata = None
        if grants:
            grantee = (
                {"kind": "agent", "name": clean_tool_name(asked.name), "mailbox": mailbox}
                if member is None
                else member_source(actor.directory.team, member)
            )
            records = grant_records(grants, grantor=actor.source, grantee=grantee, work_item_id=message_id)
            metadata = {"workspaceGrants": records}
        return TeamMessage(
            id=message_id,
            from_=actor.mailbox,
            to=mailbox,
            content=content,
            created_at=time.time_ns() // 1_000_000,
            thread_id=message_id,
            work_item_id=message_id,
            work_item_role=WorkItemRole.DELEGATION,
            upstream_message_id=message_id,
            parent_work_item_id=None if actor.item is None else actor.item.message.work_item_id,
            run_id=actor.run_id,
            metadata=metadata,
        )


def _grants_of(message: TeamMessage) -> list[dict[str, Any]]:
    grants = (message.metadata or {}).get("workspaceGrants")
    return grants if isinstance(grants, list) else []
