"""The run store's steps on dead letters."""

from lattice.errors import StoreError
from lattice.ids import derive_id
from lattice.mailbox import TeamMessage
from lattice.redis.base import StorePart
from lattice.redis.codec import message_of, pairs
from lattice.runs import DeadLetter

__all__ = ["DeadLetterSteps"]


class DeadLetterSteps(StorePart):
    """What becomes of messages that ran out of attempts."""

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """See ``RunStore.dead_letters``."""
        letters = []
        for entry_id, fields in await self._lane.command("XREVRANGE", self.keys.dead, "+", "-", "COUNT", limit):
            entry = pairs(fields)
            record = await self._lane.command("HGETALL", self.keys.message(entry[b"id"].decode()))
            if record:
                letters.append(
                    DeadLetter(
                        message=message_of(pairs(record)),
                        member=entry[b"member"].decode(),
                        reason=entry[b"reason"].decode(),
                        attempts=int(entry[b"attempt"]),
                        died_at=int(entry_id.partition(b"-")[0]),
                    )
                )
        return letters

    async def requeue_dead(self, message_id: str) -> TeamMessage | None:
        """See ``RunStore.requeue_dead``; the new id follows from the old one, so asking twice is asking once."""
        limit = self.options.max_mailbox_depth
        reply = await self._run("requeue_dead", message_id, derive_id("requeue", message_id), limit)
        if reply[0] == b"full":
            raise StoreError(f"mailbox {reply[1].decode()!r} is full: it holds {limit} unfinished messages")
        return message_of(pairs(reply[1])) if reply[0] == b"requeued" else None

    async def drop_dead(self, message_id: str) -> bool:
        """See ``RunStore.drop_dead``."""
        return await self._word("drop_dead", message_id) == "dropped"
