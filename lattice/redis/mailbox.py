"""A team's mailboxes on Redis, for hosts that use them without runs."""

from typing import Any

from redis.asyncio import Redis

from lattice.mailbox import TeamMessage, check_send_options, mailbox_key
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions

__all__ = ["RedisMailbox", "create_redis_mailbox"]

_OWNER = "mailbox"
_NO_LEASE = 0


def create_redis_mailbox(redis: Redis, team: str, options: StoreOptions | None = None) -> "RedisMailbox":
    """Return the mailboxes of a team; ``redis`` is an asyncio client that answers bytes.

    Raises:
        OptionError: the team's name cannot name keys.
    """
    return RedisMailbox(RedisRunStore(redis, team, options))


class RedisMailbox:
    """A ``TeamMailbox`` on Redis: any number of processes may share it.

    A message that ``claim_next`` returns has no lease: it stays *processing* until its status is updated.
    """

    __slots__ = ("_store",)

    def __init__(self, store: RedisRunStore) -> None:
        self._store = store

    async def send(self, from_: str, to: str, content: str, **options: Any) -> TeamMessage:
        """Keep a new pending message and return it; one whose ``id`` is taken is returned as it was sent first.

        Raises:
            OptionError: an option is unknown.
            SizeLimitError: the content is over the limit.
            StoreError: the mailbox is full.
        """
        check_send_options(options)
        values = {name: value for name, value in options.items() if value is not None}
        draft = TeamMessage(from_=from_, to=to, content=content, **{"id": "", **values})
        return await self._store.send(draft, member=mailbox_key(to))

    async def inbox(self, mailbox_id: str, status: str = "pending") -> list[TeamMessage]:
        """Return the messages of a mailbox in send order; ``status`` may be ``all``."""
        return await self._store.inbox(mailbox_key(mailbox_id), status)

    async def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        return await self._store.get(message_id)

    async def claim_next(self, mailbox_id: str) -> TeamMessage | None:
        """Turn the oldest pending message to processing and return it, or return None; nobody else gets it."""
        claims = await self._store.claim(mailbox_key(mailbox_id), _OWNER, _NO_LEASE)
        return claims[0].item.message if claims else None

    async def update_status(self, message_id: str, status: str) -> bool:
        """Move a message to another status; False when it is unknown or the move is refused."""
        return await self._store.update_status(message_id, status)

    async def close(self) -> None:
        """Release connections; the client that was given stays open."""
        await self._store.close()
