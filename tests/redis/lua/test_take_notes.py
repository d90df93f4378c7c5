from lattice.mailbox import MessageStatus, TeamMessage


def note(content, **more):
    return TeamMessage(id="", from_="crew::backend", to="crew::frontend", content=content, **more)


URGENT = {"urgency": "steer"}


async def test_notes_are_taken_once_in_send_order_and_nobody_claims_them(store, redis_client, keys):
    for content in ("one", "two"):
        await store.send(note(content, metadata=URGENT), member="frontend")
    plain = await store.send(note("a task"), member="frontend")
    taken = await store.take_notes("frontend", None)
    assert [message.content for message in taken] == ["one", "two"]
    assert {message.status for message in taken} == {MessageStatus.READ}
    assert await store.take_notes("frontend", None) == []
    claims = await store.claim("frontend", "worker", 1000, count=5)
    assert [claim.item.message.id for claim in claims] == [plain.id]
    assert await redis_client.exists(keys.notes("frontend")) == 0


async def test_a_note_of_another_run_stays(store, redis_client, keys):
    await store.send(note("theirs", metadata=URGENT, run_id="run-1"), member="frontend")
    assert await store.take_notes("frontend", "run-2") == []
    assert [message.content for message in await store.take_notes("frontend", "run-1")] == ["theirs"]


async def test_a_note_that_was_claimed_is_not_taken_and_leaves_the_set(store, redis_client, keys):
    await store.send(note("late", metadata=URGENT), member="frontend")
    await store.claim("frontend", "worker", 1000)
    assert await store.take_notes("frontend", None) == []
    assert await redis_client.exists(keys.notes("frontend")) == 0


async def test_what_is_not_taken_is_bounded_and_expires(store, redis_client, keys):
    for number in range(1005):
        await store.send(note(str(number), metadata=URGENT), member=None)
    assert await redis_client.zcard(keys.notes("frontend")) == 1000
    assert await redis_client.pttl(keys.notes("frontend")) > 0
