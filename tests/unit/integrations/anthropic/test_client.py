import asyncio
import json
import math
import subprocess
import sys

import pytest

from lattice.abort import AbortController
from lattice.errors import AbortError, APIError, OptionError
from lattice.errors import TimeoutError as LatticeTimeout
from lattice.integrations.anthropic import AnthropicClient
from lattice.model import ModelRequest
from lattice.testing.model import tool_use
from lattice.testing.replies import dropped, early_end, http_error, raw_stream, reply, stream_error
from lattice.testing.server import MessagesApiServer

TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}
PARTS = ["One part. ", "Another part. ", "The last part."]
LONG = "".join(PARTS)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def texts(events):
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)


async def test_a_plain_request_has_the_documented_body_and_headers(ask):
    """agent:ANT-01 agent:ANT-02"""
    async with MessagesApiServer(["Hello"]) as server:
        await ask(server, system_prompt="Be brief.", stream=False)
    request = server.requests[0]
    assert list(request.body) == ["model", "system", "max_tokens", "messages", "tools"]
    assert request.body == {
        "model": "test-model",
        "system": "Be brief.",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [],
    }
    assert (request.method, request.path, request.query) == ("POST", "/v1/messages", {})
    assert request.headers["x-api-key"] == "key"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in request.headers


async def test_a_large_output_needs_no_stream(ask):
    """agent:ANT-21"""
    async with MessagesApiServer(["a"]) as server:
        message = await ask(server, max_tokens=200_000, stream=False)
    assert message["content"][0]["text"] == "a"
    assert server.requests[0].body["max_tokens"] == 200_000


async def test_stream_is_sent_only_when_streaming_and_an_empty_system_prompt_never(ask):
    """agent:ANT-01"""
    async with MessagesApiServer(["a"]) as server:
        await ask(server, system_prompt="", tools=[TOOL])
    body = server.requests[0].body
    assert body["stream"] is True
    assert "system" not in body
    assert body["tools"] == [TOOL]


async def test_structured_output_uses_the_beta_endpoint(ask):
    """agent:ANT-03 agent:ANT-04"""
    given = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    async with MessagesApiServer(["{}", "{}"]) as server:
        await ask(server, output_format="json")
        await ask(server, output_format=given)
    first, second = server.requests
    assert first.body["output_config"] == {"format": {"type": "json_schema", "schema": {}}}
    assert second.body["output_config"] == {"format": given}
    assert first.query == {"beta": "true"}
    assert first.headers["anthropic-beta"] == "structured-outputs-2025-12-15"
    assert not any("beta" in key for key in first.body)


async def test_reasoning_effort_and_thinking_stand_at_the_top(ask):
    """agent:ANT-05 agent:ANT-07"""
    async with MessagesApiServer(["a"]) as server:
        await ask(server, reasoning_effort="max", thinking_config={"type": "disabled"})
    assert server.requests[0].body["reasoning_effort"] == "max"
    assert server.requests[0].body["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("stream", [True, False])
async def test_the_answer_carries_blocks_usage_stop_reason_id_and_model(ask, stream):
    """agent:ANT-10 agent:ANT-11"""
    call = tool_use("add", {"a": 1, "text": "é☃"}, id="toolu_1")
    thought = {"type": "thinking", "thinking": "Let me see. " * 5, "signature": "c2lnbmVk" * 9}
    script = [reply(thought, LONG, call, usage={"input_tokens": 5, "output_tokens": 7}, model="served-model")]
    async with MessagesApiServer(script) as server:
        message = await ask(server, stream=stream)
    assert message["content"] == [thought, {"type": "text", "text": LONG}, call]
    assert message["usage"] == {"input_tokens": 5, "output_tokens": 7}
    assert message["stopReason"] == "tool_use"
    assert message["providerResponseId"].startswith("msg_")
    assert message["model"] == "served-model"
    assert message["role"] == "assistant"


async def test_stream_events_reach_the_caller_raw_and_in_order(ask):
    """agent:ANT-17"""
    events = []
    async with MessagesApiServer([LONG]) as server:
        await ask(server, on_stream_event=events.append)
    assert texts(events) == LONG
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize("stream", [True, False])
async def test_blocks_that_nobody_knows_survive_the_round_trip(ask, stream):
    """agent:ANT-09 agent:W-37"""
    unknown = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "u", "encrypted": "=="}]}
    async with MessagesApiServer([reply(unknown, "text"), "ok"], strict=False) as server:
        first = await ask(server, stream=stream)
        user = {"role": "user", "content": "hi"}
        await ask(server, messages=[user, first, {"role": "user", "content": "go on"}])
    assert first["content"][0] == unknown
    assert server.requests[1].body["messages"][1] == {"role": "assistant", "content": first["content"]}


