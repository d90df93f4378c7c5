"""Executes one tool call: find it, ask, parse, run, then report what came of it.

Nothing that a tool does leaves here as an exception. What must leave the query all the same (a hook or strict tracer
that raised, a journal that broke, a cancelled task) is kept in ``BatchState.failure``.
"""

import asyncio
import contextlib
import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from lattice.abort import AbortSignal
from lattice.encoding import clean_text, pretty_json
from lattice.errors import AbortError, ToolExecutionError, ToolPermissionDeniedError
from lattice.journal import JournalEntry
from lattice.tools.callbacks import settled
from lattice.tools.environment import ToolEnvironment
from lattice.tools.handlers import NotBegunError, call_handler
from lattice.tools.permission import ask_permission
from lattice.tools.results import content_text, limit_content, normalise, usable_content
from lattice.tools.tool import UNSET, ToolContext, ToolDefinition

INVALID_INPUT = "_invalid_input"
"""Key of a ``tool_use`` block whose input the model client could not read; its value says why."""

ESCAPING = (Exception, BaseExceptionGroup, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""Everything but GeneratorExit: a coroutine that is being closed cannot go on."""

__all__ = [
    "BatchState",
    "CallOutcome",
    "ToolResultContext",
    "answer_call",
    "execute_call",
    "not_started",
    "parse_input",
]


@dataclass(frozen=True, slots=True)
class ToolResultContext:
    """What an ``on_tool_result`` hook sees; ``result`` and ``input`` are copies."""

    tool_name: str
    tool_use_id: str
    input: Any
    result: dict[str, Any]
    error: BaseException | None
    context: Any
    source: dict[str, Any]
    signal: AbortSignal | None


@dataclass(slots=True)
class CallOutcome:
    """What one call came to; ``block`` is its ``tool_result``."""

    block: dict[str, Any]
    error: BaseException | None = None
    end_turn: bool = False
    end_turn_text: str = ""
    structured_result: Any = UNSET


class BatchState:
    """What the calls of one batch share while they run: the first thing that must leave the query."""

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Remember ``error`` if nothing failed before; no further call starts."""
        if self.failure is None:
            self.failure = error


async def execute_call(
    call: dict[str, Any], environment: ToolEnvironment, state: BatchState, *, parsed: Any = UNSET
) -> CallOutcome:
    """Run one call and report it; ``parsed`` is its input if the scheduler has parsed it already."""
    definition = environment.tools.get(call["name"])
    if environment.trace is not None and not await _trace_use(call, definition, environment, state):
        return not_started(call, state)
    outcome = await _run(call, definition, environment, state, parsed)
    return await _report(call, definition, outcome, environment, state)


async def answer_call(
    call: dict[str, Any], outcome: CallOutcome, environment: ToolEnvironment, state: BatchState
) -> CallOutcome:
    """Report a call that is answered without being run: refused, cancelled, or cut off by a crash."""
    definition = environment.tools.get(call["name"])
    if environment.trace is not None and not await _trace_use(call, definition, environment, state):
        return not_started(call, state)
    return await _report(call, None, outcome, environment, state)


def parse_input(definition: ToolDefinition, call: dict[str, Any]) -> Any:
    """Return the parsed input of a call.

    Raises:
        ToolExecutionError: the model's arguments are not a JSON object, or its client could not read them.
        Exception: whatever the schema raises.
    """
    if call.get(INVALID_INPUT):
        raise ToolExecutionError(_invalid_input(definition, str(call[INVALID_INPUT])))
    raw = call.get("input")
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ToolExecutionError(f"the input must be a JSON object, not {raw!r:.200}. Call the tool again with one.")
    return definition.parse(raw)


def _invalid_input(definition: ToolDefinition, reason: str) -> str:
    if "not valid" not in reason:
        return f"the input {reason}. Call the tool again with one."
    required = definition.json_schema.get("required")
    fields = f" with the fields {', '.join(map(str, required))}" if isinstance(required, list) and required else ""
    return (
        f"the input is not valid JSON and was not used. Call the tool again with one JSON object{fields}; escape double"
        " quotes and line breaks inside of texts."
    )


def not_started(call: dict[str, Any], state: BatchState) -> CallOutcome:
    """Answer a call that never ran because the batch was given up."""
    text = f"Tool {call['name']} was not started because the operation was aborted"
    if state.failure is not None and not isinstance(state.failure, asyncio.CancelledError):
        text = f"Tool {call['name']} was not started because the host failed while this batch ran"
    return error_outcome(call, text, AbortError(text))


def error_outcome(call: dict[str, Any], text: str, error: BaseException | None) -> CallOutcome:
    """Answer a call with an error text that the model can act on."""
    block = {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": clean_text(text),
        "is_error": True,
    }
    return CallOutcome(block, error)


async def _run(
    call: dict[str, Any],
    definition: ToolDefinition | None,
    environment: ToolEnvironment,
    state: BatchState,
    parsed: Any,
) -> CallOutcome:
    if definition is None:
        return error_outcome(call, f"Tool {call['name']} is not registered", None)
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    try:
        outcome = await _attempt(call, definition, environment, state, parsed)
    except KeyboardInterrupt as error:
        state.fail(error)
        outcome = error_outcome(call, _cut_off(definition.name), AbortError())
    except asyncio.CancelledError as error:
        own = task is None or task.cancelling() == cancelled_before
        stopped = error_outcome(call, _cut_off(definition.name), AbortError())
        outcome = _failed(call, definition.name, error, environment) if own else stopped
    except ESCAPING as error:
        outcome = _failed(call, definition.name, error, environment)
    if task is not None and task.cancelling() > cancelled_before:
        # Even if the handler swallowed the cancellation: its result stands, the cancellation is not forgotten.
        state.fail(asyncio.CancelledError())
        with contextlib.suppress(asyncio.CancelledError):  # one that was asked for from inside is still to come
            await asyncio.sleep(0)
    return outcome


async def _attempt(
    call: dict[str, Any], definition: ToolDefinition, environment: ToolEnvironment, state: BatchState, parsed: Any
) -> CallOutcome:
    name, call_id = definition.name, call["id"]
    if environment.permission is not None and name != environment.exclusive_tool:
        denial = await ask_permission(environment.permission, name, call.get("input"), call_id)
        if denial is not None:
            return error_outcome(call, denial, None)
    value = parse_input(definition, call) if parsed is UNSET else parsed
    context, begin = _context(definition, call_id, environment), None
    try:
        if environment.journal is not None:
            begin = partial(environment.journal.starting, call_id)
            if _starts_are_kept(definition, environment):
                await environment.journal.started(call_id)
    except ESCAPING as error:
        state.fail(error)
        return not_started(call, state)
    try:
        returned = await call_handler(definition, value, context, environment.signal, begin)
    except NotBegunError as error:
        state.fail(error.__cause__ or error)
        return not_started(call, state)
    result = normalise(returned)
    block = {"type": "tool_result", "tool_use_id": call_id, "content": result.content}
    return CallOutcome(block, None, result.end_turn, "", result.structured_result)


def _context(definition: ToolDefinition, call_id: str, environment: ToolEnvironment) -> ToolContext:
    # A tool with a deadline of its own needs a signal of its own: the caller's must not fire for it.
    signal = environment.signal if definition.timeout_ms is None else None
    return ToolContext(
        signal,
        call_id,
        environment.context,
        environment.agent_runtime,
        environment.permissions,
        environment.interrupt,
        environment.lineage,
    )


def _starts_are_kept(definition: ToolDefinition, environment: ToolEnvironment) -> bool:
    return (
        definition.kind != "agent_tool"
        and definition.on_recovery != "rerun"
        and definition.name != environment.exclusive_tool
    )


def _failed(call: dict[str, Any], name: str, error: BaseException, environment: ToolEnvironment) -> CallOutcome:
    if isinstance(error, ToolPermissionDeniedError):
        return error_outcome(call, _denial_text(error), error)
    if callable(to_model := getattr(error, "to_model", None)):  # an error with words of its own for the model
        return error_outcome(call, str(to_model()), error)
    if isinstance(error, AbortError) and environment.signal is not None and environment.signal.aborted:
        text = error.message if error.message.startswith("Tool ") else f"Tool {name} failed: {error.message}"
        return error_outcome(call, text, error)
    text = f"Tool {name} failed: {_message(error)}"
    return error_outcome(call, text, ToolExecutionError(text, cause=error))


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: " + "; ".join(_message(inner) for inner in error.exceptions)
    text = str(error)
    if not text:
        return type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, (KeyError, SystemExit)) else text


