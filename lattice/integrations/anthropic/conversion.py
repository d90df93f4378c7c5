"""From a model request to the body of ``POST /v1/messages``, and back from a response to a message of ours.

Pure functions. A ``tool_use`` block whose input the model got wrong has the input ``{}`` and says so under the key
``_invalid_input`` (``NOT_JSON`` or ``NOT_AN_OBJECT``): it must be answered with an error and never run. The mark stays
in the history and is taken off before anything is sent.
"""

import json
from collections.abc import Iterable
from typing import Any

from lattice.errors import OptionError
from lattice.model import ModelRequest

__all__ = [
    "INVALID_INPUT",
    "NOT_AN_OBJECT",
    "NOT_JSON",
    "STRUCTURED_OUTPUTS_BETA",
    "merge_usage",
    "read_message",
    "read_tool_input",
    "to_body",
]

INVALID_INPUT = "_invalid_input"
"""Key of a ``tool_use`` block whose input could not be read; its value says why."""

NOT_JSON = "not valid JSON"
NOT_AN_OBJECT = "must be a JSON object"

STRUCTURED_OUTPUTS_BETA = "structured-outputs-2025-12-15"
"""The beta under which ``output_config`` is sent."""

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def to_body(request: ModelRequest) -> dict[str, Any]:
    """Return the body of the request, without cache breakpoints.

    Raises:
        OptionError: the thinking configuration is not one.
    """
    body: dict[str, Any] = {"model": request.model}
    if request.system_prompt:
        body["system"] = request.system_prompt
    body["max_tokens"] = request.max_tokens
    body["messages"] = to_messages(request.messages)
    body["tools"] = request.tools or []
    if request.output_format is not None:
        body["output_config"] = {"format": _output_format(request.output_format)}
    if request.thinking_config is not None:
        body["thinking"] = _thinking(request.thinking_config, request.max_tokens)
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    if request.stream:
        body["stream"] = True
    return body


def to_messages(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reduce messages to role and content; blocks that no provider takes are left out.

    What needs no change is shared with the history, not copied: the result is for reading only.
    """
    kept = []
    for message in list.__iter__(messages) if isinstance(messages, list) else messages:
        content = _content(message["content"])
        if content:
            kept.append({"role": message["role"], "content": content})
    return kept


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content if content.strip() else None
    blocks = [_block(block) for block in content]
    return [block for block in blocks if block is not None]


def _block(block: dict[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "text":
        return block if block["text"].strip() else None
    if kind == "tool_result":
        return _tool_result(block)
    if kind == "tool_use" and INVALID_INPUT in block:
        return {key: value for key, value in block.items() if key != INVALID_INPUT}
    return block


def _tool_result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    if isinstance(content, list):
        content = [part for part in content if part.get("type") != "text" or part["text"].strip()]
    if not content or (isinstance(content, str) and not content.strip()):
        content = "(no output)"
    reduced = {"type": "tool_result", "tool_use_id": block["tool_use_id"], "content": content}
    if block.get("is_error") is True:
        reduced["is_error"] = True
    return reduced


def _output_format(output_format: Any) -> Any:
    return {"type": "json_schema", "schema": {}} if output_format == "json" else output_format


def _thinking(config: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    kind = config.get("type")
    if kind in {"adaptive", "disabled"}:
        return {"type": kind}
    if kind != "enabled":
        raise OptionError(f'thinking_config: type must be "adaptive", "enabled" or "disabled", not {kind!r}')
    budget = config.get("budget_tokens", config.get("budgetTokens"))
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise OptionError(f"thinking_config: budget_tokens must be a positive integer, not {budget!r}")
    return {"type": "enabled", "budget_tokens": min(budget, max_tokens - 1)}


def read_message(response: dict[str, Any]) -> dict[str, Any]:
    """Turn a complete provider message into an assistant message of ours; every block is kept as it came."""
    message: dict[str, Any] = {"role": "assistant", "content": [read_block(block) for block in response["content"]]}
    usage = merge_usage({}, response.get("usage"))
    if usage:
        message["usage"] = usage
    for ours, theirs in (("stopReason", "stop_reason"), ("providerResponseId", "id"), ("model", "model")):
        if response.get(theirs) is not None:
            message[ours] = response[theirs]
    return message


def read_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as the history keeps it."""
    if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}, INVALID_INPUT: NOT_AN_OBJECT}
    if block.get("type") == "text" and block.get("citations", ...) is None:
        return {key: value for key, value in block.items() if key != "citations"}
    return block


def read_tool_input(fragments: str) -> tuple[dict[str, Any], str | None]:
    """Parse the streamed input of a tool call; the second value says what is wrong with it, or is None."""
    try:
        value = json.loads(fragments, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return {}, NOT_JSON
    return (value, None) if isinstance(value, dict) else ({}, NOT_AN_OBJECT)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def merge_usage(usage: dict[str, int], report: Any) -> dict[str, int]:
    """Take over the counts of a later report; what it leaves out stays."""
    if not isinstance(report, dict):
        return usage
    for name in _USAGE:
        value = report.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            usage[name] = value
    return usage
