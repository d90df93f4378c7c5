"""The run store's steps on messages and conversations."""

import asyncio
import time

from lattice.encoding import clean_text, clean_value, encode
from lattice.errors import OptionError, StoreError
from lattice.ids import new_id
from lattice.mailbox import MessageStatus, TeamMessage, complete_message, mailbox_key
from lattice.redis.codec import claim_of, item_fields, lease_args, message_of, pairs, step_args
from lattice.redis.run_steps import RunSteps
from lattice.runs import Claim, ConversationState, Lease, Outcome, Settled, Step, WorkItem

__all__ = ["MessageSteps"]

_HAND_BACK_GRACE_MS = 5_000
"""How long a run that was handed back may lie before coordinators look for it by themselves."""

_PAGE = 500


class MessageSteps(RunSteps):
    """From the send of a message to its terminal state, and what is written on the way."""

    async def send(
        self, message: TeamMessage, *, member: str | None, conversation: str | None = None, listens: bool = True
    ) -> TeamMessage:
        """See ``RunStore.send``."""
        self._check_size(message)
        draft = message if message.id else message.evolve(id=new_id())
        draft = complete_message(draft, await self._parent(draft))
        item = WorkItem(
            message=draft,
            member=mailbox_key(draft.to) if member is None else member,
            conversation=conversation or draft.id,
            mode="message" if member is not None else "report",
            shared=conversation is not None,
        )
        reply = await self._run(
            "send",
            draft.id,
            item.member,
            "" if member is None else "1",
            draft.run_id or "",
            self.options.max_mailbox_depth,
            self.options.retention_ms,
            str((draft.metadata or {}).get("urgency") or "") if listens else "",
            *item_fields(item, claimable=member is not None),
        )
        if reply[0] == b"full":
            limit = self.options.max_mailbox_depth
            raise StoreError(f"mailbox {item.member!r} is full: it holds {limit} unfinished messages")
        return message_of(pairs(reply[1]))

    async def claim(self, member: str, owner: str, lease_ms: int, count: int = 1) -> list[Claim]:
        """See ``RunStore.claim``."""
        asked_at = time.monotonic()
        args = (member, owner, lease_ms, count, self._nonce())
        reply = await self._run("claim", *args, "", on_repeat=(*args, "1"))
        return [claim_of(claim, owner, asked_at) for claim in reply]

    async def claim_message(self, message_id: str, owner: str, lease_ms: int) -> Claim | None:
        """See ``RunStore.claim_message``."""
        asked_at = time.monotonic()
        reply = await self._run("claim_message", message_id, owner, lease_ms, self._nonce())
        return claim_of(reply, owner, asked_at) if reply else None

    async def settle(
        self, lease: Lease, outcome: Outcome, step: Step, *, claim_next: tuple[str, str, int] | None = None
    ) -> Settled:
        """See ``RunStore.settle``."""
        asked_at = time.monotonic()
        reported = outcome.report is not None and outcome.status is not MessageStatus.CANCELLED
        reply = await self._run(
            "settle",
            *lease_args(lease),
            str(outcome.status),
            "1" if reported else "",
            outcome.report_id or f"{lease.id}-report",
            clean_text(outcome.report or ""),
            "" if outcome.metadata is None else encode(clean_value(outcome.metadata)),
            self.options.retention_ms,
            "" if claim_next is None else claim_next[0],
            0 if claim_next is None else claim_next[2],
            self._nonce(),
            *step_args(step, self.options),
        )
        claims = () if claim_next is None else tuple(claim_of(claim, claim_next[1], asked_at) for claim in reply[1:])
        return Settled(reply[0].decode(), claims)

    async def hand_back(self, lease: Lease, step: Step | None = None) -> str:
        """See ``RunStore.hand_back``."""
        return await self._word("hand_back", *lease_args(lease), _HAND_BACK_GRACE_MS, *step_args(step, self.options))

    async def update_status(self, message_id: str, status: str) -> bool:
        """See ``RunStore.update_status``."""
        return await self._word("update_status", message_id, _status(status), self.options.retention_ms) == "moved"

    async def get(self, message_id: str) -> TeamMessage | None:
        """See ``RunStore.get``."""
        record = await self._lane.command("HGETALL", self.keys.message(message_id))
        return message_of(pairs(record)) if record else None

    async def inbox(self, member: str, status: str = "pending") -> list[TeamMessage]:
        """See ``RunStore.inbox``."""
        wanted = None if status == "all" else _status(status)
        found: list[TeamMessage] = []
        start = 0
        while page := await self._lane.command("ZRANGE", self.keys.index(member), start, start + _PAGE - 1):
            messages = await asyncio.gather(*[self.get(message_id.decode()) for message_id in page])
            found += [message for message in messages if message and wanted in (None, message.status)]
            start += _PAGE
        return found

    async def counts(self, member: str) -> dict[str, int]:
        """See ``RunStore.counts``."""
        counts = pairs(await self._lane.command("HGETALL", self.keys.counts(member)))
        return {status.decode(): int(number) for status, number in counts.items() if int(number) > 0}

    async def take_notes(self, lease: Lease, member: str, limit: int = 100) -> list[TeamMessage]:
        """See ``RunStore.take_notes``."""
        reply = await self._run("take_notes", *lease_args(lease), member, limit, self.options.retention_ms)
        return [message_of(pairs(record)) for record in reply]

    async def backlog(self, member: str) -> tuple[int, int]:
        """See ``RunStore.backlog``."""
        waiting, age = await self._run("backlog", member)
        return int(waiting), int(age)

    async def append(self, lease: Lease, step: Step) -> str:
        """See ``RunStore.append``."""
        return await self._word("append", *lease_args(lease), self._nonce(), *step_args(step, self.options))

    async def load(self, conversation: str) -> ConversationState:
        """See ``RunStore.load``."""
        messages, entered, journal = await asyncio.gather(
            self._lane.command("LRANGE", self.keys.conversation(conversation), 0, -1),
            self._lane.command("SMEMBERS", self.keys.entered(conversation)),
            self._lane.command("HGETALL", self.keys.journal(conversation)),
        )
        calls = {call.decode(): entry for call, entry in pairs(journal).items()}
        return ConversationState(tuple(messages), frozenset(name.decode() for name in entered), calls)


def _status(status: str) -> str:
    try:
        return str(MessageStatus(status))
    except ValueError:
        raise OptionError(f"mailbox status {status!r} is none of {', '.join(MessageStatus)}") from None
