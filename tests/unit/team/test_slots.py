import asyncio

from lattice.team.slots import Slots


async def test_a_place_is_given_back_while_its_holder_waits():
    slots = Slots(1)
    slots.take()
    async with slots.left():
        assert slots.free == 1
        slots.take()
        slots.give_back()
    assert slots.free == 0


async def test_whoever_comes_back_goes_first():
    slots = Slots(1)
    slots.take()
    inside, out = asyncio.Event(), asyncio.Event()

    async def holder():
        async with slots.left():
            inside.set()
            await out.wait()

    task = asyncio.create_task(holder())
    await inside.wait()
    slots.take()
    out.set()
    await asyncio.sleep(0)
    assert slots.wanted
    slots.give_back()
    await asyncio.wait_for(task, 1)
    assert slots.free == 0
    assert not slots.wanted


async def test_the_count_holds_when_somebody_is_cancelled_in_any_phase():
    slots = Slots(1)
    for phase in ("outside", "coming back"):
        slots.take()
        gone = asyncio.Event()

        async def holder(gone=gone):
            try:
                async with slots.left():
                    await gone.wait()
            finally:
                slots.give_back()

        task = asyncio.create_task(holder())
        await asyncio.sleep(0)
        slots.take()
        if phase == "coming back":
            gone.set()
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert slots.free == 0
        slots.give_back()
        assert slots.free == 1


async def test_waiting_for_a_place_ends_when_one_is_free_or_when_woken():
    slots = Slots(1)
    await slots.some_free()
    slots.take()
    waiting = asyncio.create_task(slots.some_free())
    await asyncio.sleep(0)
    assert not waiting.done()
    slots.wake()
    await asyncio.wait_for(waiting, 1)


async def test_places_that_are_reserved_for_a_claim_are_not_taken_by_who_comes_back():
    slots = Slots(2)
    slots.take()
    back = asyncio.Event()

    async def holder():
        async with slots.left():
            await back.wait()

    task = asyncio.create_task(holder())
    await asyncio.sleep(0)
    assert slots.reserve() == 2
    assert slots.reserve() == 0
    back.set()
    await asyncio.sleep(0)
    assert slots.wanted
    slots.give_back()
    await asyncio.wait_for(task, 1)
    assert slots.free == 0
