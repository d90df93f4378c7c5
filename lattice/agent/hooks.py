"""Hooks: the host's say in what a tool result and a model request look like."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lattice.abort import AbortSignal
from lattice.agent.checks import check_known
from lattice.agent.shared import SharedMessages
from lattice.errors import OptionError
from lattice.history import member
from lattice.tools.callbacks import settled

__all__ = [
    "AgentHooks",
    "ModelRequestHookContext",
    "ModelRequestHookResult",
    "create_composite_agent_hooks",
    "read_hooks",
    "shape_request",
]

_SPELLINGS = {
    "on_tool_result": "on_tool_result",
    "onToolResult": "on_tool_result",
    "on_model_request": "on_model_request",
    "onModelRequest": "on_model_request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """Two callbacks, ``def`` or ``async def``; each takes one context and returns a replacement, or None.

    ``on_tool_result(context)`` may return another ``tool_result`` block; ``on_model_request(context)`` a
    ``ModelRequestHookResult`` or a dict with ``messages``, ``system_prompt`` or both. What they raise leaves the query.
    """

    on_tool_result: Callable[..., Any] | None = None
    on_model_request: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestHookContext:
    """What is about to be sent; ``turn`` counts from 1 in each query, ``system_prompt`` is None if there is none.

    ``messages`` are the hook's own to edit, but only what it returns is sent. ``purpose`` is ``"turn"``, or
    ``"compaction"`` for the request of a summary.
    """

    messages: list[dict[str, Any]]
    system_prompt: str | None
    turn: int
    context: Any = None
    source: dict[str, Any] | None = None
    signal: AbortSignal | None = None
    purpose: str = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestHookResult:
    """What to send instead, for this one request; None keeps it, an empty ``system_prompt`` takes it out."""

    messages: list[dict[str, Any]] | None = None
    system_prompt: str | None = None


def read_hooks(value: Any) -> AgentHooks:
    """Return the hooks that an option stands for: ``AgentHooks``, a dict, or any object with one of the two methods.

    Raises:
        OptionError: it is none of these.
    """
    if value is None:
        return AgentHooks()
    if isinstance(value, AgentHooks):
        return value
    if isinstance(value, Mapping):
        check_known("AgentOptions.hooks", value, _SPELLINGS)
        found = {_SPELLINGS[name]: hook for name, hook in value.items() if hook is not None}
    else:
        found = {name: hook for spelling, name in _SPELLINGS.items() if (hook := getattr(value, spelling, None))}
        if not found:
            raise OptionError(f"AgentOptions.hooks must offer on_tool_result or on_model_request, not {value!r}")
    for name, hook in found.items():
        if not callable(hook):
            raise OptionError(f"AgentOptions.hooks.{name} must be callable, not {hook!r}")
    return AgentHooks(**found)


def create_composite_agent_hooks(hooks: Iterable[Any]) -> AgentHooks:
    """Chain several hooks: each sees what the one before it returned. None entries are skipped.

    Raises:
        OptionError: an entry is no hooks.
    """
    chain = [read_hooks(entry) for entry in hooks if entry is not None]

    async def on_tool_result(context: Any) -> Any:
        for entry in chain:
            if entry.on_tool_result is not None:
                replaced = await settled(entry.on_tool_result(context))
                context = replace(context, result=replaced) if replaced else context
        return context.result

    async def on_model_request(context: ModelRequestHookContext) -> ModelRequestHookResult:
        prompt: str | None = None
        for entry in chain:
            if entry.on_model_request is None:
                continue
            seen = replace(context, messages=SharedMessages(context.messages))
            messages, changed = _read_result(await settled(entry.on_model_request(seen)))
            if messages is not None:
                context = replace(context, messages=messages)
            if changed is not None:
                prompt = changed
                context = replace(context, system_prompt=changed or None)
        return ModelRequestHookResult(messages=context.messages, system_prompt=prompt)

    return AgentHooks(on_tool_result=on_tool_result, on_model_request=on_model_request)


async def shape_request(
    hook: Callable[..., Any], context: ModelRequestHookContext
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Ask a hook; returns the messages and the system prompt to send instead, None where nothing changes."""
    return _read_result(await settled(hook(context)))


def _read_result(returned: Any) -> tuple[list[dict[str, Any]] | None, str | None]:
    if returned is None:
        return None, None
    if not isinstance(returned, (Mapping, ModelRequestHookResult)):
        raise TypeError(
            f"on_model_request must return a dict with messages or system_prompt, or None, not {returned!r}"
        )
    if isinstance(returned, Mapping):
        check_known("on_model_request result", returned, ("messages", "system_prompt", "systemPrompt"))
        returned = dict(returned)
    messages = member(returned, "messages")
    if messages is not None and not isinstance(messages, list):
        messages = list(messages)
    return messages, member(returned, "system_prompt", "systemPrompt")