def _denial_text(error: ToolPermissionDeniedError) -> str:
    to_model = getattr(error.denial, "to_model", None)
    if callable(to_model):
        return str(to_model())
    if not isinstance(error.denial, dict):
        return error.message
    denial = error.denial
    body = {"status": "permission_denied"}
    for key, names in _DENIAL_KEYS.items():
        for name in names:
            if denial.get(name) is not None:
                body[key] = denial[name]
                break
    return pretty_json(body)


_DENIAL_KEYS = {
    "tool": ("tool",),
    "requestedPath": ("requestedPath", "requested_path"),
    "reason": ("reason",),
    "allowedWriteRoots": ("allowedRoots", "allowed_roots"),
    "suggestedNextStep": ("suggestedNextStep", "suggested_next_step"),
}


def _cut_off(name: str) -> str:
    return (
        f"Tool {name} was cancelled because the operation was aborted. It had started: check what it did before you"
        " repeat it."
    )


async def _report(
    call: dict[str, Any],
    definition: ToolDefinition | None,
    outcome: CallOutcome,
    environment: ToolEnvironment,
    state: BatchState,
) -> CallOutcome:
    """Hook, text, size limit, journal, trace: in this order, so that all of them tell what is really sent."""
    if environment.on_tool_result is not None:
        await _apply_hook(call, outcome, environment, state)
    block = outcome.block
    if outcome.end_turn:
        outcome.end_turn_text = content_text(block["content"])
    block["content"] = limit_content(block["content"], environment.max_result_chars, environment.overflow_dir)
    if environment.journal is not None and definition is not None and definition.kind != "agent_tool":
        await _keep(outcome, definition, environment, state)
    if environment.trace is not None:
        data = {"tool_use_id": call["id"], "content": block["content"], "is_error": bool(block.get("is_error"))}
        if outcome.error is not None:
            data["error"] = outcome.error
        await _trace("tool_result", data, environment, state)
    return outcome


