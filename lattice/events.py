"""What an agent or a team tells while it works: typed events with a wire form."""

import functools
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

from lattice import errors
from lattice.errors import APIError, LatticeError, OptionError

__all__ = [
    "AgentLikeEvent",
    "AgentMessageEvent",
    "SDKAssistantMessage",
    "SDKMessage",
    "SDKResultMessage",
    "SDKStreamEvent",
    "SDKSystemCompactionMessage",
    "SDKSystemInitMessage",
    "SDKUserMessage",
    "TeamAgentEvent",
    "TeamMessageEvent",
    "error_from_dict",
    "error_to_dict",
    "event_from_dict",
]

_API_FIELDS = ("status", "code", "request_id", "retryable", "retry_after")


def error_to_dict(error: BaseException) -> dict[str, Any]:
    """Return the wire form of an error: name, message, and what a host needs to decide on a retry."""
    wire: dict[str, Any] = {"name": getattr(error, "name", None) or type(error).__name__, "message": str(error)}
    if isinstance(error, APIError):
        wire.update({name: value for name in _API_FIELDS if (value := getattr(error, name)) not in (None, False)})
    return wire


def error_from_dict(wire: dict[str, Any]) -> LatticeError:
    """Return an error of the class that the wire form names, or a ``LatticeError``."""
    kind = getattr(errors, str(wire.get("name")), None)
    message = str(wire.get("message", ""))
    if kind is APIError:
        return APIError(message, **{name: wire[name] for name in _API_FIELDS if name in wire})
    if isinstance(kind, type) and issubclass(kind, LatticeError) and kind.__init__ is LatticeError.__init__:
        return kind(message)
    return LatticeError(message)


class _Event:
    """What all events share: a wire form whose absent fields are absent."""

    __slots__ = ()
    type: ClassVar[str]
    _wire_names: ClassVar[dict[str, str]] = {}
    _not_on_wire: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form: JSON values only, in the documented spelling."""
        head, names = _wire_layout(type(self))  # type: ignore[arg-type]
        wire: dict[str, Any] = head.copy()
        for name, spelled in names:
            value = getattr(self, name)
            if value is not None:
                wire[spelled] = value if type(value) in _PLAIN else _on_wire(value)
        return wire


_PLAIN = frozenset({str, int, bool, dict, list, float})


@functools.cache
def _wire_layout(kind: type["_Event"]) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """Return what every wire form of a kind of event begins with, and its fields with their spelling."""
    head: dict[str, Any] = {"type": kind.type}
    subtype = getattr(kind, "subtype", None)
    if isinstance(subtype, str):
        head["subtype"] = subtype
    names = tuple(
        (field.name, kind._wire_names.get(field.name, field.name))  # noqa: SLF001 - its own kind
        for field in fields(kind)  # type: ignore[arg-type]
        if field.name not in kind._not_on_wire  # noqa: SLF001 - its own kind
    )
    return head, names


def _on_wire(value: Any) -> Any:
    if isinstance(value, BaseException):
        return error_to_dict(value)
    convert = getattr(value, "to_dict", None)
    if callable(convert):
        return convert()
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


@dataclass(frozen=True, slots=True)
class SDKSystemInitMessage(_Event):
    """A query has begun; ``tools`` are the names that the model may call."""

    model: str
    tools: list[str]
    session_id: str
    type: ClassVar[str] = "system"
    subtype: ClassVar[str] = "init"


@dataclass(frozen=True, slots=True)
class SDKSystemCompactionMessage(_Event):
    """Older messages were replaced by a summary; ``usage`` is what the summary cost."""

    session_id: str
    compacted_messages: int
    retained_messages: int
    trigger_input_tokens: int
    usage: dict[str, int]
    type: ClassVar[str] = "system"
    subtype: ClassVar[str] = "compaction"


@dataclass(frozen=True, slots=True)
class SDKStreamEvent(_Event):
    """A raw provider event while the model responds; ``source`` only for members of a team."""

    event: dict[str, Any]
    session_id: str
    source: dict[str, Any] | None = None
    type: ClassVar[str] = "stream_event"


@dataclass(frozen=True, slots=True)
class SDKAssistantMessage(_Event):
    """One complete response of the model."""

    message: dict[str, Any]
    session_id: str
    type: ClassVar[str] = "assistant"


@dataclass(frozen=True, slots=True)
class SDKUserMessage(_Event):
    """The results of one batch of tool calls.

    ``tool_use_result`` is the content of a single result, or all result blocks; ``error`` the first error, if any.
    """

    message: dict[str, Any]
    session_id: str
    tool_use_result: Any
    error: BaseException | None = None
    type: ClassVar[str] = "user"


@dataclass(frozen=True, slots=True)
class SDKResultMessage(_Event):
    """How a query ended; exactly one per query, and the last event.

    ``subtype`` is success, interrupted, error, error_max_turns, error_abort, error_timeout or error_missing_output.
    ``paused`` says that a team runtime took over after a batch; it is not on the wire. ``total_usage`` are the tokens
    of all members and rounds of a team, or of an agent and those that its tools asked; None where ``usage`` is all.
    """

    subtype: str
    is_error: bool
    result: str
    session_id: str
    num_turns: int
    usage: dict[str, int]
    error: BaseException | None = None
    stop_reason: str | None = None
    structured_result: Any = None
    paused: bool = False
    has_structured_result: bool = False
    total_usage: dict[str, int] | None = None
    type: ClassVar[str] = "result"
    _wire_names: ClassVar[dict[str, str]] = {"structured_result": "structuredResult"}
    _not_on_wire: ClassVar[frozenset[str]] = frozenset({"paused", "has_structured_result"})

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; a structured result of null is kept."""
        wire = _Event.to_dict(self)
        if self.has_structured_result and self.structured_result is None:
            wire["structuredResult"] = None
        return wire


