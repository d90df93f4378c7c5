async def test_dropping_a_letter_leaves_the_message(store, redis_client, keys, script):
    letter = await redis_client.xadd(keys.dead, {"id": "m"})
    await redis_client.hset(keys.message("m"), mapping={"status": "failed", "dead": letter})
    assert await script("drop_dead", "m") == b"dropped"
    assert await script("drop_dead", "m") == b"dropped"
    assert await redis_client.xlen(keys.dead) == 0
    assert await redis_client.hget(keys.message("m"), "status") == b"failed"
