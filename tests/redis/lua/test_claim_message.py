from tests.contracts.work import LEASE, handed_off, item


async def test_a_repeat_of_a_lost_reply_gets_the_same_lease(store, script):
    _, (sent,) = await handed_off(store, item())
    first = await script("claim_message", sent.id, "worker-1", LEASE, "nonce-1")
    again = await script("claim_message", sent.id, "worker-1", LEASE, "nonce-1")
    assert first[0] == again[0] != []
    assert await script("claim_message", sent.id, "worker-1", LEASE, "nonce-2") == []


async def test_its_place_in_the_stream_is_passed_over(store):
    _, (first, second) = await handed_off(store, item(content="1"), item(content="2"))
    await store.claim_message(first.id, "worker-1", LEASE)
    (claim,) = await store.claim("backend", "worker-2", LEASE, count=5)
    assert claim.item.message.id == second.id