@pytest.mark.parametrize("stream", [True, False])
async def test_signed_thinking_goes_back_byte_for_byte(ask, stream):
    thought = {"type": "thinking", "thinking": 'He said "\\u00e9" \x07 é 😀 \u2028\n', "signature": "EqQ/+=="}
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl+/=="}
    call = tool_use("add", {}, id="toolu_1")
    async with MessagesApiServer([reply(thought, redacted, call), "ok"]) as server:
        first = await ask(server, stream=stream, tools=[TOOL])
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]}
        await ask(server, tools=[TOOL], messages=[{"role": "user", "content": "hi"}, first, result])
    assert server.requests[1].usage is not None  # the server refuses a thinking block that differs from what it sent
    assert server.requests[1].body["messages"][1]["content"][:2] == [thought, redacted]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [('{"path": "a', "not valid JSON"), ("[1, 2]", "must be a JSON object"), ('{"a": NaN}', "not valid JSON")],
)
async def test_broken_tool_input_is_marked_and_never_empty_by_silence(ask, broken, reason):
    """agent:ANT-14 agent:ANT-15 agent:W-36"""
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": broken}
    async with MessagesApiServer([reply(call), "ok"]) as server:
        first = await ask(server)
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "bad", "is_error": True}
        messages = [{"role": "user", "content": "hi"}, first, {"role": "user", "content": [result]}]
        await ask(server, messages=messages)
    assert first["content"] == [
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "_invalid_input": reason}
    ]
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
    ]


@pytest.mark.parametrize("deltas", [0, 1, 2])
async def test_an_error_inside_a_stream_is_retried_and_nothing_is_shown_twice(ask, soon, deltas):
    events, retries = [], []
    async with MessagesApiServer([stream_error(LONG, after=deltas), LONG]) as server:
        message = await ask(server, on_stream_event=events.append, on_retry=retries.append)
    assert message["content"] == [{"type": "text", "text": LONG}]
    assert texts(events) == LONG
    assert [event["type"] for event in events].count("message_start") == 1
    assert [retry["attempt"] for retry in retries] == [1]
    assert "Overloaded" in retries[0]["reason"]
    assert retries[0]["delay"] > 0


async def test_a_retry_that_says_something_else_shows_no_second_text(ask, soon):
    events = []
    async with MessagesApiServer([stream_error(LONG, after=2), "Something else, and longer than that one."]) as server:
        message = await ask(server, on_stream_event=events.append)
    assert message["content"][0]["text"] == "Something else, and longer than that one."
    assert texts(events) == LONG[:32]
    assert events[-1]["type"] == "message_stop"


@pytest.mark.parametrize("fault", [early_end(LONG, after=1), dropped(LONG, after=1), dropped()])
async def test_a_stream_that_breaks_off_is_retried(ask, soon, fault):
    events = []
    async with MessagesApiServer([fault, LONG]) as server:
        message = await ask(server, on_stream_event=events.append)
    assert message["content"][0]["text"] == LONG
    assert texts(events) == LONG
    assert len(server.requests) == 2


async def test_a_stream_that_keeps_ending_early_is_an_error_and_not_a_message(ask, soon):
    """agent:ANT-16 agent:W-37"""
    async with MessagesApiServer(lambda _body: early_end(LONG, after=1)) as server:
        with pytest.raises(APIError, match="ended before the message was complete") as caught:
            await ask(server)
    assert len(server.requests) == 3
    assert caught.value.code == "incomplete_stream"
    assert caught.value.retryable


