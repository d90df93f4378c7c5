"""A conversation retold in plain text blocks, for a summary that needs no tools; and shortened where it is too long."""

from typing import Any

from lattice.encoding import compact_json
from lattice.messages import NO_CONTENT, ContentBlock, Message, text_of

__all__ = ["capped", "plain", "without_large_results"]

_NOT_RETOLD = frozenset({"thinking", "redacted_thinking"})


def plain(messages: list[Message]) -> list[Message]:
    """Return the messages with tool calls and results as text; thinking is left out, plain texts stay as they are."""
    return [{"role": message["role"], "content": _plain_content(message["content"])} for message in messages]


def capped(messages: list[Message], limit: int | None) -> list[Message]:
    """Return the messages with every text cut to ``limit`` characters; None cuts nothing."""
    if limit is None:
        return messages
    return [{"role": message["role"], "content": _capped_content(message["content"], limit)} for message in messages]


def without_large_results(messages: list[Message], limit: int) -> tuple[list[Message], int]:
    """Return the messages with tool results cut to ``limit`` characters, and how many messages that changed."""
    changed = 0
    kept = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list) and any(_is_large(block, limit) for block in content):
            changed += 1
            content = [_shortened(block, limit) if _is_large(block, limit) else block for block in content]
            message = {**message, "content": content}  # noqa: PLW2901 - the changed message takes its place
        kept.append(message)
    return kept, changed


def _plain_content(content: Any) -> str | list[ContentBlock]:
    if isinstance(content, str):
        return content
    retold: list[ContentBlock] = []
    for block in content:
        retold.extend(_plain_blocks(block))
    return retold or [{"type": "text", "text": NO_CONTENT}]


def _plain_blocks(block: ContentBlock) -> list[ContentBlock]:
    kind = block.get("type")
    if kind in _NOT_RETOLD:
        return []
    if kind == "tool_use":
        return [_text(f"[called {block['name']} with {compact_json(block.get('input'))}]")]
    if kind == "tool_result":
        word = "failed" if block.get("is_error") else "returned"
        content = block.get("content")
        others = (
            [] if isinstance(content, str) else [b for b in content or () if b.get("type") in {"image", "document"}]
        )
        return [_text(f"[the call {word}: {text_of(content)}]"), *others]
    if kind in {"text", "image", "document"}:
        return [block]
    return [_text(f"[{kind}: {compact_json(block)}]")]


def _capped_content(content: Any, limit: int) -> str | list[ContentBlock]:
    if isinstance(content, str):
        return _cut(content, limit)
    return [
        {**block, "text": _cut(block["text"], limit)}
        if block.get("type") == "text"
        else _text(f"[{block.get('type')} left out]")
        for block in content
    ]


def _is_large(block: ContentBlock, limit: int) -> bool:
    return block.get("type") == "tool_result" and len(text_of(block.get("content"))) > limit


def _shortened(block: ContentBlock, limit: int) -> ContentBlock:
    return {**block, "content": _cut(text_of(block.get("content")), limit)}


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _text(words: str) -> ContentBlock:
    return {"type": "text", "text": words}
