"""Any sequence of steps, on any back end: nothing lost, nothing twice, first in first out, states along the arrows."""

import asyncio

import fakeredis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from redis import Redis

from lattice.mailbox import MessageStatus
from lattice.redis.connection import open_redis
from lattice.runs import Outcome, RunStatus
from tests.contracts.backends import FakeRedisBackend, MemoryBackend, RedisBackend
from tests.contracts.work import LEASE, batch, item, run_record, step

MEMBERS = ("backend", "qa")
ARROWS = {
    "pending": {"pending", "processing", "done", "failed", "cancelled", "read"},
    "processing": {"pending", "processing", "done", "failed", "cancelled", "read"},
}
MAX_ATTEMPTS = 3


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and keeps a small model of what must be true."""

    claims = Bundle("claims")

    def make_backend(self):
        raise NotImplementedError

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.backend = self.make_backend()
        self.store = self.backend.store(max_attempts=MAX_ATTEMPTS)
        self.sent = {}
        self.status = {}
        self.settled = {}
        self.lines = {}
        self.limited = set()
        """Items that their batch may hold back: others of the conversation go first then."""
        self.batches = 0
        self.live = True

    def do(self, work):
        return self.loop.run_until_complete(work)

    def teardown(self):
        try:
            if hasattr(self, "lead"):
                self.work_until_nothing_is_left()
        finally:
            self.do(self.release())
            self.loop.close()

    async def release(self):
        await self.backend.close()

    @initialize()
    def start(self):
        self.do(self.store.start_run(run_record()))
        self.lead = self.do(self.store.take_run("run-1", "lead-1", LEASE)).lease

    def renew_lead(self):
        if self.live:
            assert self.do(self.store.renew([self.lead], LEASE)) == []

    @rule(
        members=st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=4),
        shared=st.booleans(),
        limit=st.sampled_from([None, 1, 2]),
    )
    def hand_off(self, members, shared, limit):
        self.batches += 1
        work = [
            item(member, conversation=f"run-1/{member}", shared=True) if shared else item(member) for member in members
        ]
        accepted = batch(*work, id=f"batch-{self.batches}", pauses=False, limit=limit)
        word, messages = self.do(self.store.hand_off(self.lead, accepted, step()))
        assert word == ("accepted" if self.live else "stale")
        again, same = self.do(self.store.hand_off(self.lead, accepted, step()))
        assert again == ("exists" if self.live else "stale")
        assert [m.id for m in same] == [m.id for m in messages]
        for work_item, message in zip(work, messages, strict=False):
            self.sent[message.id] = (work_item.member, accepted.id)
            self.status[message.id] = "pending"
            if limit is not None:
                self.limited.add(message.id)
            if shared:
                self.lines.setdefault(work_item.conversation, []).append(message.id)

    @rule(target=claims, member=st.sampled_from(MEMBERS), count=st.integers(1, 3), worker=st.sampled_from("uvw"))
    def claim(self, member, count, worker):
        found = self.do(self.store.claim(member, worker, LEASE, count))
        for claim in found:
            self.note_claim(claim, member)
        return multiple(*found)

    def note_claim(self, claim, member):
        message_id = claim.item.message.id
        assert self.sent[message_id][0] == member
        assert self.status[message_id] == "pending", "claimed although it is not pending"
        line = self.lines.get(claim.item.conversation)
        if line is not None:
            earlier = line[: line.index(message_id)]
            assert not [each for each in line if self.status[each] == "processing"], "its conversation is busy"
            passed = [each for each in earlier if self.status[each] in ARROWS and each not in self.limited]
            assert passed == [], "not the first of its conversation"
        self.status[message_id] = "processing"

    @rule(target=claims, claim=consumes(claims), chain=st.booleans(), failed=st.booleans())
    def settle(self, claim, chain, failed):
        message_id = claim.item.message.id
        end = MessageStatus.FAILED if failed else MessageStatus.DONE
        wish = (claim.item.member, claim.lease.owner, LEASE) if chain else None
        current = self.is_current(claim)
        entry = f"{message_id}:{claim.attempt}".encode()
        written = step(claim.item.conversation, entry)
        outcome = Outcome(status=end, report=message_id)
        settled = self.do(self.store.settle(claim.lease, outcome, written, claim_next=wish))
        before = self.settled.get(message_id)
        mine = before == (claim.lease.owner, claim.lease.token)
        assert settled.word == ("settled" if current or mine else "stale")
        if current:
            self.status[message_id] = str(end)
            self.settled[message_id] = (claim.lease.owner, claim.lease.token)
            for following in settled.next:
                self.note_claim(following, claim.item.member)
            return multiple(*settled.next)
        assert mine or settled.next == ()
        return multiple()

    def is_current(self, claim):
        message_id = claim.item.message.id
        if self.status[message_id] != "processing":
            return False
        lost = self.do(self.store.renew([claim.lease], LEASE))
        return lost == []

    @rule(claim=consumes(claims))
    def hand_back(self, claim):
        current = self.is_current(claim)
        word = self.do(self.store.hand_back(claim.lease))
        if current:
            assert word == "returned"
            self.status[claim.item.message.id] = "pending"

    @rule()
    def lose_every_worker(self):
        self.do(self.backend.expire_leases())
        self.renew_lead()
        for lost in self.do(self.store.reclaim_expired("reaper", LEASE, runs=False)):
            assert self.status[lost.id] == "processing"
            self.status[lost.id] = "pending" if lost.word == "returned" else "failed"
        assert "processing" not in self.status.values()

    @rule(data=st.data(), end=st.sampled_from(["cancelled", "done", "failed"]))
    def end_by_hand(self, data, end):
        if not self.sent:
            return
        message_id = data.draw(st.sampled_from(sorted(self.sent)))
        moved = self.do(self.store.update_status(message_id, end))
        assert moved is (self.status[message_id] in ARROWS)
        if moved:
            self.status[message_id] = end

    @rule(chance=st.integers(0, 9))
    def cancel_the_run(self, chance):
        if chance or not self.live:
            return
        assert self.do(self.store.cancel_run("run-1", "enough")) == "cancelled"
        self.live = False
        for message_id, status in self.status.items():
            if status in ARROWS:
                self.status[message_id] = "cancelled"

    @invariant()
    def states_and_counts_are_right(self):
        for member in MEMBERS:
            expected = {}
            for message_id, (owner, _) in self.sent.items():
                if owner == member:
                    status = self.status[message_id]
                    expected[status] = expected.get(status, 0) + 1
            assert self.do(self.store.counts(member)) == expected
            inbox = self.do(self.store.inbox(member, "all"))
            assert {message.id: str(message.status) for message in inbox} == {
                message_id: self.status[message_id] for message_id, (owner, _) in self.sent.items() if owner == member
            }

    @invariant()
    def batches_are_complete_exactly_when_nothing_is_out(self):
        if not self.live or not self.sent:
            return
        name = f"batch-{self.batches}"
        of_batch = [message_id for message_id, (_, owner) in self.sent.items() if owner == name]
        word, reports = self.do(self.store.resume(self.lead, name))
        out = [message_id for message_id in of_batch if self.status[message_id] in ARROWS]
        assert word == ("waiting" if out else "complete")
        if not out:
            assert [report.parent_message_id or report.id for report in reports] == of_batch

    @rule()
    def work_until_nothing_is_left(self):
        """Whatever has happened: all that is open can be claimed and settled, in a bounded number of steps."""
        self.lose_every_worker()
        for _ in range(len(self.sent) * 2):
            claims = [claim for member in MEMBERS for claim in self.do(self.store.claim(member, "z", LEASE, 10))]
            if not claims:
                break
            for claim in claims:
                self.note_claim(claim, claim.item.member)
                name = claim.item.conversation
                word = self.do(
                    self.store.settle(claim.lease, Outcome(status=MessageStatus.DONE, report="x"), step(name))
                )
                assert word.word == "settled"
                self.status[claim.item.message.id] = "done"
                self.settled[claim.item.message.id] = (claim.lease.owner, claim.lease.token)
        assert not [status for status in self.status.values() if status in ARROWS], "work was lost"

    @rule()
    def finish_and_start_over_is_refused_while_somebody_else_leads(self):
        stranger = type(self.lead)("run", "run-1", "stranger", 1)
        assert self.do(self.store.finish_run(stranger, RunStatus.SUCCEEDED, {}, step())) == "stale"


class MemoryMachine(StoreMachine):
    def make_backend(self):
        return MemoryBackend()


class FakeRedisMachine(StoreMachine):
    def make_backend(self):
        return FakeRedisBackend(fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), protocol=2))

    async def release(self):
        await self.backend.close()
        await self.backend.client.aclose()


def run_machine(machine, examples, steps):
    machine.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    machine.TestCase().runTest()


def test_memory():
    run_machine(MemoryMachine, examples=60, steps=40)


def test_fakeredis():
    run_machine(FakeRedisMachine, examples=12, steps=25)


@pytest.mark.redis
def test_a_real_server(redis_url):
    class RedisMachine(StoreMachine):
        def make_backend(self):
            with Redis.from_url(redis_url) as client:
                client.flushdb()
            return RedisBackend(open_redis(redis_url))

        async def release(self):
            await self.backend.close()
            await self.backend.client.aclose()

    run_machine(RedisMachine, examples=40, steps=40)
