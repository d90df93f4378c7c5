"""Reads the limits of a team's runs."""

from collections.abc import Mapping
from typing import Any

from lattice.errors import OptionError

__all__ = ["read_depth", "read_limit", "read_runner_options"]

DEFAULT_DEPTH = 8


def read_runner_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of a team's runner, checked.

    Raises:
        OptionError: one is unknown or cannot be used.
    """
    given = dict(options or {})
    known = ("max_concurrent_work_items", "max_delegate_depth")
    for key in given:
        if key not in known:
            raise OptionError(f'TeamRunnerOptions: unknown option "{key}"; known are {", ".join(known)}')
    read_limit(given.get("max_concurrent_work_items"))
    read_depth(given.get("max_delegate_depth"))
    return given


def read_depth(value: Any) -> int:
    """Return how deep delegation may go.

    Raises:
        OptionError: it is not an integer of at least 0.
    """
    if value is None:
        return DEFAULT_DEPTH
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(f"TeamRunnerOptions.max_delegate_depth must be an integer >= 0, not {value!r}")
    return value


def read_limit(value: Any) -> int | None:
    """Return how many work items may be worked on at once; None if nothing is said.

    Raises:
        OptionError: it is not a positive integer.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise OptionError(f"TeamRunnerOptions.max_concurrent_work_items must be a positive integer, not {value!r}")
    return value
