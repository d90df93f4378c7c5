"""``agent_tool()``: another agent as a tool of a model, to be asked or to be handed work."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from lattice.abort import AbortSignal
from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.encoding import compact_json, pretty_json
from lattice.errors import AskTimeoutError, LatticeError, MissingOutputError, OptionError, ToolExecutionError
from lattice.messages import add_usage
from lattice.team.answers import Answer
from lattice.team.deadlines import read_ask_timeout, within
from lattice.team.delegation import DelegateRequest, DelegateResult
from lattice.team.failures import AgentRuntimeFailure, error_of, failure_of, failure_text
from lattice.team.names import clean_tool_name
from lattice.team.prompts import compose_task
from lattice.team.tool_input import DELEGATION_INPUT, AgentToolInput
from lattice.tools.schema import make_parser, same_schema
from lattice.tools.tool import UNSET, ToolContext, ToolDefinition, tool

__all__ = ["AgentToolInput", "AgentToolOptions", "agent_tool", "receipt", "target_of"]


class AgentToolOptions(TypedDict, total=False):
    """What ``agent_tool()`` takes besides name and target."""

    description: str | None
    target_mailbox_id: str | None
    output_schema: Any
    input_schema: Any
    map_input: Callable[[Any], Any] | None
    is_concurrency_safe: Callable[[Any], Any] | bool | None
    metadata: dict[str, Any] | None
    ask_timeout_ms: int | None


class ChildOutputError(ToolExecutionError):
    """The output of a child agent cannot be used; its text goes to the model as it is."""

    def to_model(self) -> str:
        """Return the text."""
        return self.message


def agent_tool(name: str, target: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any) -> ToolDefinition:
    """Offer another agent to a model as a tool.

    Args:
        name: what the model calls it.
        target: an ``AgentSpec`` (a fresh session per call), or anything with ``query`` and ``prompt``.
        options: the same as ``keywords``, as a dict.
        keywords: ``description``, ``target_mailbox_id``, ``output_schema`` (inherited from the target if not given),
            ``input_schema`` with ``map_input`` (typed delegation, ask only), ``is_concurrency_safe``, ``metadata``,
            ``ask_timeout_ms`` (how long an ask waits for its answer, counted from the ask; then what was asked is
            cancelled and the call fails with the code ``timeout``).

    Raises:
        OptionError: an option is unknown or does not fit the target.
    """
    given: dict[str, Any] = {**(options or {}), **keywords}
    cleaned = clean_tool_name(name)
    label = f'agentTool("{cleaned}")'
    _check_options(label, given, AgentToolOptions.__annotations__)
    handler = _AgentTool(cleaned, label, target, given)
    definition: ToolDefinition = tool(
        cleaned,
        _description(given.get("description") or f"Delegate work to {name}.", target, handler),
        given.get("input_schema") or DELEGATION_INPUT,
        handler,
        is_concurrency_safe=given.get("is_concurrency_safe"),
        metadata=given.get("metadata"),
    )
    return replace(definition, kind="agent_tool")


def target_of(definition: ToolDefinition) -> Any:
    """Return the agent behind a tool, or None if it is an ordinary tool."""
    return getattr(definition.handler, "target", None) if definition.kind == "agent_tool" else None


def receipt(result: DelegateResult) -> str:
    """Return what a model gets for accepted work: a receipt, not a delivery."""
    request = result.request
    body: dict[str, Any] = {
        "status": "accepted",
        "phase": "queued",
        "completion_pending": True,
        "message_id": request.id,
    }
    if request.work_item_id:
        body["work_item_id"] = request.work_item_id
    body |= {"thread_id": request.thread_id, "to": request.to}
    if result.workspace_grants:
        shown = ("root", "access", "reason", "expiresAt")
        body["workspaceGrants"] = [{k: g[k] for k in shown if k in g} for g in result.workspace_grants]
    return pretty_json(body)


def check_options(label: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse options that do not exist.

    Raises:
        OptionError: there is one.
    """
    for key in given:
        if key not in known:
            raise OptionError(
                f'{label}: unknown option "{key}". Check for a typo, or upgrade the SDK if this option was added in a'
                " newer version."
            )


