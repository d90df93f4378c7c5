import asyncio
import http.client
import json

import anthropic
import pytest

from lattice.errors import OptionError
from lattice.testing.model import tool_use, turn
from lattice.testing.replies import http_error, reply
from lattice.testing.server import MessagesApiServer

HI = [{"role": "user", "content": "hi"}]


def post(server, body, path="/v1/messages"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body)
    connection.request("POST", path, data, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response, answer


def ask(server, **fields):
    return post(server, {"model": "m", "max_tokens": 10, "messages": HI, **fields})


async def test_the_official_sdk_talks_to_it_with_its_own_helpers():
    async with MessagesApiServer([reply("One two three.", tool_use("add", {"a": [1, 2]})), "Bye"]) as server:
        async with anthropic.AsyncAnthropic(api_key="k", base_url=server.base_url) as client:
            async with client.messages.stream(model="m", max_tokens=10, messages=HI) as stream:
                message = await stream.get_final_message()
            second = await client.messages.create(model="m", max_tokens=10, messages=HI)
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[1].input == {"a": [1, 2]}
    assert (message.stop_reason, message.model) == ("tool_use", "m")
    assert second.content[0].text == "Bye"
    assert second.usage.input_tokens > 0


def test_replies_come_in_order_and_requests_are_kept():
    with MessagesApiServer(["a", [{"type": "text", "text": "b"}], turn("c", usage={"input_tokens": 3})]) as server:
        answers = [json.loads(ask(server, temperature=n)[1]) for n in range(3)]
    assert [answer["content"][0]["text"] for answer in answers] == ["a", "b", "c"]
    assert answers[2]["usage"]["input_tokens"] == 3
    assert [request.body["temperature"] for request in server.requests] == [0, 1, 2]
    assert server.requests[0].headers["content-type"] == "application/json"


def test_a_script_may_be_a_function_async_or_not():
    async def later(body):
        await asyncio.sleep(0)
        return body["messages"][-1]["content"].upper()

    with MessagesApiServer(later) as server:
        assert json.loads(ask(server)[1])["content"][0]["text"] == "HI"


def test_a_script_that_ends_or_fails_says_so_to_the_client():
    with MessagesApiServer(["a", lambda _body: 1 / 0]) as server:
        ask(server)
        failed, text = ask(server)
        ended, more = ask(server)
    assert failed.status == ended.status == 500
    assert b"ZeroDivisionError" in text
    assert b"the script ended before request 3" in more


def test_faults_carry_status_headers_and_body():
    with MessagesApiServer([http_error(429, "rate_limit_error", "slow", headers={"retry-after": "2"})]) as server:
        response, body = ask(server)
    assert (response.status, response.getheader("retry-after")) == (429, "2")
    assert json.loads(body) == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}


def test_other_paths_and_bodies_that_are_no_json_are_refused():
    with MessagesApiServer([]) as server:
        assert post(server, {}, "/v1/complete")[0].status == 404
        assert post(server, b"{")[0].status == 400


def test_many_requests_over_one_connection():
    with MessagesApiServer(lambda _body: "ok") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        for _ in range(5):
            connection.request("POST", "/v1/messages", json.dumps({"model": "m", "max_tokens": 1, "messages": HI}))
            connection.getresponse().read()
        connection.close()
        assert server.connections == 1
    assert len(server.requests) == 5


@pytest.mark.parametrize("script", ["a text", {"role": "assistant", "content": []}])
def test_a_script_that_is_no_script_is_refused(script):
    with pytest.raises(OptionError, match="script"):
        MessagesApiServer(script)


def test_a_reply_that_is_none_is_named():
    with MessagesApiServer([42]) as server:
        response, body = ask(server)
    assert response.status == 500
    assert b"not 42" in body


async def test_a_server_can_be_stopped_while_a_client_waits():
    async with MessagesApiServer([reply("late", delay=1000)]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        body = json.dumps({"model": "m", "max_tokens": 1, "messages": HI}).encode()
        writer.write(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        async with asyncio.timeout(10):
            while not server.requests:
                await asyncio.sleep(0.001)
    async with asyncio.timeout(10):
        with pytest.raises(ConnectionError):
            if await reader.read() == b"":
                raise ConnectionResetError
    writer.close()
