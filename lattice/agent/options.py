"""The options of an agent and of a query, as they are written and as they are used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from lattice.abort import AbortSignal
from lattice.agent.checks import check_choice, check_known, check_milliseconds, check_positive, given
from lattice.agent.compaction_settings import AutoCompactOptions, CompactionSettings
from lattice.agent.hooks import AgentHooks, read_hooks
from lattice.agent.skills import SkillDefinition, read_skills
from lattice.errors import OptionError
from lattice.history import HistoryStore
from lattice.journal import ToolJournal
from lattice.messages import OutputFormat, ReasoningEffort, ThinkingConfig
from lattice.model import ModelClient
from lattice.tools.environment import ToolConcurrency
from lattice.tools.tool import ToolDefinition
from lattice.tracer import ContextTracer, trace_method

__all__ = [
    "AgentDefinition",
    "AgentOptions",
    "BareAgentOptions",
    "FrozenOptions",
    "QueryOptions",
    "QuerySettings",
    "check_ports",
    "read_agent_options",
    "read_query_options",
]

DEFAULT_MAX_TOKENS = 16384
DEFAULT_MAX_TURNS = 50


class BareAgentOptions(TypedDict, total=False):
    """What ``create_bare_agent()`` takes; None means not given.

    ``max_tokens`` bounds the output of one model request (16384), ``max_turns`` the model requests of one query (50).
    ``request_timeout_ms`` bounds one model request. ``model_client`` replaces the built-in client, for which
    ``api_key`` and ``base_url`` are. ``journal`` records tool calls for ``Agent.resume()``.
    """

    model: str
    name: str | None
    api_key: str | None
    base_url: str | None
    system_prompt: str | None
    max_tokens: int | None
    max_turns: int | None
    thinking_config: ThinkingConfig | dict[str, Any] | None
    reasoning_effort: ReasoningEffort | None
    request_timeout_ms: int | None
    tools: Sequence[ToolDefinition] | None
    tool_batch_policy: Any
    hooks: Any
    auto_compact: bool | AutoCompactOptions | CompactionSettings | None
    tool_concurrency: Any
    skills: Sequence[SkillDefinition | dict[str, Any]] | None
    permission: Callable[..., Any] | None
    model_client: ModelClient | None
    tracer: ContextTracer | None
    history_store: HistoryStore | None
    output_schema: Any
    journal: ToolJournal | None


class AgentOptions(BareAgentOptions, total=False):
    """What ``create_agent()`` and ``define_agent()`` take: the same, and where the agent's files are.

    ``workspace`` is a folder, a dict with ``cwd``, ``allowed_directories`` and ``bash_timeout_ms``, or False for none.
    """

    workspace: Any


class QueryOptions(TypedDict, total=False):
    """What ``Agent.query()`` and ``Agent.prompt()`` take besides the prompt; None means the agent's own value.

    ``context`` is any value of the host's, handed to tools and hooks. ``permissions`` is
    ``{"workspace_grants": [...]}``. ``runtime`` is an ``AgentRuntime``.
    """

    stream: bool | None
    signal: AbortSignal | None
    output_format: OutputFormat | None
    thinking_config: ThinkingConfig | dict[str, Any] | None
    reasoning_effort: ReasoningEffort | None
    request_timeout_ms: int | None
    tracer: ContextTracer | None
    context: Any
    permissions: Any
    runtime: Any
    agent_runtime: Any
    trace_parent: Any


AGENT_OPTIONS = (*BareAgentOptions.__annotations__, "workspace")
QUERY_OPTIONS = tuple(QueryOptions.__annotations__)


class FrozenOptions(Mapping[str, Any]):
    """Options as they were given, not to be changed: ``options["model"]`` or ``options.model``; None if not given."""

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __getattr__(self, name: str) -> Any:
        if name in AGENT_OPTIONS:
            return self._options.get(name)
        raise AttributeError(f'AgentOptions has no option "{name}"')

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        shown = {name: "***" if name == "api_key" else value for name, value in self._options.items()}
        return f"FrozenOptions({shown!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """The checked options that every session of an agent shares."""

    options: FrozenOptions
    model: str
    name: str | None
    system_prompt: str | None
    max_tokens: int
    max_turns: int
    thinking_config: dict[str, Any] | None
    reasoning_effort: str | None
    request_timeout_ms: int | None
    tool_batch_policy: Any
    hooks: AgentHooks
    compaction: CompactionSettings | None
    concurrency: ToolConcurrency
    skills: tuple[SkillDefinition, ...]
    permission: Callable[..., Any] | None
    output_schema: Any


def read_agent_options(options: Mapping[str, Any]) -> AgentDefinition:
    """Check the options of an agent and fill in the defaults; nothing is created.

    Raises:
        OptionError: an option is unknown, missing or has a value that cannot be used.
    """
    if not options.get("model"):
        raise OptionError("AgentOptions.model is required: the name of the model to ask")
    check_known("AgentOptions", options, AGENT_OPTIONS)
    values = given(options)
    timeout = values.get("request_timeout_ms")
    return AgentDefinition(
        options=FrozenOptions(values),
        model=_text("model", values["model"]),
        name=_name(values.get("name")),
        system_prompt=_text("system_prompt", values["system_prompt"]) if "system_prompt" in values else None,
        max_tokens=check_positive("AgentOptions.max_tokens", values.get("max_tokens", DEFAULT_MAX_TOKENS)),
        max_turns=check_positive("AgentOptions.max_turns", values.get("max_turns", DEFAULT_MAX_TURNS)),
        thinking_config=_thinking("AgentOptions", values.get("thinking_config")),
        reasoning_effort=_effort("AgentOptions", values.get("reasoning_effort")),
        request_timeout_ms=None if timeout is None else check_milliseconds("AgentOptions.request_timeout_ms", timeout),
        tool_batch_policy=_policy(values.get("tool_batch_policy")),
        hooks=read_hooks(values.get("hooks")),
        compaction=CompactionSettings.read(values.get("auto_compact")),
        concurrency=_concurrency(values.get("tool_concurrency")),
        skills=read_skills(values.get("skills")),
        permission=_callable("permission", values.get("permission")),
        output_schema=values.get("output_schema"),
    )


def check_ports(values: Mapping[str, Any]) -> None:
    """Refuse a model client, tracer, history store or journal that lacks a method.

    Raises:
        OptionError: a method is missing.
    """
    wanted = {
        "model_client": ("create_message",),
        "history_store": ("load", "append", "replace"),
        "journal": ("load", "started", "starting", "finished", "clear"),
    }
    for name, methods in wanted.items():
        port = values.get(name)
        for method in methods if port is not None else ():
            if not callable(getattr(port, method, None)):
                raise OptionError(f"AgentOptions.{name} must have a method {method}(), which {port!r} has not")
    _check_tracer("AgentOptions", values.get("tracer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """The checked options of one query, the agent's values filled in."""

    stream: bool
    signal: AbortSignal | None
    output_format: Any
    thinking_config: dict[str, Any] | None
    reasoning_effort: str | None
    request_timeout_ms: int | None
    tracer: Any
    context: Any
    permissions: Any
    runtime: Any
    trace_parent: tuple[str, str] | None


