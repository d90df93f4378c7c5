async def test_a_run_is_a_hash_of_plain_texts(script, redis_client, keys):
    args = ("r-1", "id", "r-1", "team", "crew", "task", '"do it"', "conversation", "r-1", "options", "{}")
    assert await script("start_run", *args) == b"started"
    assert await script("start_run", *args) == b"exists"
    record = await redis_client.hgetall(keys.run("r-1"))
    assert record[b"status"] == b"queued"
    assert record[b"task"] == b'"do it"'
    assert record[b"createdAt"].isdigit()
    assert await redis_client.zrange(keys.runs, 0, -1) == [b"r-1"]


async def test_the_clock_is_that_of_redis(script, redis_client, keys):
    before = await redis_client.time()
    await script("start_run", "r-1", "id", "r-1")
    created = int(await redis_client.hget(keys.run("r-1"), "createdAt"))
    after = await redis_client.time()
    assert before[0] * 1000 + before[1] // 1000 <= created <= after[0] * 1000 + after[1] // 1000
