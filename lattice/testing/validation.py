"""What the local Messages API server refuses, as the provider does: the mistakes that brick a conversation."""

import re
from collections.abc import Iterator
from typing import Any

from lattice.encoding import encode

__all__ = ["RequestValidator"]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_MARKS = 4
_UNMARKABLE = {"thinking", "redacted_thinking"}


class RequestValidator:
    """Finds what is wrong with a request; remembers signed thinking blocks, so that an edited one is noticed."""

    def __init__(self) -> None:
        self._signed: dict[str, bytes] = {}

    def remember(self, content: Any) -> None:
        """Keep the signed blocks of an answer."""
        for block in content:
            signature = block.get("signature") or block.get("data")
            if block.get("type") in _UNMARKABLE and signature:
                self._signed[signature] = encode(block)

    def complaint(self, body: Any) -> str | None:
        """Return what is wrong with the request, or None."""
        if not isinstance(body, dict):
            return "the body must be a JSON object"
        for check in (_check_fields, _check_tools, _check_roles, _check_pairs, _check_marks):
            found = check(body)
            if found is not None:
                return found
        return self._check_blocks(body["messages"])

    def _check_blocks(self, messages: list[dict[str, Any]]) -> str | None:
        for index, message in enumerate(messages):
            for position, block in enumerate(_content(message)):
                where = f"messages.{index}.content.{position}"
                if block.get("type") == "text" and not str(block.get("text", "")).strip():
                    return f"{where}: text content blocks must contain non-whitespace text"
                if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
                    return f"{where}.tool_use.input: Input should be a valid dictionary"
                if any(key.startswith("_") for key in block):
                    return f"{where}: Extra inputs are not permitted"
                if self._edited(block):
                    return f"{where}: `thinking` or `redacted_thinking` blocks cannot be modified"
        return None

    def _edited(self, block: dict[str, Any]) -> bool:
        if block.get("type") not in _UNMARKABLE:
            return False
        known = self._signed.get(block.get("signature") or block.get("data") or "")
        return known is not None and known != encode(block)


def _check_fields(body: dict[str, Any]) -> str | None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: Field required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens: Field required"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        return "messages: at least one message is required"
    return None


def _check_tools(body: dict[str, Any]) -> str | None:
    names: set[str] = set()
    for index, definition in enumerate(body.get("tools") or ()):
        name = str(definition.get("name", ""))
        if _TOOL_NAME.fullmatch(name) is None:
            return f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if name in names:
            return "tools: Tool names must be unique."
        names.add(name)
    return None


def _check_roles(body: dict[str, Any]) -> str | None:
    for index, message in enumerate(body["messages"]):
        if message.get("role") not in {"user", "assistant"}:
            return f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if not message.get("content"):
            return f"messages.{index}: messages must have non-empty content"
        unknown = sorted(set(message) - {"role", "content"})
        if unknown:
            return f"messages.{index}.{unknown[0]}: Extra inputs are not permitted"
    return None


def _check_pairs(body: dict[str, Any]) -> str | None:
    waiting: set[str] = set()
    for index, message in enumerate(body["messages"]):
        answered = {block.get("tool_use_id") for block in _content(message) if block.get("type") == "tool_result"}
        if waiting - answered:
            ids = ", ".join(sorted(waiting - answered))
            return f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks: {ids}"
        if answered - waiting:
            return f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks"
        waiting = {block["id"] for block in _content(message) if block.get("type") == "tool_use"}
    return "messages: the last `tool_use` has no `tool_result`" if waiting else None


def _check_marks(body: dict[str, Any]) -> str | None:
    system = body.get("system")
    blocks = [*(body.get("tools") or ()), *(system if isinstance(system, list) else ())]
    blocks.extend(block for message in body["messages"] for block in _content(message))
    marked = [block for block in blocks if block.get("cache_control")]
    if len(marked) > _MAX_MARKS:
        return f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided. Found {len(marked)}."
    if any(block.get("type") in _UNMARKABLE for block in marked):
        return "cache_control cannot be set for thinking blocks"
    return None


def _content(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))
