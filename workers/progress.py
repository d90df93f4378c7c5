"""One line for each thing that a run's events say a person would want to know."""

from collections.abc import Iterator, Mapping
from typing import Any

from lattice.encoding import compact_json
from lattice.run_store import EVENTS_DROPPED
from workers.tables import one_line

__all__ = ["describe"]

_SUBTYPES = {"sent": "gets", "claimed": "starts", "done": "is done with", "failed": "failed at", "cancelled": "dropped"}


def describe(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield ``(who, what)`` for an event in wire form; nothing for what only programs need."""
    kind = event.get("type")
    if kind == "team_message":
        yield from _about_message(event)
    elif kind == "agent_message":
        yield from _about_turn(_name(event), event.get("message") or {})
    elif kind == "assistant":
        yield from _about_turn("lead", event)
    elif kind == EVENTS_DROPPED:
        yield "run", f"{event['dropped']:,} events are not kept any more; raise max_events to keep more"


def _name(event: Mapping[str, Any]) -> str:
    source = event.get("source") or {}
    return str(source.get("member") or source.get("name") or "lead") if source.get("kind") != "root" else "lead"


def _about_message(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    word = _SUBTYPES.get(str(event.get("subtype")))
    message = event.get("message") or {}
    if word is None:
        return
    error = event.get("error") or {}
    why = f" ({error.get('code') or error.get('name')}: {error.get('message')})" if error else ""
    member = str(message.get("to", "")).rpartition("::")[2]
    yield member, one_line(f"{word} {_task(message.get('content', ''))}{why}")


def _task(content: Any) -> str:
    """The task itself, without the envelope around it."""
    return str(content).partition("--- delegated task ---")[2].strip() or str(content)


def _about_turn(who: str, message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if message.get("type") != "assistant":
        return
    body = message.get("message") or {}
    content = body.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_use":
            yield who, one_line(f"{block.get('name')} {compact_json(block.get('input') or {})}")
        elif block.get("type") == "text" and block.get("text", "").strip():
            yield who, one_line(block["text"])
