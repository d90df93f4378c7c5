"""Contract: where the trace events of agents and teams go."""

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["ContextTraceEvent", "ContextTracer", "Source"]

Source = dict[str, Any]
"""Who an event is about: ``{"kind": "agent"|"team_member"|"root", "name"?, "team"?, "member"?, "mailbox"?}``."""


@dataclass(frozen=True, slots=True)
class ContextTraceEvent:
    """One row of a trace, in the documented envelope.

    ``type`` is one of run_start, user_message, model_request, assistant_message, tool_use, tool_result, compaction,
    team_message, retry, error, result.
    """

    version: int
    timestamp: str
    seq: int
    session_id: str
    run_id: str
    source: Source
    type: str
    data: dict[str, Any]
    parent_run_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; ``parent_run_id`` is absent at a root."""
        row: dict[str, Any] = {
            "version": self.version,
            "timestamp": self.timestamp,
            "seq": self.seq,
            "session_id": self.session_id,
            "run_id": self.run_id,
        }
        if self.parent_run_id is not None:
            row["parent_run_id"] = self.parent_run_id
        row["source"] = self.source
        row["type"] = self.type
        row["data"] = self.data
        return row


class ContextTracer(Protocol):
    """A sink for trace events; ``flush()`` and ``close()`` are optional, all may be ``def`` or ``async def``."""

    def on_event(self, event: ContextTraceEvent) -> Any:
        """Take one event."""
        ...