async def _apply_hook(
    call: dict[str, Any], outcome: CallOutcome, environment: ToolEnvironment, state: BatchState
) -> None:
    hook = environment.on_tool_result
    assert hook is not None
    try:
        context = ToolResultContext(
            call["name"],
            call["id"],
            copy.deepcopy(call.get("input")),
            copy.deepcopy(outcome.block),
            outcome.error,
            environment.context,
            environment.source,
            environment.signal,
        )
        replacement = await settled(hook(context))
        if replacement:
            _replace_block(call, outcome, replacement)
    except ESCAPING as error:
        state.fail(error)
        text = f"The result of tool {call['name']} is withheld: the host's on_tool_result hook failed"
        outcome.block = error_outcome(call, text, None).block


def _replace_block(call: dict[str, Any], outcome: CallOutcome, replacement: Any) -> None:
    block = dict(replacement)
    block["type"] = "tool_result"
    block["tool_use_id"] = call["id"]
    block["content"] = usable_content(block.get("content"))
    if not block.get("is_error"):
        block.pop("is_error", None)
        outcome.error = None
    outcome.block = block


async def _keep(
    outcome: CallOutcome, definition: ToolDefinition, environment: ToolEnvironment, state: BatchState
) -> None:
    # The tool that must be alone only parses its input: running it again is cheaper than keeping a typed result.
    if definition.name == environment.exclusive_tool or state.failure is not None:
        return
    structured = None if outcome.structured_result is UNSET else outcome.structured_result
    entry = JournalEntry(outcome.block["tool_use_id"], outcome.block, outcome.end_turn, structured)
    try:
        assert environment.journal is not None
        await environment.journal.finished(entry)
    except ESCAPING as error:
        state.fail(error)


async def _trace_use(
    call: dict[str, Any], definition: ToolDefinition | None, environment: ToolEnvironment, state: BatchState
) -> bool:
    data = {"id": call["id"], "name": call["name"], "input": call.get("input")}
    if definition is not None and definition.description:
        data["description"] = definition.description
    return await _trace("tool_use", data, environment, state)


async def _trace(kind: str, data: dict[str, Any], environment: ToolEnvironment, state: BatchState) -> bool:
    try:
        assert environment.trace is not None
        await environment.trace(kind, data)
    except ESCAPING as error:
        state.fail(error)
        return False
    return True
