"""The team's coordinator as the engine of RQ jobs."""

import asyncio
import logging
from typing import Any

from lattice.errors import RunParkedError, StoreError
from lattice.run_store import RunStore
from lattice.team.coordinator import Coordinator

__all__ = ["TeamEngine"]

_PAUSE = 1.0
"""Seconds before a run that the store could not be asked about is queued again."""

_log = logging.getLogger("lattice.rq")


class TeamEngine:
    """Drives a run through the team's coordinator; a run that RQ tries again is opened again first."""

    def __init__(self, store: RunStore, coordinator: Coordinator) -> None:
        self._store = store
        self._coordinator = coordinator

    async def drive(self, run_id: str, *, again: bool = False) -> dict[str, Any]:
        """See ``Engine.drive``; a store that is away does not fail a run, which is then handed over."""
        try:
            if again:
                # Refused is fine: the run did not fail, it has not even ended or has been cancelled meanwhile.
                await self._store.reopen_run(run_id)
            return await self._coordinator.drive(run_id)
        except StoreError as error:
            why = error.message
            _log.warning("run %s is put back, the store cannot be used: %s", run_id, why, extra={"run_id": run_id})
            await asyncio.sleep(_PAUSE)
            raise RunParkedError from error
