"""From an assistant message to the event stream that the Messages API sends for it."""

from collections.abc import Iterator
from typing import Any

from lattice.encoding import compact_json, encode

__all__ = ["frame", "stream_events"]


def frame(event: dict[str, Any]) -> bytes:
    """Encode one event for the wire."""
    return b"event: " + str(event.get("type")).encode() + b"\ndata: " + encode(event) + b"\n\n"


def stream_events(message: dict[str, Any], chunk_size: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a message; texts come in pieces of ``chunk_size`` characters."""
    usage = message["usage"]
    first = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": first}}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        empty, deltas = _opening_and_deltas(block, chunk_size)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _opening_and_deltas(block: dict[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block.get("type")
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _parts(block["text"], size)]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"], size)]
        if "signature" in block:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", **({"signature": ""} if "signature" in block else {})}, deltas
    if kind in {"tool_use", "server_tool_use", "mcp_tool_use"}:
        value = block.get("input", {})
        text = value if isinstance(value, str) else compact_json(value)  # a text is broken JSON on purpose
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in _parts(text, size)]
    return block, []


def _parts(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
