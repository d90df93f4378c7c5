"""From the result of an MCP tool call to what a tool handler returns."""

from typing import Any

from lattice.encoding import compact_json, decode
from lattice.errors import ToolExecutionError

__all__ = ["as_plain", "read_result"]

_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def read_result(result: Any) -> str | list[dict[str, Any]]:
    """Return the content of a result: a text, or content blocks if there are images.

    Raises:
        ToolExecutionError: the server says that the call failed.
    """
    plain = as_plain(result)
    if not isinstance(plain, dict):
        plain = {"content": [{"type": "text", "text": plain if isinstance(plain, str) else compact_json(plain)}]}
    blocks = [_block(as_plain(block)) for block in plain.get("content") or ()]
    structured = plain.get("structuredContent", plain.get("structured_content"))
    if structured is not None and not _said_already(structured, blocks):
        blocks.append({"type": "text", "text": compact_json(structured)})
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    if plain.get("isError", plain.get("is_error")) is True:
        raise ToolExecutionError(text or "the server says that the call failed, and not why")
    return blocks if any(block["type"] == "image" for block in blocks) else text


def as_plain(value: Any) -> Any:
    """Turn a model of the official SDK into plain dicts in wire spelling; what is plain already stays as it is."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else value


def _block(block: Any) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "image":
        return _binary("image", block.get("mimeType") or block.get("mime_type"), block.get("data"))
    if kind == "audio":
        return _binary("audio", block.get("mimeType") or block.get("mime_type"), block.get("data"))
    if kind == "resource" and isinstance(block.get("resource"), dict) and "blob" in block["resource"]:
        resource = block["resource"]
        return _binary(str(resource.get("uri")), resource.get("mimeType"), resource["blob"])
    return {"type": "text", "text": compact_json(block)}


def _binary(what: str, media_type: Any, data: Any) -> dict[str, Any]:
    if media_type in _IMAGE_TYPES and isinstance(data, str):
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    size = len(data) * 3 // 4 if isinstance(data, str) else 0
    return {"type": "text", "text": f"[{what}: {media_type}, about {size} bytes, cannot be shown]"}


def _said_already(structured: Any, blocks: list[dict[str, Any]]) -> bool:
    # Servers are asked to put the same JSON into a text block, for clients that know no structured content.
    for block in blocks:
        if block["type"] == "text" and block["text"][:1] in {"{", "["}:
            try:
                if decode(block["text"]) == structured:
                    return True
            except ValueError:
                continue
    return False
