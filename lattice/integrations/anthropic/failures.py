"""What a failed request means: an ``APIError`` that says whether the same request may succeed later."""

import email.utils
import time
from collections.abc import Mapping
from typing import Any

from lattice.encoding import compact_json
from lattice.errors import APIError

__all__ = ["error_answer", "retry_after_seconds", "status_failure", "transport_failure", "unexpected_answer"]

_RETRYABLE_STATUS = frozenset({408, 409, 429})
_RETRYABLE_CODES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
_WAYS_OUT = {
    401: "Check the API key of {url}.",
    404: 'Check the model "{model}" and the base URL {url}.',
}


def status_failure(error: Any, *, url: str, model: str) -> APIError:
    """Read the SDK's error for an HTTP error status, or for an error event inside a stream."""
    status: int = error.status_code
    body = error.body
    code = _code(body)
    headers = error.response.headers
    text = body if isinstance(body, str) else compact_json(body)
    way_out = _WAYS_OUT.get(status)
    message = f"{status} {text}"
    if status < 400:
        message = f"The stream broke off with an error: {text}"
    elif way_out is not None:
        message = f"{message} {way_out.format(url=url, model=model)}"
    return APIError(
        message,
        cause=error,
        status=status,
        code=code,
        request_id=getattr(error, "request_id", None) or headers.get("request-id"),
        retryable=_retryable(status, code, headers),
        retry_after=retry_after_seconds(headers),
    )


def error_answer(body: dict[str, Any]) -> APIError:
    """Read an error that came with the status of a success."""
    code = _code(body)
    message = f"The provider answered with an error: {compact_json(body)}"
    return APIError(message, status=200, code=code, retryable=code in _RETRYABLE_CODES)


def transport_failure(error: BaseException, *, url: str) -> APIError:
    """Read an error of the connection: nobody there, reset, timed out, or not the protocol."""
    cause = error.__cause__ or error
    detail = str(cause) or type(cause).__name__
    timed_out = "timeout" in type(error).__name__.lower() or "timeout" in type(cause).__name__.lower()
    code = "timeout" if timed_out else "connection_error"
    return APIError(f"The connection to {url} failed: {detail}", cause=error, code=code, retryable=True)


def unexpected_answer(answer: Any, *, url: str) -> APIError:
    """Say that the answer is no message; the usual reason is a base URL that belongs to something else."""
    text = answer if isinstance(answer, str) else repr(answer)
    return APIError(
        f"The answer of {url} is not a message of the Messages API: {text:.200}. Check the base URL.",
        code="unexpected_response",
    )


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider asked to wait, or None; never negative."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(float(headers[name]) / unit, 0.0)
        except (KeyError, ValueError):
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(email.utils.mktime_tz(date) - time.time(), 0.0)


def _code(body: Any) -> str | None:
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("type") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


def _retryable(status: int, code: str | None, headers: Mapping[str, str]) -> bool:
    told = headers.get("x-should-retry")
    if told in {"true", "false"}:
        return told == "true"
    if status < 400:
        return code in _RETRYABLE_CODES
    return status in _RETRYABLE_STATUS or status >= 500
