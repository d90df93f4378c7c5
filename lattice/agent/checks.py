"""Checks of option values: each error names the option, the value and what is allowed."""

from collections.abc import Iterable, Mapping
from typing import Any

from lattice.errors import OptionError

__all__ = ["check_choice", "check_known", "check_milliseconds", "check_positive", "given"]


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None: None means not given."""
    return {name: value for name, value in options.items() if value is not None}


def check_known(label: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse the first option that is not known.

    Raises:
        OptionError: there is one.
    """
    allowed = frozenset(known)
    for name in options:
        if name not in allowed:
            raise OptionError(
                f'{label}: unknown option "{name}". Check for a typo, or upgrade the SDK if this option was added in a'
                " newer version."
            )


def check_positive(label: str, value: Any) -> int:
    """Return a positive integer.

    Raises:
        OptionError: it is none.
    """
    if type(value) is not int or value < 1:
        raise OptionError(f"{label} must be a positive integer, not {value!r}")
    return value


def check_milliseconds(label: str, value: Any) -> int:
    """Return a positive integer number of milliseconds.

    Raises:
        OptionError: it is none.
    """
    if type(value) is not int or value < 1:
        raise OptionError(f"{label} must be a positive integer number of milliseconds, not {value!r}")
    return value


def check_choice(label: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        raise OptionError(f"{label} must be one of {words}, not {value!r}")
    return value