def read_query_options(definition: AgentDefinition, tracer: Any, options: Mapping[str, Any]) -> QuerySettings:
    """Check the options of a query; ``tracer`` is the agent's.

    Raises:
        OptionError: an option is unknown or has a value that cannot be used.
    """
    if not options:
        return _defaults(definition, tracer)
    check_known("QueryOptions", options, QUERY_OPTIONS)
    values = given(options)
    _check_tracer("QueryOptions", values.get("tracer"))
    runtime = values.get("runtime", values.get("agent_runtime"))
    timeout = values.get("request_timeout_ms")
    return QuerySettings(
        stream=_flag("stream", values.get("stream", True)),
        signal=_signal(values.get("signal")),
        output_format=values.get("output_format"),
        thinking_config=_thinking("QueryOptions", values.get("thinking_config")) or definition.thinking_config,
        reasoning_effort=_effort("QueryOptions", values.get("reasoning_effort")) or definition.reasoning_effort,
        request_timeout_ms=definition.request_timeout_ms
        if timeout is None
        else check_milliseconds("QueryOptions.request_timeout_ms", timeout),
        tracer=values.get("tracer", tracer),
        context=options.get("context"),
        permissions=getattr(runtime, "permissions", None) if runtime is not None else values.get("permissions"),
        runtime=runtime,
        trace_parent=_trace_parent(values.get("trace_parent")),
    )