def check_target(label: str, target: Any) -> None:
    """Refuse what is no agent.

    Raises:
        OptionError: it can neither ``spawn`` nor be asked.
    """
    if not is_agent_spec(target) and not callable(getattr(target, "query", None)):
        raise OptionError(f"{label}: the target must be an AgentSpec or have query() and prompt(), not {target!r}")


def _check_options(label: str, given: dict[str, Any], known: Mapping[str, Any]) -> None:
    check_options(label, given, known)
    if given.get("input_schema") is not None and given.get("map_input") is None:
        raise OptionError(f"{label} inputSchema requires mapInput (input_schema comes with map_input).")
    if given.get("map_input") is not None and given.get("input_schema") is None:
        raise OptionError(f"{label} mapInput requires inputSchema (map_input comes with input_schema).")


_MODES = (
    'mode "ask" waits for the answer in this call; "handoff" queues the work and returns a receipt;',
    'mode "observe" is not supported.',
    "A handoff receipt means queued, not done: do not call tools that depend on the work before its report comes.",
)
_TASKS = (
    "Give a clear task; add expectedOutput and acceptanceCriteria where they help.",
    "Add workspaceGrants only for shared paths that you may write to yourself and that the task has to write to.",
    "Otherwise let the deliverables stay in the target's own workspace and be reported by path: one way, not both.",
)


def _description(text: str, target: Any, handler: "_AgentTool") -> str:
    if is_agent_spec(target):
        state = "Each call starts a fresh session with no memory of previous calls, so make every task self-contained."
    else:
        state = "The target is a long-lived session that retains conversation history across calls."
    lines = [text, "", state] if handler.typed else [text, "", *_MODES, state, *_TASKS]
    if handler.has_schema:
        lines += ["", "Returns the target's validated structured output as JSON."]
    return "\n".join(lines)


