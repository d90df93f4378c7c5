"""From what a handler returned to the content of a ``tool_result`` block that every provider accepts."""

import secrets
from pathlib import Path
from typing import Any

from lattice.encoding import clean_text, clean_value
from lattice.errors import ToolExecutionError
from lattice.tools.tool import UNSET, ToolResult

__all__ = ["NO_OUTPUT", "content_text", "limit_content", "normalise", "usable_content"]

NO_OUTPUT = "(no output)"
"""Stands where a tool said nothing: some providers refuse empty blocks, and for ever once one is stored."""

_KEYS = {
    "content": "content",
    "end_turn": "end_turn",
    "endTurn": "end_turn",
    "structured_result": "structured_result",
    "structuredResult": "structured_result",
}


def normalise(returned: Any) -> ToolResult:
    """Read what a handler returned: a text, a ``ToolResult``, a dict with its keys, a list of blocks, or None.

    Raises:
        ToolExecutionError: it is something else, or a dict with other keys.
    """
    if isinstance(returned, str):
        return ToolResult(usable_content(returned))
    if returned is None:
        return ToolResult(NO_OUTPUT)
    if isinstance(returned, dict):
        returned = _from_dict(returned)
    elif isinstance(returned, list):
        returned = ToolResult(returned)
    if not isinstance(returned, ToolResult):
        raise ToolExecutionError(
            f"the handler returned {type(returned).__name__}; return a text, a ToolResult or a dict with content"
        )
    return ToolResult(usable_content(returned.content), bool(returned.end_turn), returned.structured_result)


def usable_content(content: Any) -> Any:
    """Clean texts, drop empty text blocks, and never return nothing; other blocks are kept as they are.

    Raises:
        ToolExecutionError: the content is neither a text nor a list of content blocks.
    """
    if content is None:
        return NO_OUTPUT
    if isinstance(content, str):
        return clean_text(content) if content and not content.isspace() else NO_OUTPUT
    if not isinstance(content, (list, tuple)):
        raise ToolExecutionError(f"content must be a text or a list of content blocks, not {type(content).__name__}")
    blocks = [_usable_block(block) for block in content]
    kept = [block for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return kept or NO_OUTPUT


def content_text(content: Any) -> str:
    """Return the text of a content: the string, or its text blocks joined without a separator."""
    if content is NO_OUTPUT:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(block["text"] for block in content if isinstance(block, dict) and block.get("type") == "text")


def limit_content(content: Any, limit: int, overflow_dir: Path | None) -> Any:
    """Cut texts to ``limit`` characters in total, with a marker that says how much is missing and where it is."""
    if isinstance(content, str):
        return content if len(content) <= limit else _cut(content, limit, overflow_dir)
    texts = [block["text"] for block in content if block.get("type") == "text"]
    if sum(map(len, texts)) <= limit:
        return content
    whole = "".join(texts)
    others = [block for block in content if block.get("type") != "text"]
    return [{"type": "text", "text": _cut(whole, limit, overflow_dir)}, *others]


def _from_dict(returned: dict[str, Any]) -> ToolResult:
    known: dict[str, Any] = {}
    for key, value in returned.items():
        if key not in _KEYS:
            raise ToolExecutionError(
                f'the handler returned a dict with the unknown key "{key}"; known keys are content, end_turn and'
                " structured_result. Return json.dumps(...) to hand data to the model."
            )
        known[_KEYS[key]] = value
    if "content" not in known:
        raise ToolExecutionError("the handler returned a dict without content")
    return ToolResult(known["content"], bool(known.get("end_turn")), known.get("structured_result", UNSET))


def _usable_block(block: Any) -> dict[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": clean_text(block)}
    for method in ("to_dict", "model_dump"):
        convert = getattr(block, method, None)
        if callable(convert):
            block = convert()
            break
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        raise ToolExecutionError(f"a content block must be a dict with a type, not {block!r:.200}")
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        raise ToolExecutionError(f"a text block must have a text, not {block.get('text')!r:.200}")
    cleaned: dict[str, Any] = clean_value(block)
    return cleaned


def _cut(text: str, limit: int, overflow_dir: Path | None) -> str:
    where = _keep_whole(text, overflow_dir)
    head = limit * 4 // 5
    tail = limit - head
    missing = len(text) - limit
    note = f" The whole output is in {where}: read it in parts." if where else " Ask for less to see the rest."
    return f"{text[:head]}\n\n[... {missing} of {len(text)} characters left out.{note}]\n\n{text[len(text) - tail :]}"


def _keep_whole(text: str, overflow_dir: Path | None) -> Path | None:
    if overflow_dir is None:
        return None
    path = overflow_dir / f"tool-output-{secrets.token_hex(6)}.txt"
    try:
        overflow_dir.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        return None
    return path
