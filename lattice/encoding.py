"""JSON on the wire, and text that no provider and no store chokes on."""

import re
from datetime import UTC, datetime
from typing import Any

import orjson

__all__ = ["clean_text", "clean_value", "compact_json", "decode", "encode", "pretty_json", "timestamp"]

# C0 controls other than tab, LF, CR; DEL; lone surrogates. A provider answers 400 to the last for ever.
_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replace lone surrogates and control characters (but tab, LF, CR) by U+FFFD; surrogate pairs are joined."""
    if text.isascii() and text.isprintable():
        return text
    if _BAD.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _BAD.sub("�", joined)


def clean_value(value: Any) -> Any:
    """Clean every text inside plain dicts, lists and strings; other values are passed through.

    What is clean already is returned as it is, not copied.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        cleaned = {clean_text(k) if isinstance(k, str) else k: clean_value(v) for k, v in value.items()}
        same = all(value.get(k) is v for k, v in cleaned.items())
        return value if same and len(cleaned) == len(value) else cleaned
    if isinstance(value, (list, tuple)):
        items = [clean_value(v) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _fallback(value: Any) -> Any:
    for method in ("to_dict", "model_dump"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    if isinstance(value, BaseException):
        return {"name": type(value).__name__, "message": str(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def encode(value: Any) -> bytes:
    """Encode as compact JSON; errors become ``{name, message}``, objects their ``to_dict()``.

    Raises:
        TypeError: something inside has no JSON form.
    """
    try:
        return orjson.dumps(value, default=_fallback, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as error:
        try:
            return orjson.dumps(clean_value(value), default=_fallback, option=orjson.OPT_NON_STR_KEYS)
        except (orjson.JSONEncodeError, RecursionError):
            raise TypeError(str(error)) from error


def decode(data: bytes | str) -> Any:
    """Decode JSON.

    Raises:
        ValueError: it is not JSON.
    """
    return orjson.loads(data)


def compact_json(value: Any) -> str:
    """JSON as models read it: no spaces, non-ASCII as it is."""
    return encode(value).decode()


def pretty_json(value: Any) -> str:
    """JSON indented by two, non-ASCII as it is."""
    return orjson.dumps(
        clean_value(value), default=_fallback, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    ).decode()


def timestamp(at: datetime | None = None) -> str:
    """ISO 8601 in UTC with milliseconds and ``Z``."""
    at = at or datetime.now(UTC)
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