async def test_an_answer_cut_in_half_is_retried_without_streaming_too(ask, soon):
    async with MessagesApiServer([early_end(LONG), LONG]) as server:
        message = await ask(server, stream=False)
    assert message["content"][0]["text"] == LONG


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_failures_that_may_pass_are_retried_as_often_as_asked_and_never_by_the_sdk(ask, soon, status):
    """agent:ANT-20 agent:W-39"""
    retries = []
    async with MessagesApiServer(lambda _body: http_error(status, "overloaded_error", "busy")) as server:
        with pytest.raises(APIError) as caught:
            await ask(server, on_retry=retries.append)
    assert len(server.requests) == 3
    assert [retry["attempt"] for retry in retries] == [1, 2]
    assert {request.headers["x-stainless-retry-count"] for request in server.requests} == {"0"}
    assert (caught.value.status, caught.value.retryable) == (status, True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_failures_that_stay_are_not_retried(ask, status):
    error = http_error(status, "some_error", "no", headers={"request-id": "req_7"})
    async with MessagesApiServer([error]) as server:
        with pytest.raises(APIError) as caught:
            await ask(server)
    assert len(server.requests) == 1
    assert (caught.value.status, caught.value.code) == (status, "some_error")
    assert (caught.value.request_id, caught.value.retryable) == ("req_7", False)


async def test_the_text_of_an_http_error_is_its_status_and_body(ask):
    """agent:ANT-19"""
    async with MessagesApiServer([http_error(400, "invalid_request_error", "too long")]) as server:
        with pytest.raises(APIError) as caught:
            await ask(server)
    status, _, body = caught.value.message.partition(" ")
    assert status == "400"
    assert json.loads(body)["error"] == {"type": "invalid_request_error", "message": "too long"}


async def test_retry_after_is_honoured_with_jitter_on_top(ask):
    retries = []
    busy = http_error(429, "rate_limit_error", "slow down", headers={"retry-after-ms": "40"})
    async with MessagesApiServer([busy, busy, "ok"]) as server:
        await ask(server, on_retry=retries.append)
    first, second = (retry["delay"] for retry in retries)
    assert 0.04 <= first <= 0.08
    assert 0.04 <= second <= 0.12
    assert first != second


async def test_a_rate_limit_that_names_a_time_outlasts_the_usual_retries(ask):
    busy = http_error(429, "rate_limit_error", "slow down", headers={"retry-after-ms": "1"})
    async with MessagesApiServer([*[busy] * 5, "ok"]) as server:
        assert (await ask(server))["content"][0]["text"] == "ok"
    assert len(server.requests) == 6


async def test_a_wait_that_is_too_long_is_left_to_the_caller(ask):
    """agent:W-39"""
    async with MessagesApiServer([http_error(429, "rate_limit_error", "x", headers={"retry-after": "3600"})]) as server:
        with pytest.raises(APIError) as caught:
            await ask(server)
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


async def test_many_at_once_against_a_rate_limit_all_succeed(ask):
    loop = asyncio.get_running_loop()
    window = []

    def limited(_body):
        now = loop.time()
        window[:] = [at for at in window if now - at < 0.1]
        if len(window) >= 3:
            return http_error(429, "rate_limit_error", "3 at a time", headers={"retry-after-ms": "100"})
        window.append(now)
        return "ok"

    async with MessagesApiServer(limited) as server:
        client = AnthropicClient("key", server.base_url)
        answers = await asyncio.gather(*(ask(server, client=client) for _ in range(16)))
    assert [answer["content"][0]["text"] for answer in answers] == ["ok"] * 16


async def test_no_retries_means_one_request(ask):
    async with MessagesApiServer([http_error(500)]) as server:
        with pytest.raises(APIError):
            await ask(server, client=AnthropicClient("key", server.base_url, max_retries=0))
    assert len(server.requests) == 1


async def test_on_retry_may_be_async(ask, soon):
    heard = []

    async def on_retry(retry):
        await asyncio.sleep(0)
        heard.append(retry)

    async with MessagesApiServer([http_error(500), "ok"]) as server:
        await ask(server, on_retry=on_retry)
    assert len(heard) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_closes_the_connection(ask, stream):
    seen = []
    script = [reply(LONG, pause=60) if stream else reply(LONG, delay=math.inf)]
    async with MessagesApiServer(script) as server:
        task = asyncio.create_task(ask(server, stream=stream, on_stream_event=seen.append))
        await until(lambda: seen if stream else server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.disconnects == 1)


async def test_the_signal_ends_the_request_and_closes_the_connection(ask):
    """agent:ANT-18"""
    controller = AbortController()
    async with MessagesApiServer([reply("never", delay=math.inf)]) as server:
        task = asyncio.create_task(ask(server, signal=controller.signal))
        await until(lambda: server.requests)
        controller.abort()
        with pytest.raises(AbortError, match="Operation aborted"):
            await task
        await until(lambda: server.disconnects == 1)


async def test_an_aborted_signal_sends_nothing(ask):
    controller = AbortController()
    controller.abort()
    async with MessagesApiServer([]) as server:
        with pytest.raises(AbortError):
            await ask(server, signal=controller.signal)
    assert server.requests == []


async def test_the_signal_ends_the_wait_before_a_retry(ask):
    controller = AbortController()
    async with MessagesApiServer([http_error(503, headers={"retry-after": "50"})]) as server:
        with pytest.raises(AbortError):
            await ask(server, signal=controller.signal, on_retry=lambda _retry: controller.abort())
    assert len(server.requests) == 1


async def test_a_deadline_covers_the_whole_request_retries_included(ask):
    script = [http_error(500, headers={"retry-after-ms": "1"}), reply("never", delay=math.inf)]
    async with MessagesApiServer(script) as server:
        with pytest.raises(LatticeTimeout, match="request_timeout_ms of 200ms"):
            await ask(server, timeout_ms=200)
        await until(lambda: server.disconnects == 1)
    assert len(server.requests) == 2


async def test_an_error_of_the_callback_is_the_callers_own_and_not_retried(ask):
    def broken(_event):
        raise RuntimeError("the host's own")

    async with MessagesApiServer(["a"]) as server:
        with pytest.raises(RuntimeError, match="the host's own"):
            await ask(server, on_stream_event=broken)
    assert len(server.requests) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_an_address_that_is_something_else_is_named(ask, stream):
    page = http_error(200, body="<html>welcome</html>")
    async with MessagesApiServer([page]) as server:
        with pytest.raises(APIError, match="Check the base URL") as caught:
            await ask(server, stream=stream)
        assert server.base_url in str(caught.value)
    assert len(server.requests) == 1


async def test_a_provider_that_ignores_stream_is_understood(ask):
    message = {"type": "message", "id": "msg_1", "model": "m", "role": "assistant", "stop_reason": "end_turn"}
    whole = http_error(200, body={**message, "content": [{"type": "text", "text": "all at once"}]})
    async with MessagesApiServer([whole]) as server:
        assert (await ask(server))["content"] == [{"type": "text", "text": "all at once"}]


async def test_nobody_at_the_address_is_one_clear_error(soon):
    async with MessagesApiServer([]) as server:
        url = server.base_url
    client = AnthropicClient("key", url)
    request = ModelRequest(model="m", max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(APIError, match=url) as caught:
        await client.create_message(request)
    assert (caught.value.code, caught.value.retryable, caught.value.status) == ("connection_error", True, None)


async def test_a_missing_key_is_named_with_the_way_out(monkeypatch, tmp_path):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    request = ModelRequest(model="m", max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(OptionError, match="ANTHROPIC_API_KEY"):
        await AnthropicClient(base_url="http://127.0.0.1:1").create_message(request)


async def test_key_and_address_come_from_the_environment(ask, monkeypatch):
    """agent:ANT-22"""
    async with MessagesApiServer(["ok"]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        await ask(server, client=AnthropicClient())
    assert server.requests[0].headers["x-api-key"] == "from-the-environment"


async def test_extra_headers_are_sent_and_win(ask):
    headers = {"X-Team": "blue", "Authorization": "Bearer other"}
    async with MessagesApiServer(["ok"]) as server:
        await ask(server, client=AnthropicClient("key", server.base_url, default_headers=headers))
    assert server.requests[0].headers["x-team"] == "blue"
    assert server.requests[0].headers["authorization"] == "Bearer other"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "api.example.com"},
        {"base_url": ""},
        {"max_retries": -1},
        {"max_retries": True},
        {"prompt_caching": "always"},
    ],
)
def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        AnthropicClient("key", **options)


async def test_a_long_loop_pays_for_little_of_what_it_sends_again(ask):
    """30 turns, each with a tool call of which the result stays in the conversation."""
    tools = [{**TOOL, "description": "Adds numbers. " * 40}]
    messages = [{"role": "user", "content": "Please work through the list. " * 20}]
    async with MessagesApiServer(lambda _body: reply("Next one.", tool_use("add", {"a": 1}))) as server:
        client = AnthropicClient("key", server.base_url, prompt_caching=True)
        for _ in range(30):
            answer = await ask(server, client=client, messages=messages, tools=tools, system_prompt="Be exact. " * 60)
            call = answer["content"][-1]
            messages.append(answer)
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "A line of the result. " * 20}
            messages.append({"role": "user", "content": [result]})
    assert server.cache.uncached_share < 0.15
    assert server.cache.resent_uncached_share < 0.01
    assert answer["usage"]["cache_read_input_tokens"] > 10 * answer["usage"]["input_tokens"]


