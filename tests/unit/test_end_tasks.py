"""Ending tasks, even those that swallow a cancellation."""

import asyncio

import pytest

from lattice.abort import end_tasks


async def test_tasks_are_cancelled_and_waited_for():
    ended = []

    async def work(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    tasks = [asyncio.create_task(work(n)) for n in range(3)]
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert sorted(ended) == [0, 1, 2]
    assert all(task.cancelled() for task in tasks)


async def test_one_that_swallows_its_cancellation_is_cancelled_again():
    swallowed = 0

    async def deaf():
        nonlocal swallowed
        while swallowed < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await end_tasks([task], every=0.01)
    assert task.cancelled()
    assert swallowed == 2


@pytest.mark.filterwarnings("error")
async def test_how_it_ended_is_nobodys_concern():
    async def fails():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await end_tasks([task])
    assert task.done()
    await end_tasks([])
