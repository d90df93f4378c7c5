"""Contract: where a conversation is kept."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lattice.errors import OptionError

__all__ = ["DefinedHistoryStore", "HistoryStore", "define_history_store"]

_METHODS = ("load", "append", "replace")


class HistoryStore(Protocol):
    """Keeps the model messages of one conversation; methods may be ``def`` or ``async def``.

    ``load`` is called once before an agent's first query; ``append`` follows every message that is added, ``replace``
    follows compaction, which rewrites the conversation as a whole. Messages are plain dicts in wire form.
    """

    def load(self) -> Any:
        """Return the messages kept so far, oldest first."""
        ...

    def append(self, message: dict[str, Any]) -> Any:
        """Keep one more message."""
        ...

    def replace(self, messages: list[dict[str, Any]]) -> Any:
        """Keep exactly these messages from now on."""
        ...


class DefinedHistoryStore:
    """A store put together from three methods; made by ``define_history_store()``."""

    __slots__ = ("_strict", "append", "load", "replace")

    def __init__(self, methods: Mapping[str, Callable[..., Any]], *, strict: bool) -> None:
        self.load = methods["load"]
        self.append = methods["append"]
        self.replace = methods["replace"]
        self._strict = strict


def define_history_store(
    implementation: Any = None, /, *, fail_on_error: bool | None = None, **methods: Callable[..., Any]
) -> DefinedHistoryStore:
    """Make a history store of an object (or dict) with ``load``, ``append`` and ``replace``, or of the three functions.

    Args:
        implementation: an object or a dict; an object's methods stay bound to it.
        fail_on_error: whether an error of the store leaves ``query()``; by default the conversation goes on in memory.
        methods: the three functions by name, where there is no object.

    Raises:
        OptionError: a method is missing or unknown.
    """
    unknown = sorted(set(methods) - set(_METHODS))
    if unknown:
        raise OptionError(f'define_history_store: unknown option "{unknown[0]}"; known are {", ".join(_METHODS)}')
    found = {}
    for name in _METHODS:
        method = methods.get(name) or member(implementation, name)
        if not callable(method):
            raise OptionError(f"define_history_store requires a {name}() method")
        found[name] = method
    if fail_on_error is None:
        fail_on_error = bool(member(implementation, "fail_on_error", "failOnError"))
    return DefinedHistoryStore(found, strict=fail_on_error)


def member(holder: Any, *names: str) -> Any:
    """Return the first of the named attributes (or keys, of a dict) that is there, or None."""
    for name in names:
        value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if value is not None:
            return value
    return None
