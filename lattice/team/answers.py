"""Reads what an agent answered, whoever the agent is: our own result, or a host's object or dict."""

from typing import Any

from lattice.errors import AbortError, LatticeError
from lattice.tools.tool import UNSET

__all__ = ["Answer", "event_type", "read_answer"]

_CAMEL = {"is_error": "isError", "structured_result": "structuredResult"}


def read_field(value: Any, name: str, default: Any = None) -> Any:
    """Return a field of an object or dict, in either spelling."""
    if isinstance(value, dict):
        return value.get(name, value.get(_CAMEL.get(name, name), default))
    return getattr(value, name, default)


def event_type(event: Any) -> Any:
    """Return the ``type`` of an event, object or dict."""
    return event.get("type") if isinstance(event, dict) else getattr(event, "type", None)


class Answer:
    """The result of one query, as the runtime reads it."""

    __slots__ = (
        "error",
        "event",
        "is_error",
        "num_turns",
        "paused",
        "structured_result",
        "subtype",
        "text",
        "total_usage",
        "usage",
    )

    def __init__(self, event: Any) -> None:
        self.event = event
        self.subtype = str(read_field(event, "subtype") or "success")
        self.is_error = bool(read_field(event, "is_error"))
        text = read_field(event, "result")
        self.text = text if isinstance(text, str) else "" if text is None else str(text)
        self.error = read_field(event, "error")
        self.paused = bool(read_field(event, "paused"))
        self.num_turns = int(read_field(event, "num_turns") or 0)
        self.usage: dict[str, int] | None = read_field(event, "usage")
        self.total_usage: dict[str, int] | None = read_field(event, "total_usage")
        self.structured_result = _structured(event)

    @property
    def aborted(self) -> bool:
        """Whether it ended by an abort."""
        return self.subtype == "error_abort" or isinstance(self.error, AbortError)


def _structured(event: Any) -> Any:
    value = read_field(event, "structured_result", UNSET)
    if value is None and not read_field(event, "has_structured_result", isinstance(event, dict)):
        return UNSET
    return value


def read_answer(event: Any, name: str) -> Answer:
    """Return what a query's last event says.

    Raises:
        LatticeError: the query ended without a result.
    """
    if event is None:
        raise LatticeError(f"{name}: the query completed without a result message")
    return Answer(event)
