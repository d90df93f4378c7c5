"""The scripted model."""

import asyncio

import pytest

from lattice import AbortController, AbortError, LatticeError, ModelRequest, OptionError
from lattice.testing import ScriptedModel, text, tool_use, turn


def request(**options):
    return ModelRequest(model="m", messages=[{"role": "user", "content": "x"}], max_tokens=10, **options)


async def test_replies_in_turn():
    model = ScriptedModel(["a", text("b"), ["c", tool_use("t", {"x": 1})], turn("d", stop_reason="max_tokens")])
    answers = [await model.create_message(request()) for _ in range(4)]
    assert [answer["content"][0]["text"] for answer in answers] == ["a", "b", "c", "d"]
    assert [answer["stopReason"] for answer in answers] == ["end_turn", "end_turn", "tool_use", "max_tokens"]
    assert answers[2]["content"][1]["id"].startswith("toolu_")
    assert model.calls == len(model.requests) == 4
    with pytest.raises(LatticeError, match="ended before request 5"):
        await model.create_message(request())


async def test_calls_get_a_new_id_each_time():
    model = ScriptedModel(lambda _request: tool_use("t"))
    first, second = [(await model.create_message(request()))["content"][0]["id"] for _ in range(2)]
    assert first != second
    fixed = ScriptedModel([tool_use("t", id="mine")])
    assert (await fixed.create_message(request()))["content"][0]["id"] == "mine"


async def test_functions_and_errors():
    async def later(asked):
        return f"{len(asked.messages)} message"

    model = ScriptedModel([later, lambda asked: RuntimeError("from a function"), ValueError, KeyError("k")])
    assert (await model.create_message(request()))["content"][0]["text"] == "1 message"
    for kind in (RuntimeError, ValueError, KeyError):
        with pytest.raises(kind):
            await model.create_message(request())


async def test_usage_and_stream_events():
    events = []
    model = ScriptedModel([turn("hi", tool_use("t", {"a": 1}), usage={"input_tokens": 3, "output_tokens": 4})])
    answer = await model.create_message(request(on_stream_event=events.append))
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[2]["delta"] == {"type": "text_delta", "text": "hi"}
    assert events[5]["delta"] == {"type": "input_json_delta", "partial_json": '{"a":1}'}
    quiet = []
    await ScriptedModel(["x"]).create_message(request(stream=False, on_stream_event=quiet.append))
    assert quiet == []


async def test_latency_is_cut_short_by_the_signal():
    controller = AbortController()
    model = ScriptedModel(["late"], latency=600)
    work = asyncio.ensure_future(model.create_message(request(signal=controller.signal)))
    while not model.calls:
        await asyncio.sleep(0)
    controller.abort()
    with pytest.raises(AbortError):
        await asyncio.wait_for(work, 5)
    assert (await ScriptedModel(["soon"], latency=0.001).create_message(request()))["content"] == [text("soon")]


@pytest.mark.parametrize("script", ["one text", {"role": "assistant"}])
def test_scripts_that_are_none(script):
    with pytest.raises(OptionError, match="script must be a list"):
        ScriptedModel(script)


async def test_replies_that_are_none():
    with pytest.raises(OptionError, match="a reply must be"):
        await ScriptedModel([3]).create_message(request())