async def test_without_caching_every_turn_is_paid_for_in_full(ask):
    messages = [{"role": "user", "content": "word " * 50}]
    async with MessagesApiServer(lambda _body: "ok") as server:
        for _ in range(3):
            answer = await ask(server, messages=messages)
            messages += [answer, {"role": "user", "content": "more " * 50}]
    assert server.cache.read == 0
    assert all("cache_control" not in json.dumps(request.body) for request in server.requests)


# Shapes as DeepSeek's and Kimi's Anthropic-compatible endpoints send them.
DEEPSEEK = [
    {"type": "message_start", "message": {"id": "ds-1", "type": "message", "role": "assistant", "model": "deepseek-v4-flash", "content": [], "usage": {"input_tokens": 0, "output_tokens": 0, "service_tier": "standard"}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "ds-1"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Yes."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 12, "cache_read_input_tokens": 64, "output_tokens": 9, "server_tool_use": None}},
    {"type": "message_stop"},
]  # fmt: skip
KIMI = [
    {"type": "message_start", "message": {"id": "k-1", "type": "message", "role": "assistant", "model": "kimi-k3", "content": None, "usage": None}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Well."}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "add:0", "name": "add", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"input_tokens": 30, "output_tokens": 4}},
    {"type": "message_stop"},
]  # fmt: skip


async def test_the_shape_of_deepseek(ask):
    async with MessagesApiServer([raw_stream(*DEEPSEEK)]) as server:
        message = await ask(server)
    assert message["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "ds-1"},
        {"type": "text", "text": "Yes."},
    ]
    assert message["usage"] == {"input_tokens": 12, "cache_read_input_tokens": 64, "output_tokens": 9}
    assert (message["providerResponseId"], message["model"]) == ("ds-1", "deepseek-v4-flash")


async def test_the_shape_of_kimi_with_blocks_out_of_nowhere_and_indices_left_out(ask):
    """agent:ANT-11 agent:ANT-12"""
    async with MessagesApiServer([raw_stream(*KIMI)]) as server:
        message = await ask(server)
    assert message["content"] == [
        {"type": "thinking", "thinking": "Well.", "signature": ""},
        {"type": "tool_use", "id": "add:0", "name": "add", "input": {"a": 1}},
    ]
    assert message["usage"] == {"input_tokens": 30, "output_tokens": 4}


def test_the_sdk_is_not_imported_before_the_first_request():
    code = (
        "import sys; from lattice.integrations.anthropic import AnthropicClient; AnthropicClient('key');"
        " assert 'anthropic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
