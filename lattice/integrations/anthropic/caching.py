"""Prompt caching: where the breakpoints of a request go.

At most four: behind the tools, behind the system prompt, behind the last message, and where the last message of the
request before ended. The last two move along with the conversation, so that each turn reads what the one before wrote.
"""

from typing import Any
from urllib.parse import urlsplit

__all__ = ["add_breakpoints", "caches_by_default"]

_LIMIT = 4
_MARK = {"type": "ephemeral"}
_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result", "search_result"})


def caches_by_default(base_url: str) -> bool:
    """Whether the endpoint is Anthropic's own: others ignore breakpoints, or refuse them."""
    host = urlsplit(base_url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def add_breakpoints(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with breakpoints; what the caller marked itself counts towards the limit.

    Nothing that the body shares with a history is changed.
    """
    left = _LIMIT - _marks(body)
    marked = dict(body)
    messages = marked["messages"] = list(body["messages"])
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for index in [*users[-1:], *users[-2:-1]]:
        left -= _mark_message(messages, index, left)
    if left > 0 and isinstance(body.get("system"), str):
        marked["system"] = [{"type": "text", "text": body["system"], "cache_control": _MARK}]
        left -= 1
    tools = body.get("tools")
    if left > 0 and tools and "cache_control" not in tools[-1]:
        marked["tools"] = [*tools[:-1], {**tools[-1], "cache_control": _MARK}]
    return marked


def _mark_message(messages: list[dict[str, Any]], index: int, left: int) -> int:
    content = messages[index]["content"]
    if left <= 0:
        return 0
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for position in range(len(content) - 1, -1, -1):
        block = content[position]
        if "cache_control" in block:
            return 0
        if block.get("type") in _MARKABLE:
            blocks = [*content[:position], {**block, "cache_control": _MARK}, *content[position + 1 :]]
            messages[index] = {"role": messages[index]["role"], "content": blocks}
            return 1
    return 0


def _marks(body: dict[str, Any]) -> int:
    marks = sum("cache_control" in definition for definition in body.get("tools") or ())
    for message in body["messages"]:
        content = message["content"]
        if not isinstance(content, str):
            marks += sum("cache_control" in block for block in content)
    return marks
