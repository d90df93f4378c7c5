"""Contract: which tool calls of the current batch have started and finished.

A process may die in the middle of a tool batch. Whoever continues the conversation asks the journal: a finished call is
answered by its kept result, a call that was under way by its tool's ``on_recovery`` policy, a call that never started
is simply run (design P4).
"""

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["JournalEntry", "MemoryJournal", "ToolJournal"]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What is known of one tool call; ``result`` is its ``tool_result`` block once it has finished."""

    tool_use_id: str
    result: dict[str, Any] | None = None
    end_turn: bool = False
    structured_result: Any = None


class ToolJournal(Protocol):
    """Records the calls of one batch; emptied when the batch's results stand in the conversation."""

    async def load(self) -> dict[str, JournalEntry]:
        """Return the entries of the unfinished batch, by ``tool_use_id``."""
        ...

    async def started(self, tool_use_id: str) -> None:
        """Record that the handler is about to run; when this returns the record is durable."""
        ...

    async def starting(self, tool_use_id: str) -> None:
        """Hear that a handler is about to run, in the step of the event loop that calls it; raise to stop it."""
        ...

    async def finished(self, entry: JournalEntry) -> None:
        """Record the result of a call."""
        ...

    async def clear(self) -> None:
        """Forget the batch: its results stand in the conversation."""
        ...


class MemoryJournal:
    """The journal of an agent that lives and dies with its process."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, JournalEntry] = {}

    async def load(self) -> dict[str, JournalEntry]:
        """Return the entries of the unfinished batch."""
        return dict(self._entries)

    async def started(self, tool_use_id: str) -> None:
        """Record a start."""
        self._entries[tool_use_id] = JournalEntry(tool_use_id)

    async def starting(self, tool_use_id: str) -> None:
        """Let it run."""

    async def finished(self, entry: JournalEntry) -> None:
        """Record a result."""
        self._entries[entry.tool_use_id] = entry

    async def clear(self) -> None:
        """Forget the batch."""
        self._entries.clear()
