import asyncio
import time

from lattice.integrations.opentelemetry import watch_event_loop


async def test_a_blocked_loop_is_noticed_once_it_is_back():
    stalls = []
    async with watch_event_loop(stalls.append, threshold=0.05, interval=0.001):
        await asyncio.sleep(0.005)
        time.sleep(0.2)
        async with asyncio.timeout(10):
            while not stalls:
                await asyncio.sleep(0.001)
    assert max(stalls) >= 0.05


async def test_nothing_is_left_running():
    before = asyncio.all_tasks()
    async with watch_event_loop(print):
        pass
    assert asyncio.all_tasks() == before
