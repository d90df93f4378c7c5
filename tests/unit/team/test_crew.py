import asyncio

import pytest

from lattice.errors import LatticeError
from lattice.team.crew import Crew, Job


def job(*keys, parent=None, takes_place=True):
    return Job(frozenset(keys), parent=parent, takes_place=takes_place)


async def test_jobs_start_in_order_up_to_the_limit():
    """team:CON-02"""
    crew, jobs = Crew(2), [job(name) for name in "abc"]
    for each in jobs:
        crew.enter(each)
    assert [each.started for each in jobs] == [True, True, False]
    crew.leave(jobs[1])
    assert jobs[2].started


async def test_a_busy_mailbox_is_overtaken():
    """team:CON-03 team:CON-04"""
    crew = Crew(2)
    first, second, other = job("a"), job("a"), job("b")
    for each in (first, second, other):
        crew.enter(each)
    assert [first.started, second.started, other.started] == [True, False, True]
    crew.leave(first)
    assert second.started


async def test_a_question_takes_no_place_but_needs_its_agent():
    """team:RASK-07"""
    crew = Crew(1)
    working, asked, same = job("a"), job("b", takes_place=False), job("a", takes_place=False)
    for each in (working, asked, same):
        crew.enter(each)
    assert asked.started
    assert not same.started


async def test_a_place_is_free_while_its_job_waits_for_others():
    crew = Crew(1)
    outer, inner, next_one = job("a"), job("b"), job("c")
    crew.enter(outer)
    async with crew.waiting(outer):
        crew.enter(inner)
        crew.enter(next_one)
        assert inner.started
        crew.leave(inner)
        assert next_one.started
        crew.leave(next_one)
    late = job("d")
    crew.enter(late)
    assert not late.started


async def test_whoever_comes_back_goes_before_whoever_is_new():
    crew = Crew(1)
    outer, inner, new = job("a"), job("b"), job("c")
    crew.enter(outer)
    back = asyncio.Event()

    async def wait():
        async with crew.waiting(outer):
            crew.enter(inner)
        back.set()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    crew.enter(new)
    crew.leave(inner)
    await asyncio.wait_for(task, 1)
    assert back.is_set()
    assert not new.started


async def test_a_circle_of_questions_is_an_error():
    crew = Crew(4)
    a, b = job("a"), job("b")
    crew.enter(a)
    crew.enter(b)
    crew.enter(job("b", parent=a, takes_place=False))
    with pytest.raises(LatticeError, match="waiting for you"):
        crew.enter(job("a", parent=b, takes_place=False))


async def test_a_longer_circle_is_found_too():
    crew = Crew(4)
    a, b, c = job("a"), job("b"), job("c")
    for each in (a, b, c):
        crew.enter(each)
    crew.enter(job("b", parent=a, takes_place=False))
    crew.enter(job("c", parent=b, takes_place=False))
    with pytest.raises(LatticeError):
        crew.enter(job("a", parent=c, takes_place=False))


async def test_waiting_for_somebody_who_is_merely_busy_is_no_circle():
    crew = Crew(4)
    a, b = job("a"), job("b")
    crew.enter(a)
    crew.enter(b)
    question = job("b", parent=a, takes_place=False)
    crew.enter(question)
    assert not question.started
    crew.leave(b)
    assert question.started


async def test_places_balance_after_a_cancelled_wait():
    crew = Crew(1)
    outer, inner = job("a"), job("b")
    crew.enter(outer)

    async def wait():
        async with crew.waiting(outer):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    crew.leave(outer)
    crew.enter(inner)
    blocked = job("c")
    crew.enter(blocked)
    assert inner.started
    assert not blocked.started
