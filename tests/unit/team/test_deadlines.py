"""Deadlines of questions at the one who asks: in time, late, aborted meanwhile, and asked of somebody who does not heed."""

import asyncio
from dataclasses import dataclass

import pytest

from lattice import AbortController, AskTimeoutError
from lattice.team import deadlines
from lattice.team.deadlines import late, read_ask_timeout, within


@dataclass
class Answer:
    is_error: bool = False


async def until_stopped(signal):
    await signal.wait()
    return Answer(is_error=True)


async def test_without_a_deadline_the_callers_signal_is_passed_on():
    signal = AbortController().signal

    async def ask(given):
        return given

    assert await within(None, "a", signal, ask) is signal


async def test_an_answer_in_time():
    async def ask(signal):
        return Answer()

    assert await within(60_000, "a", None, ask) == Answer()


async def test_who_is_late_is_stopped_and_named():
    with pytest.raises(AskTimeoutError, match=r"^a has not answered within 0\.01 s; the question was cancelled$"):
        await within(10, "a", None, until_stopped)


async def test_an_abort_of_the_caller_is_not_lateness():
    controller = AbortController()
    asking = asyncio.ensure_future(within(60_000, "a", controller.signal, until_stopped))
    asyncio.get_running_loop().call_soon(controller.abort)
    assert (await asking).is_error


async def test_who_does_not_heed_the_signal_is_cut_off(monkeypatch):
    monkeypatch.setattr(deadlines, "GRACE", 0.01)
    ended = asyncio.Event()

    async def deaf(_signal):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(AskTimeoutError):
        await within(10, "a", None, deaf)
    assert ended.is_set()


async def test_an_answer_that_comes_with_the_deadline_counts():
    async def ask(signal):
        await signal.wait()
        return Answer()

    assert await within(10, "a", None, ask) == Answer()


async def test_a_failure_of_its_own_is_its_own():
    async def ask(_signal):
        raise TimeoutError("something else")

    with pytest.raises(TimeoutError, match="something else") as raised:
        await within(60_000, "a", None, ask)
    assert not isinstance(raised.value, AskTimeoutError)


def test_the_option_and_the_words():
    assert read_ask_timeout(None, "x") is None
    assert read_ask_timeout(5, "x") == 5
    assert late("a", 90_000).message == "a has not answered within 90 s; the question was cancelled"
