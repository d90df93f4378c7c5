"""Contract: where a conversation is kept."""

from typing import Any, Protocol

__all__ = ["HistoryStore"]


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
