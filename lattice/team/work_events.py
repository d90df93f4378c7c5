"""What a run's events tell of one work item: that it was claimed, put off, brought to an end."""

from typing import Any

from lattice.events import TeamAgentEvent, TeamMessageEvent
from lattice.mailbox import LEAD_MAILBOX, MessageStatus, TeamMessage
from lattice.team.actor import lead_source, member_source
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.endings import Ending, report_message
from lattice.team.failures import AgentRuntimeFailure
from lattice.team.store_post import StorePost

__all__ = ["WorkEvents"]


class WorkEvents:
    """Tells of the items of one member; ``source`` is how it is named in events."""

    def __init__(self, team: str, member: TeamMemberDefinition, directory: Directory, source: dict[str, Any]) -> None:
        self._team = team
        self._directory = directory
        self._source = source
        self._mailbox = str(member.mailbox_id)

    async def claimed(self, post: StorePost, message: TeamMessage) -> None:
        """Tell that work on a message begins."""
        caller = self._caller(message.from_)
        await post.tell(TeamMessageEvent("claimed", caller, self._mailbox, message.to_dict()))
        await post.tell(TeamAgentEvent("started", self._source))

    def put_off(self, post: StorePost, message: TeamMessage, failure: AgentRuntimeFailure) -> None:
        """Tell that it failed and is tried again later."""
        post.emit(TeamAgentEvent("finished", self._source))
        waiting = message.evolve(status=MessageStatus.PENDING)
        post.emit(TeamMessageEvent("retrying", self._source, self._mailbox, waiting.to_dict(), failure.to_dict()))

    async def ended(self, post: StorePost, message: TeamMessage, ending: Ending, report_id: str) -> None:
        """Tell how it ended, and what was reported."""
        error = None if ending.failure is None else ending.failure.to_dict()
        await post.tell(TeamAgentEvent("finished", self._source))
        ended = message.evolve(status=ending.status)
        subtype = "followup" if ending.status is MessageStatus.PROCESSING else str(ending.status)
        await post.tell(TeamMessageEvent(subtype, self._source, self._mailbox, ended.to_dict(), error))
        if ending.report is not None:
            report = report_message(message, ending, report_id)
            await post.tell(TeamMessageEvent("replied", self._source, message.from_, report.to_dict(), error))

    def _caller(self, mailbox: str) -> dict[str, Any]:
        member = self._directory.at(mailbox)
        if mailbox == LEAD_MAILBOX or member is None:
            return lead_source(self._team)
        return member_source(self._team, member)
