from lattice.mailbox import TeamMessage
from tests.contracts.work import DONE, claim_one, step


def note(**more):
    return TeamMessage(**{"id": "", "from_": "manager", "to": "crew::backend", "content": "hi", **more})


async def test_a_message_is_a_hash_in_the_documented_spelling(store, redis_client, keys):
    sent = await store.send(note(metadata={"a": 1}), member="backend")
    record = await redis_client.hgetall(keys.message(sent.id))
    assert record[b"from"] == b"manager"
    assert record[b"to"] == b"crew::backend"
    assert record[b"threadId"] == sent.id.encode()
    assert record[b"workItemRole"] == b"upstream_request"
    assert record[b"metadata"] == b'{"a":1}'
    assert await redis_client.xlen(keys.mailbox("backend")) == 1


async def test_mail_without_a_run_is_forgotten_after_it_ended(store, redis_client, keys):
    sent = await store.send(note(), member="backend")
    assert await redis_client.zcard(keys.retention) == 0
    claim = await claim_one(store)
    await store.settle(claim.lease, DONE, step(sent.id, b"1"))
    kept = await redis_client.zrange(keys.retention, 0, -1)
    assert set(kept) == {f"message:{sent.id}".encode(), f"message:{sent.id}-report".encode()}
