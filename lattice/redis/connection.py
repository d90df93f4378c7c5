"""Opens Redis and says whether a server can be trusted with a team's work."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import redis as blocking_redis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from lattice.errors import OptionError, StoreError

__all__ = [
    "ServerFacts",
    "StoreUnreachableError",
    "check_server",
    "open_blocking_redis",
    "open_redis",
    "redact_url",
]

_SOCKET_TIMEOUT = 15.0
"""Seconds without an answer after which a connection is given up; longer than every slice of a blocking wait."""

_CONNECT_TIMEOUT = 5.0
_OLDEST = (6, 2)


class StoreUnreachableError(StoreError, ConnectionError):
    """Redis cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a Redis server says about itself; ``policy`` is what it does when its memory is full."""

    name: str
    version: str
    policy: str
    max_memory: int
    persistent: bool
    url: str


def redact_url(url: str) -> str:
    """Return a URL without its password, wherever it stands."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    if ":" in host:
        host = f"[{host}]"
    user = f"{parts.username}:***@" if parts.password else f"{parts.username}@" if parts.username else ""
    query = "&".join(
        f"{name}=***" if name.lower() in ("password", "pwd") else f"{name}{mark}{value}"
        for name, mark, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    shown = SplitResult(parts.scheme, f"{user}{host}{port}" if host or user else "", parts.path, query, "")
    return urlunsplit(shown) if shown.netloc else f"{parts.scheme}://{parts.path}" + (f"?{query}" if query else "")


def open_redis(url: str) -> Redis:
    """Return an asyncio client that answers bytes; it connects at the first command.

    It never repeats a command by itself: only those who know that a repeat is harmless may do so.

    Raises:
        OptionError: the URL cannot be used.
    """
    return Redis.from_pool(_pool(ConnectionPool, url, AsyncRetry(NoBackoff(), 0)))


def open_blocking_redis(url: str) -> "blocking_redis.Redis":
    """Return the same client for threads.

    Raises:
        OptionError: the URL cannot be used.
    """
    return blocking_redis.Redis.from_pool(_pool(blocking_redis.ConnectionPool, url, Retry(NoBackoff(), 0)))


def _pool(kind: Any, url: str, retry: Any) -> Any:
    try:
        pool = kind.from_url(url, socket_keepalive=True, socket_connect_timeout=_CONNECT_TIMEOUT, retry=retry)
    except (ValueError, TypeError) as error:
        raise OptionError(
            f"{redact_url(url)!r} is not a Redis URL; write redis://host:6379/0, rediss://... or unix:///path"
        ) from error
    arguments = pool.connection_kwargs
    if "path" in arguments:
        # A unix socket knows no keep-alive.
        arguments.pop("socket_keepalive", None)
    arguments["socket_timeout"] = max(arguments.get("socket_timeout") or 0.0, _SOCKET_TIMEOUT)
    arguments["decode_responses"] = False
    return pool


async def check_server(redis: Redis, url: str) -> ServerFacts:
    """Make sure that a server can keep a team's work, before anything starts.

    Raises:
        StoreError: it cannot be reached, is too old, is a replica, or throws keys away when its memory is full.
    """
    shown = redact_url(url)
    facts = await _ask(redis, shown)
    version = str(facts.get("redis_version", "0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST:
        raise StoreError(f"Redis at {shown} is version {version}; lattice needs 6.2 or newer, or Valkey")
    if facts.get("role") in ("slave", "replica") and str(facts.get("slave_read_only", 1)) != "0":
        raise StoreError(f"Redis at {shown} is a read-only replica; give the address of its primary")
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    limit = int(facts.get("maxmemory", 0) or 0)
    if limit and policy != "noeviction":
        raise StoreError(
            f"Redis at {shown} throws keys away when its memory is full (maxmemory-policy {policy}), and accepted work "
            "with them; set it to noeviction: redis-cli CONFIG SET maxmemory-policy noeviction"
        )
    return ServerFacts(
        name=str(facts.get("server_name", "redis")),
        version=version,
        policy=policy,
        max_memory=limit,
        persistent=str(facts.get("aof_enabled", 0)) == "1" or int(facts.get("rdb_last_save_time", 0) or 0) > 0,
        url=shown,
    )


async def _ask(redis: Redis, shown: str) -> dict[str, Any]:
    try:
        await redis.ping()
        facts: dict[str, Any] = await redis.info()
    except NoPermissionError:
        # Who may not ask is still able to work; the version shows with the first script.
        return {"redis_version": "6.2", "unknown": True}
    except (AuthenticationError, ResponseError) as error:
        raise StoreError(
            f"Redis at {shown} refuses the user or password ({error}); put them into the URL: redis://user:password@host"
        ) from error
    except (RedisError, OSError) as error:
        raise StoreUnreachableError(
            f"Redis at {shown} cannot be reached ({_brief(error)}); is it running? `lattice up` starts one by itself"
        ) from error
    return facts


def _brief(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return text or type(error).__name__
