"""Contract: the client that an agent asks for the next assistant message."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from lattice.abort import AbortSignal

__all__ = ["ModelClient", "ModelRequest", "ProviderGate", "provider_gate"]


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


class ProviderGate(Protocol):
    """What processes that share a provider's key keep in common: until when no request may go there.

    ``provider`` tells endpoints and keys apart; it is a digest, from which no key can be read.
    """

    async def hold_off(self, provider: str, seconds: float) -> None:
        """Let nobody's request start for so long: the provider has just asked for it."""
        ...

    async def admission(self, provider: str) -> None:
        """Return when a request may start; those that waited are let in one by one, not all at once."""
        ...


provider_gate: ContextVar[ProviderGate | None] = ContextVar("lattice_provider_gate", default=None)
"""The gate that model clients of this process ask before each request; None where nobody else shares the key."""
