"""A coordinator: drives the leads of runs, and serves the agents behind the lead's own tools."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from lattice.team.delegates import DelegateWorkers
from lattice.team.host import Host
from lattice.team.lead import LeadDriver
from lattice.team.team import Team
from lattice.team.worker import MemberWorker

__all__ = ["Coordinator"]

_DELEGATE_CONCURRENCY = 10


class Coordinator(LeadDriver):
    """Drives runs of one team; any number of processes may have one."""

    def __init__(self, host: Host, team: Team) -> None:
        super().__init__(host, team)
        self._delegates = DelegateWorkers(host, team, MemberWorker, concurrency=_DELEGATE_CONCURRENCY)
        self._delegates.serve(team.lead)

    async def drive(
        self, run_id: str, *, leave: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> dict[str, Any]:
        """See ``LeadDriver.drive``."""
        self._delegates.start()
        return await super().drive(run_id, leave=leave)

    async def hand_over(self) -> None:
        """See ``LeadDriver.hand_over``; what the lead's own tools have under way is handed back."""
        await super().hand_over()
        await self._delegates.stop()
