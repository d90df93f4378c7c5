import asyncio
import logging
import threading

import pytest

from lattice.integrations.tracing import delivery as delivery_module
from lattice.integrations.tracing.delivery import Delivery


async def test_work_is_done_in_order_and_elsewhere():
    """agent:LS-17"""
    done, threads = [], set()

    def work(number):
        threads.add(threading.current_thread())
        done.append(number)

    delivery = Delivery("test")
    for number in range(100):
        delivery.submit(lambda number=number: work(number))
    await delivery.drain()
    assert done == list(range(100))
    assert threading.main_thread() not in threads
    assert len(threads) == 1


async def test_a_failure_stops_nothing_and_is_logged_once(caplog):
    """agent:LS-17"""
    done = []
    delivery = Delivery("test")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            delivery.submit(lambda: 1 / 0)
            delivery.submit(lambda number=number: done.append(number))
        await delivery.drain()
    assert done == [0, 1, 2]
    assert delivery.failures == 3
    assert len(caplog.records) == 1


async def test_what_ends_the_drain_may_fail_towards_the_caller():
    with pytest.raises(ZeroDivisionError):
        await Delivery("test").drain(lambda: 1 / 0)


async def test_a_backend_that_hangs_costs_events_and_no_time(monkeypatch, caplog):
    monkeypatch.setattr(delivery_module, "_LIMIT", 5)
    gate = threading.Event()
    delivery = Delivery("test")
    delivery.submit(gate.wait)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            delivery.submit(lambda: None)
    assert delivery.dropped >= 14
    assert len(caplog.records) == 1
    gate.set()
    await delivery.drain()


async def test_an_idle_thread_ends_and_comes_back(monkeypatch):
    monkeypatch.setattr(delivery_module, "_IDLE_SECONDS", 0.01)
    delivery = Delivery("idle-test")
    for _ in range(2):
        await delivery.drain()
        async with asyncio.timeout(10):
            while any(thread.name == "lattice idle-test" for thread in threading.enumerate()):
                await asyncio.sleep(0.005)