class _AgentTool:
    """The handler of an agent tool."""

    __slots__ = (
        "_label",
        "_map_input",
        "_name",
        "_parse_output",
        "_timeout_ms",
        "has_schema",
        "target",
        "target_mailbox_id",
    )

    def __init__(self, name: str, label: str, target: Any, options: Mapping[str, Any]) -> None:
        check_target(label, target)
        self._name = name
        self._label = label
        self.target = target
        self._map_input = options.get("map_input")
        self._timeout_ms = read_ask_timeout(options.get("ask_timeout_ms"), label)
        self.target_mailbox_id = options.get("target_mailbox_id")
        schema = _output_schema(label, target, options.get("output_schema"))
        self.has_schema = schema is not None
        self._parse_output = make_parser(schema) if schema is not None else None

    @property
    def typed(self) -> bool:
        """Whether the input is the host's own, without modes."""
        return self._map_input is not None

    async def __call__(self, value: Any, context: ToolContext) -> str:
        runtime = context.agent_runtime
        if self._map_input is not None:
            return await self._ask_typed(value, context)
        self._check_mode(value, runtime)
        task = compose_task(value.task, value.expected_output, value.acceptance_criteria)
        if runtime is None:
            return await self._ask_directly(task, context)
        grants = [grant.model_dump(exclude_none=True) for grant in value.workspace_grants or ()]
        request = self._request(task, value.mode, grants, context)
        result = await runtime.delegate(request)
        return receipt(result) if value.mode == "handoff" else self._delegated(result)

    def _check_mode(self, value: AgentToolInput, runtime: Any) -> None:
        if value.mode == "observe":
            raise LatticeError(f"{self._label} mode=observe is not supported. Available modes: ask, handoff.")
        if runtime is not None:
            return
        if value.workspace_grants:
            raise LatticeError(
                f"{self._label} workspaceGrants require an AgentRuntime so grants can be authorized and reported."
            )
        if value.mode == "handoff":
            raise LatticeError(
                f"{self._label} mode=handoff requires an AgentRuntime. Available modes without AgentRuntime: ask."
            )

    def _request(self, task: str, mode: str, grants: Sequence[Any] | None, context: ToolContext) -> DelegateRequest:
        return DelegateRequest(
            name=self._name,
            agent=self.target,
            task=task,
            wait="accepted" if mode == "handoff" else "result",
            target_mailbox_id=self.target_mailbox_id,
            workspace_grants=grants,
            tool_use_id=context.tool_use_id,
            timeout_ms=None if mode == "handoff" else self._timeout_ms,
        )

    async def _ask_typed(self, value: Any, context: ToolContext) -> str:
        assert self._map_input is not None
        task = self._map_input(value)
        if inspect.isawaitable(task):
            task = await task
        if context.agent_runtime is None:
            return await self._ask_directly(task, context)
        if not isinstance(task, str):
            raise LatticeError(
                f"{self._label} mapInput must return a string when the tool runs inside a team runtime, not"
                f" {type(task).__name__}"
            )
        return self._delegated(await context.agent_runtime.delegate(self._request(task, "ask", None, context)))

    async def _ask_directly(self, task: Any, context: ToolContext) -> str:
        agent = self.target.spawn() if is_agent_spec(self.target) else self.target
        options: dict[str, Any] = {}
        if context.context is not None:
            options["context"] = context.context
        # A host's own agent may not know the option; an agent or a team of ours may do what its caller may.
        if context.permissions is not None and (isinstance(agent, Agent) or callable(getattr(agent, "drain", None))):
            options["permissions"] = context.permissions
        lineage = context.lineage
        if isinstance(agent, Agent) and lineage is not None and lineage.tracer is not None:
            options["trace_parent"] = (lineage.session_id, lineage.run_id)
            options["tracer"] = agent.tracer or lineage.tracer

        async def ask(signal: AbortSignal | None) -> Answer:
            return Answer(await agent.prompt(task, signal=signal, **options))

        try:
            answer = await within(self._timeout_ms, self._name, context.signal, ask)
        except AskTimeoutError as late:
            raise ToolExecutionError(failure_text(self._name, failure_of(late)), cause=late) from late
        if lineage is not None:
            add_usage(lineage.usage, answer.total_usage or answer.usage)
        if answer.is_error:
            error = answer.error
            if self.has_schema and isinstance(error, MissingOutputError):
                raise self._invalid(_NO_OUTPUT)
            if isinstance(error, BaseException):
                raise error
            raise LatticeError(answer.text or f"{self._label} target returned an error")
        return self._deliver(answer.text, answer.structured_result, interrupted=answer.subtype == "interrupted")

    def _delegated(self, result: DelegateResult) -> str:
        failure = result.error
        if failure is None:
            return self._deliver(result.content, result.structured_result)
        if self.has_schema:
            raise self._invalid(f"target failed ({failure.code}): {failure.message}")
        raise _failed(result.content, failure)

    def _deliver(self, text: str, payload: Any, *, interrupted: bool = False) -> str:
        if self._parse_output is None:
            return text if payload is UNSET else compact_json(payload)
        if interrupted:
            return text
        if payload is UNSET:
            raise self._invalid(_NO_OUTPUT)
        try:
            return compact_json(self._parse_output(_plain(payload)))
        except ValueError as error:
            raise self._invalid(f"structured output failed outputSchema validation: {error}") from error

    def _invalid(self, reason: str) -> ChildOutputError:
        return ChildOutputError(
            f"child_output_invalid: {self._label} {reason}. Retry the call with a revised task, or continue without the"
            " structured output."
        )


_NO_OUTPUT = "target ended without calling submit_output, so no structured output was produced"


def _failed(content: str, failure: AgentRuntimeFailure) -> ToolExecutionError:
    return ToolExecutionError(content, cause=error_of(failure))


def _plain(payload: Any) -> Any:
    dump = getattr(payload, "model_dump", None)
    return dump(mode="json") if callable(dump) else payload


def _output_schema(label: str, target: Any, explicit: Any) -> Any:
    declared = None
    if isinstance(target, Agent) or is_agent_spec(target):
        declared = getattr(target, "output_schema", None)
    if explicit is not None and declared is not None and not same_schema(explicit, declared):
        raise OptionError(
            f"{label} outputSchema does not match the target's declared outputSchema. Share one schema between the"
            " agent and agent_tool(), or leave it out here to inherit it."
        )
    return explicit if explicit is not None else declared
