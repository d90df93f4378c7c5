import asyncio
import contextvars
import threading

import pytest

from lattice.tools.threads import ThreadPool

BOUND = 10
variable = contextvars.ContextVar("variable", default="unset")


async def test_runs_elsewhere_with_the_callers_context():
    variable.set("mine")
    name, seen = await ThreadPool().run(lambda: (threading.current_thread().name, variable.get()))
    assert name != threading.current_thread().name
    assert seen == "mine"


async def test_errors_come_back():
    def broken():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await ThreadPool().run(broken)

    def stops():
        raise StopIteration("x")

    with pytest.raises(RuntimeError, match="StopIteration"):
        await ThreadPool().run(stops)


async def test_threads_are_reused_and_bounded():
    pool = ThreadPool(limit=2)
    names = await asyncio.gather(*(pool.run(threading.get_ident) for _ in range(50)))
    assert len(set(names)) <= 2


async def test_an_abandoned_job_does_not_use_the_pool_up():
    pool = ThreadPool(limit=1)
    started, release = threading.Event(), threading.Event()

    def hang():
        started.set()
        release.wait(BOUND)

    hung = pool.run(hang)
    assert await asyncio.to_thread(started.wait, BOUND)
    waiting = pool.run(lambda: "served")
    hung.cancel()
    assert await asyncio.wait_for(waiting, BOUND) == "served"
    release.set()
    assert await asyncio.wait_for(pool.run(lambda: "still"), BOUND) == "still"


async def test_a_cancelled_job_that_waits_never_runs():
    pool = ThreadPool(limit=1)
    started, release, ran = threading.Event(), threading.Event(), []

    def hold():
        started.set()
        release.wait(BOUND)

    first = pool.run(hold)
    assert await asyncio.to_thread(started.wait, BOUND)
    second = pool.run(lambda: ran.append(1))
    second.cancel()
    release.set()
    await first
    await pool.run(lambda: None)
    assert ran == []


async def test_idle_threads_end():
    pool = ThreadPool(idle_seconds=0.01)
    thread = await pool.run(threading.current_thread)
    await asyncio.to_thread(thread.join, BOUND)
    assert not thread.is_alive()
    assert await pool.run(lambda: 1) == 1
