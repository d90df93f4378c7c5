from lattice.mailbox import TeamMessage
from tests.contracts.work import claim_one, handed_off, item, step


def note(content, **more):
    return TeamMessage(id="", from_="crew::frontend", to="crew::backend", content=content, run_id="run-1", **more)


URGENT = {"urgency": "steer"}


async def test_a_note_that_is_kept_leaves_the_stream(store, redis_client, keys):
    await handed_off(store, item())
    await store.send(note("early", metadata=URGENT), member="backend")
    assert await redis_client.xlen(keys.mailbox("backend")) == 2
    claim = await claim_one(store)
    (taken,) = await store.take_notes(claim.lease, "backend")
    assert await redis_client.xlen(keys.mailbox("backend")) == 1
    assert await redis_client.hget(keys.message(taken.id), "keptFor") == claim.item.message.id.encode()


async def test_what_is_read_leaves_the_set_and_the_depth(store, redis_client, keys):
    await handed_off(store, item())
    claim = await claim_one(store)
    sent = await store.send(note("read me", metadata=URGENT), member="backend")
    assert await redis_client.hget(keys.depths, "backend") == b"2"
    await store.take_notes(claim.lease, "backend")
    await store.append(claim.lease, step(claim.item.conversation, reads=(sent.id,)))
    assert await redis_client.exists(keys.notes("backend")) == 0
    assert await redis_client.hget(keys.depths, "backend") == b"1"


async def test_a_note_that_was_claimed_leaves_the_set(store, redis_client, keys):
    await store.send(note("late", metadata=URGENT), member="backend")
    await claim_one(store)
    assert await redis_client.exists(keys.notes("backend")) == 0


async def test_what_is_not_taken_is_bounded_and_expires(store, redis_client, keys):
    for number in range(1005):
        await store.send(note(str(number), metadata=URGENT), member="backend")
    assert await redis_client.zcard(keys.notes("backend")) == 1000
    assert await redis_client.pttl(keys.notes("backend")) > 0
    assert await redis_client.xlen(keys.mailbox("backend")) == 1005


async def test_a_note_whose_run_ends_leaves_the_set(store, redis_client, keys):
    await handed_off(store, item())
    await store.send(note("too late", metadata=URGENT), member="backend")
    await store.cancel_run("run-1", "enough")
    assert await redis_client.exists(keys.notes("backend")) == 0
