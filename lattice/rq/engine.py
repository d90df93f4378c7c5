"""The team's coordinator as the engine of RQ jobs."""

from typing import Any

from lattice.run_store import RunStore
from lattice.team.coordinator import Coordinator

__all__ = ["TeamEngine"]


class TeamEngine:
    """Drives a run through the team's coordinator; a run that RQ tries again is opened again first."""

    def __init__(self, store: RunStore, coordinator: Coordinator) -> None:
        self._store = store
        self._coordinator = coordinator

    async def drive(self, run_id: str, *, again: bool = False) -> dict[str, Any]:
        """See ``Engine.drive``."""
        if again:
            # Refused is fine: the run did not fail, it has not even ended or has been cancelled meanwhile.
            await self._store.reopen_run(run_id)
        return await self._coordinator.drive(run_id)