def _defaults(definition: AgentDefinition, tracer: Any) -> QuerySettings:
    return QuerySettings(
        stream=True,
        signal=None,
        output_format=None,
        thinking_config=definition.thinking_config,
        reasoning_effort=definition.reasoning_effort,
        request_timeout_ms=definition.request_timeout_ms,
        tracer=tracer,
        context=None,
        permissions=None,
        runtime=None,
        trace_parent=None,
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(f"AgentOptions.{name} must be a text, not {value!r}")
    return value


def _name(value: Any) -> str | None:
    return None if value is None or not _text("name", value).strip() else _text("name", value)


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise OptionError(f"AgentOptions.{name} must be callable, not {value!r}")
    return value


def _policy(value: Any) -> Any:
    validate = value.get("validate") if isinstance(value, dict) else getattr(value, "validate", value)
    if value is not None and not callable(validate):
        raise OptionError(f"AgentOptions.tool_batch_policy must be callable or have validate(context), not {value!r}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"QueryOptions.{name} must be True or False, not {value!r}")
    return value


def _signal(value: Any) -> AbortSignal | None:
    if value is not None and not isinstance(value, AbortSignal):
        raise OptionError(f"QueryOptions.signal must be an AbortSignal (AbortController().signal), not {value!r}")
    return value


def _check_tracer(label: str, tracer: Any) -> None:
    if tracer is not None and trace_method(tracer, "on_event") is None:
        raise OptionError(f"{label}.tracer must have a method on_event(event), which {tracer!r} has not")


def _trace_parent(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value["session_id"], value["parent_run_id"]
    session_id, parent_run_id = value
    return session_id, parent_run_id


def _thinking(label: str, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    name = f"{label}.thinking_config"
    if not isinstance(value, Mapping):
        raise OptionError(f'{name} must be a dict like {{"type": "adaptive"}}, not {value!r}')
    kind = check_choice(f"{name}.type", value.get("type"), ("adaptive", "enabled", "disabled"))
    config: dict[str, Any] = {"type": kind}
    budget = value.get("budget_tokens", value.get("budgetTokens"))
    check_known(name, value, ("type", "budget_tokens", "budgetTokens"))
    if kind == "enabled":
        config["budget_tokens"] = check_positive(f"{name}.budget_tokens", budget)
    return config


def _effort(label: str, value: Any) -> str | None:
    return None if value is None else check_choice(f"{label}.reasoning_effort", value, ("low", "high", "max"))


def _concurrency(value: Any) -> ToolConcurrency:
    if value is None:
        return ToolConcurrency()
    if isinstance(value, ToolConcurrency):
        return value
    if not isinstance(value, Mapping):
        raise OptionError(f'AgentOptions.tool_concurrency must be a dict like {{"mode": "safe"}}, not {value!r}')
    names = {"mode": "mode", "max_concurrency": "max_concurrency", "maxConcurrency": "max_concurrency"}
    check_known("AgentOptions.tool_concurrency", value, names)
    return ToolConcurrency(**{names[name]: item for name, item in value.items() if item is not None})
