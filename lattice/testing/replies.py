"""What the local Messages API server answers: messages, and the faults that real providers have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lattice.errors import OptionError
from lattice.testing.model import turn

__all__ = ["Reply", "as_reply", "dropped", "early_end", "http_error", "raw_stream", "reply", "stream_error"]

Fault = Literal["error", "end", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the server; made by ``reply()`` and its siblings.

    ``delay`` is the time in seconds before the first byte (``math.inf`` for never), ``pause`` the time between two
    events of a stream. ``fault`` happens after ``after`` deltas, or before any byte of the answer if ``after`` is None.
    """

    content: Sequence[dict[str, Any]] = ()
    usage: Mapping[str, int] | None = None
    stop_reason: str = "end_turn"
    model: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    events: Sequence[Any] | None = None
    delay: float = 0.0
    pause: float = 0.0
    fault: Fault | None = None
    after: int | None = None
    error: Mapping[str, Any] = field(default_factory=dict)


def reply(
    *blocks: Any,
    usage: Mapping[str, int] | None = None,
    stop_reason: str | None = None,
    model: str | None = None,
    delay: float = 0.0,
    pause: float = 0.0,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Answer with a message of these blocks; a bare text counts as a text block.

    Args:
        blocks: texts and blocks in order, of any type.
        usage: token counts; without them the server counts for itself, its prompt cache included.
        stop_reason: ``tool_use`` if there is a call, else ``end_turn``, if None.
        model: the model that is said to have answered; the requested one if None.
        delay: seconds before the first byte.
        pause: seconds between two events of a stream.
        headers: more headers of the response.
    """
    message = turn(*blocks, stop_reason=stop_reason)
    return Reply(
        content=message["content"],
        usage=usage,
        stop_reason=message["stopReason"],
        model=model,
        delay=delay,
        pause=pause,
        headers=headers or {},
    )


def http_error(
    status: int,
    error_type: str = "api_error",
    message: str = "the server was told to fail",
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> Reply:
    """Answer with an HTTP error; ``headers`` may hold ``retry-after``, ``body`` stands for the whole error object."""
    error = {"type": "error", "error": {"type": error_type, "message": message}}
    return Reply(status=status, headers=headers or {}, body=error if body is None else body)


def stream_error(
    *blocks: Any, after: int = 0, error_type: str = "overloaded_error", message: str = "Overloaded"
) -> Reply:
    """Begin to stream these blocks with status 200 and send an error event after so many deltas."""
    content = turn(*blocks)["content"]
    return Reply(content=content, fault="error", after=after, error={"type": error_type, "message": message})


def early_end(*blocks: Any, after: int = 0) -> Reply:
    """Begin to stream these blocks and end the response, as if it were complete, after so many deltas."""
    return Reply(content=turn(*blocks)["content"], fault="end", after=after)


def dropped(*blocks: Any, after: int | None = None) -> Reply:
    """Reset the connection after so many deltas, or before any byte of the answer."""
    return Reply(content=turn(*blocks)["content"] if blocks else (), fault="drop", after=after)


def raw_stream(*events: Any) -> Reply:
    """Stream exactly these events: dicts, or bytes that go out as they are."""
    return Reply(events=events)


def as_reply(entry: Any) -> Reply:
    """Read an entry of a script: a reply, a text, a block, a list of blocks, or a message made by ``turn()``.

    Raises:
        OptionError: it is none of these.
    """
    if isinstance(entry, Reply):
        return entry
    if isinstance(entry, str) or (isinstance(entry, dict) and "type" in entry):
        return reply(entry)
    if isinstance(entry, (list, tuple)):
        return reply(*entry)
    if isinstance(entry, dict) and "content" in entry:
        content = entry["content"]
        blocks = [content] if isinstance(content, str) else content
        return reply(*blocks, usage=entry.get("usage"), stop_reason=entry.get("stopReason"), model=entry.get("model"))
    raise OptionError(f"MessagesApiServer: a reply must be a text, blocks, a message or a Reply, not {entry!r:.200}")
