"""When work is tried again: how often, how long it waits before, and after which failures."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lattice.errors import APIError, OptionError
from lattice.team.failures import failure_of

__all__ = ["DEFAULT_CODES", "NO_RETRY", "RetryPolicy", "read_retry", "retry_code"]

DEFAULT_CODES = ("request_timeout", "rate_limit", "overload", "connection_error")
"""Failures that pass by themselves."""

_NEVER = "permission_denied"
_BY_PROVIDER_CODE = {
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overload",
    "timeout_error": "request_timeout",
    "timeout": "request_timeout",
    "connection_error": "connection_error",
}
_BY_STATUS = {408: "request_timeout", 429: "rate_limit", 503: "overload", 504: "request_timeout", 529: "overload"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """``attempts`` are tries in all; delays are seconds, doubled from ``first_delay`` to ``longest_delay``, jittered.

    ``codes`` are failure codes: those of work items, and ``rate_limit``, ``overload`` and ``connection_error``, which
    tell provider errors apart.

    Raises:
        OptionError: a value cannot be used.
    """

    attempts: int = 3
    first_delay: float = 1.0
    longest_delay: float = 60.0
    codes: tuple[str, ...] = DEFAULT_CODES

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= 1000:
            raise OptionError(f"retry: attempts must be a whole number from 1 to 1000, not {self.attempts!r}")
        for name in ("first_delay", "longest_delay"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= 86_400:
                raise OptionError(f"retry: {name} must be seconds from 0 to 86400, not {value!r}")
        if not all(isinstance(code, str) for code in self.codes):
            raise OptionError(f"retry: codes must be failure codes, not {self.codes!r}")
        if _NEVER in self.codes:
            raise OptionError(f"retry: {_NEVER} is a decision, not a failure that passes; leave it out of codes")

    def delay(self, error: Any, retries: int) -> float | None:
        """Return the seconds to wait after a failure that followed ``retries`` others; None if it is final."""
        if retries + 1 >= self.attempts or retry_code(error) not in self.codes:
            return None
        longest = min(self.longest_delay, self.first_delay * 2.0 ** min(retries, 40))
        asked = getattr(error, "retry_after", None) or 0.0
        return float(max(asked, 0.0)) + longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


NO_RETRY = RetryPolicy(attempts=1)


def read_retry(value: Any, whose: str) -> RetryPolicy:
    """Return what a ``retry`` option stands for: a number of further tries, a dict of a policy's fields, or a policy.

    Raises:
        OptionError: it is none of these.
    """
    if value is None:
        return NO_RETRY
    if isinstance(value, RetryPolicy):
        return value
    if type(value) is int and value >= 0:
        return RetryPolicy(attempts=value + 1)
    if not isinstance(value, Mapping):
        raise OptionError(f"{whose}: retry must be an integer >= 0 or a dict of attempts, codes, ..., not {value!r}")
    known = RetryPolicy.__dataclass_fields__
    for name in value:
        if name not in known:
            raise OptionError(f'{whose}: unknown retry option "{name}"; known are {", ".join(known)}')
    codes = value.get("codes", DEFAULT_CODES)
    if isinstance(codes, str):
        raise OptionError(f"{whose}: retry codes must be a list of codes, not {codes!r}")
    return RetryPolicy(**{**value, "codes": tuple(codes)})


def retry_code(error: Any) -> str:
    """Return the code by which policies know a failure: finer than the one in its report where a provider failed."""
    if isinstance(error, APIError):
        known = _BY_STATUS.get(error.status or 0) or _BY_PROVIDER_CODE.get(error.code or "")
        if known is None and error.status is not None and error.status >= 500:
            known = "overload"
        if known is not None:
            return known
    return failure_of(error).code