@dataclass(frozen=True, slots=True)
class TeamMessageEvent(_Event):
    """A mailbox message moved: sent, claimed, replied, done, failed or cancelled."""

    subtype: str
    source: dict[str, Any]
    mailbox: str
    message: dict[str, Any]
    error: Any = None
    type: ClassVar[str] = "team_message"


@dataclass(frozen=True, slots=True)
class TeamAgentEvent(_Event):
    """A member started or finished."""

    subtype: str
    source: dict[str, Any]
    type: ClassVar[str] = "team_agent"


@dataclass(frozen=True, slots=True)
class AgentMessageEvent(_Event):
    """An event of another agent of the team; ``message`` is that event."""

    source: dict[str, Any]
    message: Any
    type: ClassVar[str] = "agent_message"


SDKMessage: TypeAlias = (
    SDKSystemInitMessage
    | SDKSystemCompactionMessage
    | SDKStreamEvent
    | SDKAssistantMessage
    | SDKUserMessage
    | SDKResultMessage
)
"""What ``Agent.query()`` yields."""

AgentLikeEvent: TypeAlias = SDKMessage | TeamMessageEvent | TeamAgentEvent | AgentMessageEvent
"""What anything that can be asked yields: an agent's events and a team's."""

_BY_TYPE: dict[str, type[Any]] = {
    "stream_event": SDKStreamEvent,
    "assistant": SDKAssistantMessage,
    "user": SDKUserMessage,
    "result": SDKResultMessage,
    "team_message": TeamMessageEvent,
    "team_agent": TeamAgentEvent,
    "agent_message": AgentMessageEvent,
}
_SYSTEM: dict[str, type[Any]] = {"init": SDKSystemInitMessage, "compaction": SDKSystemCompactionMessage}


def event_from_dict(wire: dict[str, Any]) -> AgentLikeEvent:
    """Return the event that a wire form describes; fields that this version does not know are left out.

    Raises:
        OptionError: the type is none of ours, or a field is missing.
    """
    kind = (
        _SYSTEM.get(str(wire.get("subtype"))) if wire.get("type") == "system" else _BY_TYPE.get(str(wire.get("type")))
    )
    if kind is None:
        raise OptionError(f"an event of type {wire.get('type')!r} (subtype {wire.get('subtype')!r}) is not known")
    values = dict(wire)
    if "structuredResult" in values:
        values["structured_result"] = values.pop("structuredResult")
        values["has_structured_result"] = True
    if isinstance(values.get("error"), dict) and kind is not TeamMessageEvent:
        values["error"] = error_from_dict(values["error"])
    if kind is AgentMessageEvent and isinstance(values.get("message"), dict):
        values["message"] = event_from_dict(values["message"])
    try:
        event: AgentLikeEvent = kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})
    except TypeError as error:
        raise OptionError(f"an event of type {wire.get('type')!r} lacks a field: {error}") from error
    return event
