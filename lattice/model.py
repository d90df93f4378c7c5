"""Contract: the client that an agent asks for the next assistant message."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lattice.abort import AbortSignal

__all__ = ["ModelClient", "ModelRequest"]


@dataclass(slots=True, kw_only=True)
class ModelRequest:
    """One model request; ``messages`` and ``tools`` are plain dicts in wire form.

    ``signal`` fires when the caller aborts or interrupts, and when the request deadline has passed;
    ``on_stream_event`` takes each raw provider event (plain dict) while the model responds and is always there.
    """

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int
    system_prompt: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    stream: bool = True
    output_format: Any = None
    thinking_config: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    timeout_ms: int | None = None
    on_stream_event: Callable[[dict[str, Any]], None] = lambda _event: None
    on_retry: Callable[[dict[str, Any]], Awaitable[None] | None] = lambda _retry: None
    signal: AbortSignal = field(default_factory=AbortSignal)


class ModelClient(Protocol):
    """Anything that answers a request with one assistant message."""

    async def create_message(self, request: ModelRequest) -> dict[str, Any]:
        """Return ``{"role": "assistant", "content": [...]}``.

        Optional keys: ``usage``, ``stopReason``, ``providerResponseId``, ``model``.
        """
        ...
