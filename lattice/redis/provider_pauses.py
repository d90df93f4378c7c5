"""Pauses that a model provider asked for, kept by all processes of a team."""

import asyncio
import logging
import random

from lattice.errors import StoreError
from lattice.redis.base import StorePart

__all__ = ["ProviderPauses"]

_log = logging.getLogger("lattice.redis")

_PATIENCE = 1.0
"""Seconds that a model call waits for Redis here: the provider itself says so, too, when it wants a pause."""


class ProviderPauses(StorePart):
    """A ``ProviderGate`` over one key per provider: it lasts as long as the pause, and says how wide to spread then."""

    async def hold_off(self, provider: str, seconds: float) -> None:
        """See ``ProviderGate.hold_off``; a pause that lasts longer stays."""
        key, pause_ms = self.keys.provider_pause(provider), max(1, round(seconds * 1000))
        try:
            async with asyncio.timeout(_PATIENCE):
                if int(await self._lane.command("PTTL", key)) < pause_ms:
                    await self._lane.command("SET", key, pause_ms, "PX", pause_ms)
        except (StoreError, TimeoutError) as error:
            _log.warning("other processes do not hear of a provider's pause of %.1f s: %s", seconds, error)

    async def admission(self, provider: str) -> None:
        """See ``ProviderGate.admission``; while Redis is away nobody waits."""
        key = self.keys.provider_pause(provider)
        while True:
            try:
                async with asyncio.timeout(_PATIENCE):
                    spread, left = await asyncio.gather(self._lane.command("GET", key), self._lane.command("PTTL", key))
            except (StoreError, TimeoutError) as error:
                _log.debug("a provider's pause is not known: %s", error)
                return
            if spread is None or int(left) <= 0:
                return
            await asyncio.sleep(int(left) / 1000 + random.uniform(0, int(spread) / 1000))  # noqa: S311 - jitter
