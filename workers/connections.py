"""Where Redis is, and the client of a team there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lattice.client import LatticeClient
from lattice.errors import OptionError
from lattice.redis.connection import check_server, open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from workers.embedded_redis import DATA_FOLDER, running_url
from workers.settings import Settings

__all__ = [
    "OwnRedisRunStore",
    "check_redis",
    "client_of",
    "redis_url_of",
    "store_of",
    "store_options",
    "unchecked_store",
]


def redis_url_of(settings: Settings) -> str:
    """Return the configured URL, else that of the server which ``lattice up`` runs in this folder.

    Raises:
        OptionError: there is neither.
    """
    url = settings.redis_url or running_url(Path.cwd() / DATA_FOLDER)
    if url is None:
        raise OptionError(
            "no Redis is configured, and no `lattice up` runs in this folder.\n"
            "Name a server with --redis-url or LATTICE_REDIS_URL, for instance redis://localhost:6379/0."
        )
    return url


async def check_redis(url: str) -> None:
    """Make sure that a server can be used, before anything starts.

    Raises:
        StoreError: it cannot be reached or is not fit to keep work in; says what to do.
    """
    redis = open_redis(url)
    try:
        await check_server(redis, url)
    finally:
        await redis.aclose(close_connection_pool=True)


def store_options(settings: Settings) -> StoreOptions:
    """Return the limits that the settings give a store."""
    return StoreOptions(
        max_attempts=settings.max_attempts,
        retention_ms=settings.retention_ms,
        max_message_bytes=settings.max_message_bytes,
        max_conversation_bytes=settings.max_conversation_bytes,
        max_mailbox_depth=settings.max_mailbox_depth,
        max_events=settings.max_events,
        max_dead_letters=settings.max_dead_letters,
    )


class OwnRedisRunStore(RedisRunStore):
    """A run store that is alone on its client, and closes it."""

    async def close(self) -> None:
        """Release the connections."""
        await super().close()
        await self._redis.aclose(close_connection_pool=True)


def unchecked_store(settings: Settings, team: str) -> OwnRedisRunStore:
    """Return the run store of a team, on a client of its own that connects when it is needed."""
    return OwnRedisRunStore(open_redis(redis_url_of(settings)), team, store_options(settings))


def client_of(settings: Settings, team: str) -> LatticeClient:
    """Return the client of a team, to be entered."""
    return LatticeClient(team=team, redis_url=redis_url_of(settings), options=store_options(settings))


@asynccontextmanager
async def store_of(settings: Settings, team: str) -> AsyncIterator[RedisRunStore]:
    """Open the run store of a team, if the server is fit to keep work in.

    Raises:
        OptionError: no Redis is configured.
        StoreError: it cannot be reached or is not fit.
    """
    await check_redis(redis_url_of(settings))
    store = unchecked_store(settings, team)
    try:
        yield store
    finally:
        await store.close()
