"""Redis clients as RQ needs them: bytes, not text, and timeouts longer than its blocking waits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import redis
from redis import asyncio as redis_asyncio

__all__ = ["blocking_client", "rq_clients"]

_SOCKET_TIMEOUT = 20.0
_CONNECT_TIMEOUT = 5.0


@contextmanager
def blocking_client(url: str) -> Any:
    """Open a client for RQ's own calls; it connects when it is first used."""
    client = redis.Redis.from_url(
        url, decode_responses=False, socket_timeout=_SOCKET_TIMEOUT, socket_connect_timeout=_CONNECT_TIMEOUT
    )
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def rq_clients(url: str) -> AsyncIterator[tuple[redis_asyncio.Redis, redis.Redis]]:
    """Open both clients that a worker needs."""
    client: Any = redis_asyncio.Redis.from_url(
        url, decode_responses=False, socket_timeout=_SOCKET_TIMEOUT, socket_connect_timeout=_CONNECT_TIMEOUT
    )
    with blocking_client(url) as blocking:
        try:
            yield client, blocking
        finally:
            await client.aclose()
