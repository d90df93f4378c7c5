"""A model whose answers are written down in advance, for tests of agents and teams."""

import asyncio
import inspect
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lattice.abort import AbortSignal
from lattice.encoding import compact_json
from lattice.errors import LatticeError, OptionError
from lattice.messages import copy_json
from lattice.model import ModelRequest

__all__ = ["ScriptedModel", "text", "tool_use", "turn"]

Reply = Any
"""A text, a block, a list of blocks, an assistant message, an exception to raise, or a function of the request."""


def text(words: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words}


def tool_use(name: str, input: dict[str, Any] | None = None, id: str | None = None) -> dict[str, Any]:  # noqa: A002 - the words of the wire
    """Return a call of a tool; without an ``id`` it gets a new one each time that it is answered."""
    block: dict[str, Any] = {"type": "tool_use", "name": name, "input": input or {}}
    if id is not None:
        block["id"] = id
    return block


def turn(*blocks: Any, usage: dict[str, int] | None = None, stop_reason: str | None = None) -> dict[str, Any]:
    """Return one assistant message of several blocks; a bare text counts as a text block.

    Args:
        blocks: texts and blocks in order.
        usage: ``{"input_tokens": ..., "output_tokens": ...}``; left out if None.
        stop_reason: ``tool_use`` if there is a call, else ``end_turn``, if None.
    """
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if usage is not None:
        message["usage"] = usage
    calls = any(block.get("type") == "tool_use" for block in content)
    message["stopReason"] = stop_reason or ("tool_use" if calls else "end_turn")
    return message


class ScriptedModel:
    """A ``ModelClient`` that gives the answers it was told to give.

    ``script`` is a list of replies, used up one a request, or a function of the request that returns a reply (``def``
    or ``async def``). A reply is a text, a block, a list of texts and blocks, a message made by ``turn()``, an
    exception to raise, or a function that returns one of these. ``requests`` keeps every request. ``latency`` is the
    time in seconds that each answer takes; an abort cuts it short.

    >>> model = ScriptedModel([turn(tool_use("add", {"a": 1, "b": 2})), "It is 3."])
    """

    def __init__(self, script: "Iterable[Reply] | Callable[[ModelRequest], Reply]", *, latency: float = 0.0) -> None:
        if isinstance(script, (str, dict)):
            raise OptionError(f"ScriptedModel: script must be a list of replies or a function, not {script!r}")
        self._function = script if callable(script) else None
        self._replies: Iterator[Reply] = iter(()) if callable(script) else iter(script)
        self.latency = latency
        self.requests: list[ModelRequest] = []

    @property
    def calls(self) -> int:
        """How many requests there were."""
        return len(self.requests)

    async def create_message(self, request: ModelRequest) -> dict[str, Any]:
        """Answer a request with the next reply.

        Raises:
            AbortError: the request's signal fired while the answer was on its way.
            LatticeError: the script has no more replies.
        """
        self.requests.append(request)
        reply = await self._next(request)
        if self.latency:
            await _pause(self.latency, request.signal)
        request.signal.throw_if_aborted()
        if isinstance(reply, BaseException):
            raise reply
        message = _message(reply)
        if request.stream:
            for event in _stream_events(message, request.model):
                request.on_stream_event(event)
        return message

    async def _next(self, request: ModelRequest) -> Reply:
        reply = self._function
        if reply is None:
            try:
                reply = next(self._replies)
            except StopIteration:
                raise LatticeError(f"the script of this model ended before request {self.calls}") from None
        while callable(reply) and not isinstance(reply, type):
            reply = reply(request)
            if inspect.isawaitable(reply):
                reply = await reply
        return reply() if isinstance(reply, type) and issubclass(reply, BaseException) else reply


async def _pause(seconds: float, signal: AbortSignal) -> None:
    await signal.race(asyncio.sleep(seconds))


def _message(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, str) or (isinstance(reply, dict) and "type" in reply):
        reply = [reply]
    if isinstance(reply, (list, tuple)):
        return _with_ids(turn(*reply))
    if isinstance(reply, dict):
        return _with_ids(reply)
    raise OptionError(f"ScriptedModel: a reply must be a text, blocks, a message or an exception, not {reply!r:.200}")


def _with_ids(message: dict[str, Any]) -> dict[str, Any]:
    message = copy_json(message)
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use" and "id" not in block:
            block["id"] = f"toolu_{uuid.uuid4().hex[:24]}"
    return message


def _stream_events(message: dict[str, Any], model: str) -> Iterator[dict[str, Any]]:
    usage = message.get("usage") or {"input_tokens": 0, "output_tokens": 0}
    start = {"id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": model}
    yield {"type": "message_start", "message": {**start, "content": [], "usage": usage}}
    content = message.get("content")
    blocks = [text(content)] if isinstance(content, str) else content or []
    for index, block in enumerate(blocks):
        empty, delta = _opening_and_delta(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if delta is not None:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message.get("stopReason", "end_turn"), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}


def _opening_and_delta(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    kind = block.get("type")
    if kind == "text":
        return text(""), {"type": "text_delta", "text": block.get("text")}
    if kind == "tool_use":
        return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": compact_json(block.get("input"))}
    return block, None
