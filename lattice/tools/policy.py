"""Refuses a whole batch of tool calls before any of them runs: the host's policy, and the tool that must be alone."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lattice.abort import AbortSignal
from lattice.encoding import clean_text, pretty_json
from lattice.errors import AbortError
from lattice.tools.callbacks import settled
from lattice.tools.environment import ToolEnvironment

__all__ = ["BatchPolicyContext", "BatchRejection", "ToolCall", "check_batch"]

EXCLUSIVE_CODE = "submit_output_exclusive_batch"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a batch; ``kind`` is ``"tool"`` or ``"agent_tool"``, ``input`` is raw."""

    id: str
    name: str
    input: Any
    kind: str


@dataclass(frozen=True, slots=True)
class BatchPolicyContext:
    """What a batch policy judges; ``source`` is the team runtime's, None for an agent on its own."""

    source: Any
    tool_calls: list[ToolCall]
    context: Any
    signal: AbortSignal | None


@dataclass(frozen=True, slots=True)
class BatchRejection:
    """Why no call of a batch ran."""

    code: str
    message: str
    conflicting_tool_call_ids: list[str] | None = None
    suggested_next_step: str | None = None

    def to_model(self) -> str:
        """Return the JSON that the model reads in place of every result."""
        body: dict[str, Any] = {"status": "rejected", "code": self.code, "message": self.message}
        if self.conflicting_tool_call_ids is not None:
            body["conflicting_tool_call_ids"] = self.conflicting_tool_call_ids
        if self.suggested_next_step is not None:
            body["suggested_next_step"] = self.suggested_next_step
        return clean_text(pretty_json(body))


async def check_batch(calls: list[dict[str, Any]], environment: ToolEnvironment) -> BatchRejection | None:
    """Return why the batch must not run, or None.

    Raises:
        AbortError: the policy failed because the caller's signal has fired.
    """
    if environment.policy is not None:
        rejection = await _ask_policy(calls, environment)
        if rejection is not None:
            return rejection
    return _check_exclusive(calls, environment.exclusive_tool)


async def _ask_policy(calls: list[dict[str, Any]], environment: ToolEnvironment) -> BatchRejection | None:
    policy = environment.policy
    validate: Callable[..., Any] = getattr(policy, "validate", None) or policy
    if isinstance(policy, dict):
        validate = policy["validate"]
    try:
        return _read_answer(await settled(validate(_describe(calls, environment))))
    except AbortError:
        raise
    except Exception as error:
        if environment.signal is not None and environment.signal.aborted:
            raise AbortError("Operation aborted", cause=error) from error
        return BatchRejection(
            "tool_batch_policy_error",
            "Tool batch validation failed before execution.",
            suggested_next_step="Retry with the tool calls split into separate steps.",
        )


def _describe(calls: list[dict[str, Any]], environment: ToolEnvironment) -> BatchPolicyContext:
    described = []
    for call in calls:
        definition = environment.tools.get(call["name"])
        kind = "tool" if definition is None else definition.kind
        described.append(ToolCall(call["id"], call["name"], copy.deepcopy(call.get("input")), kind))
    source = getattr(environment.agent_runtime, "source", None)
    return BatchPolicyContext(source, described, environment.context, environment.signal)


def _read_answer(answer: Any) -> BatchRejection | None:
    if answer is None:
        raise TypeError("the batch policy returned None")
    allowed = answer if isinstance(answer, bool) else _field(answer, "allowed")
    if allowed:
        return None
    conflicting = _field(answer, "conflicting_tool_call_ids", "conflictingToolCallIds")
    step = _field(answer, "suggested_next_step", "suggestedNextStep")
    return BatchRejection(
        str(_field(answer, "code") or "tool_batch_rejected"),
        str(_field(answer, "message") or "The tool batch was rejected before execution."),
        None if conflicting is None else list(conflicting),
        None if step is None else str(step),
    )


def _field(answer: Any, *names: str) -> Any:
    for name in names:
        value = answer.get(name) if isinstance(answer, dict) else getattr(answer, name, None)
        if value is not None:
            return value
    return None


def _check_exclusive(calls: list[dict[str, Any]], exclusive: str | None) -> BatchRejection | None:
    if exclusive is None or len(calls) < 2:
        return None
    submits = [call["id"] for call in calls if call["name"] == exclusive]
    if not submits:
        return None
    return BatchRejection(
        EXCLUSIVE_CODE,
        f"{exclusive} must be the only tool call in its batch.",
        submits,
        f"Finish every other tool call first, then call {exclusive} once, alone in its response.",
    )
