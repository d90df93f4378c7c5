"""What is said about a trace event in every backend: names, metadata, tags, error texts, plain values."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from lattice.tracer import ContextTraceEvent, Source

__all__ = [
    "call_inputs",
    "error_text",
    "event_facts",
    "metadata_of",
    "plain",
    "run_metadata",
    "run_name",
    "tags_of",
    "token_counts",
    "when",
]

NO_REASON = "The run ended with an error"


def run_name(source: Source) -> str:
    """Return what a run is called: the agent, the member, the team, or the kind."""
    for key in ("name", "member", "team", "kind"):
        if source.get(key):
            return str(source[key])
    return "run"


def metadata_of(event: ContextTraceEvent, host: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a run, a model call or a tool call; ours win over the host's, None is left out."""
    source = event.source
    facts = {
        "sdk_trace_version": event.version,
        "sdk_trace_seq": event.seq,
        "sdk_session_id": event.session_id,
        "sdk_run_id": event.run_id,
        "sdk_parent_run_id": event.parent_run_id,
        **{f"sdk_source_{key}": source.get(key) for key in ("kind", "name", "team", "member", "mailbox")},
        **own,
    }
    return {**(host or {}), **{key: value for key, value in facts.items() if value is not None}}


def run_metadata(event: ContextTraceEvent) -> dict[str, Any]:
    """Return what only a run has; nothing if its start was not seen."""
    if event.type != "run_start":
        return {}
    return {key: event.data.get(key) for key in ("model", "tools", "agent_session_id", "runtime", "team")}


def event_facts(event: ContextTraceEvent) -> dict[str, Any]:
    """Return an auxiliary event as plain values."""
    return {**metadata_of(event, None, {}), "source": event.source, "data": plain(event.data)}


def tags_of(source: Source, own: Iterable[str], host: Iterable[str]) -> list[str]:
    """Return the tags of a span, each once."""
    where = [f"{key}:{source[key]}" for key in ("team", "member", "mailbox") if source.get(key)]
    tags = ["agent-lattice", "context-trace", f"source:{source.get('kind')}", *own, *host, *where]
    return list(dict.fromkeys(tags))


def call_inputs(event: ContextTraceEvent) -> dict[str, Any]:
    """Return the inputs of a model call, the system prompt as its first message."""
    inputs: dict[str, Any] = plain(event.data)
    messages = inputs.get("messages")
    system = inputs.get("systemPrompt")
    if isinstance(system, str) and system.strip() and isinstance(messages, list):
        first = messages[0] if messages else {}
        if not (isinstance(first, dict) and first.get("role") == "system"):
            inputs["messages"] = [{"role": "system", "content": system}, *messages]
    return inputs


def error_text(data: Mapping[str, Any]) -> str:
    """Return why something failed, from what there is."""
    error = data.get("error")
    message = error.get("message") if isinstance(error, Mapping) else getattr(error, "message", None) or error
    for text in (message, data.get("result"), data.get("content")):
        if text and isinstance(text, (str, BaseException)):
            return str(text)
    return NO_REASON


def token_counts(message: Any) -> dict[str, int] | None:
    """Return the usage of an assistant message, or None if it has none."""
    usage = message.get("usage") if isinstance(message, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    return {key: value for key, value in usage.items() if isinstance(value, int)}


def when(event: ContextTraceEvent) -> datetime:
    """Return the time of an event."""
    return datetime.fromisoformat(event.timestamp)


def plain(value: Any) -> Any:
    """Copy a value into dicts, lists and scalars; errors become ``{name, message}``, what has no JSON form a text."""
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = list.__iter__(value) if isinstance(value, list) else iter(value)
        return [plain(item) for item in items]
    if isinstance(value, BaseException):
        return {"name": type(value).__name__, "message": str(value)}
    convert = getattr(value, "to_dict", None) or getattr(value, "model_dump", None)
    return plain(convert()) if callable(convert) else str(value)
