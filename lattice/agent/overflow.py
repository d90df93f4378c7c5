"""Tells whether a model request failed because the conversation no longer fits the context window."""

import re
from typing import Any

__all__ = ["OVERFLOW_STOP", "is_overflow"]

OVERFLOW_STOP = "model_context_window_exceeded"
"""The stop reason of a response that ran out of window."""

_CODES = frozenset({"request_too_large", "context_length_exceeded", OVERFLOW_STOP})
_PHRASES = re.compile(
    r"prompt is too long|request_too_large|context_length_exceeded|maximum context length|too many (?:input )?tokens"
    r"|(?:exceed|over|beyond|larger|longer|long for|fit|full|limit)[^.]{0,60}context window"
    r"|context window[^.]{0,60}(?:exceed|overflow|full|limit|too)"
)
_TOO_LARGE = 413
_BAD_REQUEST = frozenset({400, 422})


def is_overflow(error: BaseException | None) -> bool:
    """Whether an error says that the prompt was too long.

    A status or an error type decides where there is one: a rate limit that speaks of too many tokens is none. Only
    without a status, or with one that means a bad request, do the words count.
    """
    seen = 0
    words = []
    while error is not None and seen < 5:
        status = _status(error)
        if _code(error) in _CODES or status == _TOO_LARGE:
            return True
        if status is not None:
            return status in _BAD_REQUEST and _PHRASES.search(str(error).lower()) is not None
        words.append(str(error).lower())
        error = error.__cause__
        seen += 1
    return any(_PHRASES.search(text) for text in words)


def _status(error: Any) -> int | None:
    for name in ("status", "status_code"):
        value = getattr(error, name, None)
        if type(value) is int:
            return value
    return None


def _code(error: Any) -> str | None:
    value = getattr(error, "code", None)
    return value if isinstance(value, str) else None
