"""Puts a streamed response together, and sees to it that a retried stream shows nothing twice."""

from collections.abc import Callable
from typing import Any

from lattice.errors import APIError
from lattice.integrations.anthropic.conversion import INVALID_INPUT, merge_usage, read_message, read_tool_input

__all__ = ["IncompleteStreamError", "StreamAssembly", "StreamRelay"]

_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_CREATED = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_PARTIAL_JSON = "partial_json"


class IncompleteStreamError(APIError):
    """The response ended before it was complete."""


class StreamAssembly:
    """One streamed message under construction; ``add()`` takes its events in order."""

    __slots__ = ("_blocks", "_complete", "_message", "_parts", "_usage")

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, int] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._parts: dict[tuple[int, str], list[str]] = {}
        self._complete = False

    def add(self, event: dict[str, Any]) -> None:
        """Take one event; kinds that nobody knows are ignored."""
        kind = event.get("type")
        if kind == "content_block_delta":
            self._add_delta(event["index"], event["delta"])
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "message_start":
            start = event["message"]
            self._message = {"id": start.get("id"), "model": start.get("model")}
            merge_usage(self._usage, start.get("usage"))
        elif kind == "message_delta":
            self._message["stop_reason"] = event["delta"].get("stop_reason")
            merge_usage(self._usage, event.get("usage"))
        elif kind == "message_stop":
            self._complete = True

    def _add_delta(self, index: int, delta: dict[str, Any]) -> None:
        if delta.get("type") == "citations_delta":
            block = self._blocks.get(index)
            if block is not None:
                block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
            return
        field = _FIELDS.get(str(delta.get("type")))
        if field is None:
            return
        kind, name = field
        if index not in self._blocks and kind in _CREATED:
            self._blocks[index] = dict(_CREATED[kind])
        text = delta.get(name)
        if isinstance(text, str):
            self._parts.setdefault((index, name), []).append(text)

    def finish(self) -> dict[str, Any]:
        """Return the message.

        Raises:
            IncompleteStreamError: the stream ended without its last event.
        """
        if not self._complete:
            raise IncompleteStreamError(
                "The provider's stream ended before the message was complete", code="incomplete_stream", retryable=True
            )
        for (index, name), parts in self._parts.items():
            block = self._blocks.get(index)
            if block is not None:
                _extend(block, name, "".join(parts))
        content = [self._blocks[index] for index in sorted(self._blocks)]
        return read_message({**self._message, "content": content, "usage": self._usage})


def _extend(block: dict[str, Any], name: str, text: str) -> None:
    if name != _PARTIAL_JSON:
        block[name] = f"{block.get(name) or ''}{text}"
    elif text:
        block["input"], reason = read_tool_input(text)
        if reason is not None:
            block[INVALID_INPUT] = reason


class StreamRelay:
    """Hands the events of a stream on, over several attempts at the same request.

    An attempt that fails may have been shown in part. The next one is silent as far as it says the same, goes on where
    it says more, and falls silent for good where it differs: the finished message then replaces what was shown.
    """

    __slots__ = ("_attempt", "_diverged", "_emit", "_said", "_shown", "_started")

    def __init__(self, emit: Callable[[dict[str, Any]], Any]) -> None:
        self._emit = emit
        self._attempt = 0
        self._shown: dict[Any, list[str]] = {}
        self._started: set[Any] = set()
        self._said: dict[Any, str] = {}
        self._diverged = False

    def begin(self) -> None:
        """Start an attempt."""
        self._attempt += 1
        self._said = {}

    def pass_on(self, event: dict[str, Any]) -> None:
        """Show an event, or what is new in it."""
        if self._attempt == 1:
            self._remember(event)
            self._emit(event)
        elif event.get("type") in {"message_delta", "message_stop"}:
            self._emit(event)
        elif not self._diverged:
            self._pass_new(event)

    def _remember(self, event: dict[str, Any]) -> None:
        if event.get("type") == "content_block_delta":
            key, text = _delta_text(event)
            self._shown.setdefault(key, []).append(text)
        else:
            self._started.add((event.get("type"), event.get("index")))

    def _pass_new(self, event: dict[str, Any]) -> None:
        if event.get("type") != "content_block_delta":
            key = (event.get("type"), event.get("index"))
            if key not in self._started:
                self._started.add(key)
                self._emit(event)
            return
        key, text = _delta_text(event)
        before = "".join(self._shown.get(key, ()))
        said = self._said.get(key, "") + text
        self._said[key] = said
        if not said.startswith(before[: len(said)]):
            self._diverged = True
        elif len(said) > len(before):
            self._shown[key] = [said]
            delta = event["delta"]
            self._emit({**event, "delta": {**delta, _FIELDS[delta["type"]][1]: said[len(before) :]}})


def _delta_text(event: dict[str, Any]) -> tuple[Any, str]:
    delta = event["delta"]
    kind = str(delta.get("type"))
    field = _FIELDS.get(kind)
    return (event.get("index"), kind), str(delta.get(field[1]) or "") if field is not None else ""
