"""What a tool is: its definition, what its handler receives and what a handler may return."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, cast

from lattice.abort import AbortController, AbortSignal
from lattice.errors import OptionError
from lattice.tools.schema import make_parser, schema_to_json

__all__ = ["UNSET", "ToolContext", "ToolDefinition", "ToolResult", "Unset", "check_tool_names", "tool"]

Handler = Callable[..., Any]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_CONTEXT_NAMES = {"context", "ctx", "tool_context"}


class Unset:
    """The type of ``UNSET``: nothing was given, which is not the same as None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset()


class _Options(NamedTuple):
    """The options of ``tool()`` as they were given."""

    is_concurrency_safe: Any
    metadata: Any
    on_recovery: Any
    timeout_ms: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a handler returns when a text is not enough.

    ``content`` is a text or a list of content blocks. ``end_turn=True`` ends the run after this batch, with the text of
    ``content`` as its result and ``structured_result`` beside it.
    """

    content: Any
    end_turn: bool = False
    structured_result: Any = UNSET


class ToolContext:
    """What a handler is told besides its input.

    ``signal`` fires when the work is to stop: the caller's own signal if it gave one, else one that fires when the task
    that runs the query is cancelled. ``interrupt`` fires when the host interrupts the query: the batch is finished all
    the same, but a call that would take long may end early. ``context`` is what the host passed to the query,
    untouched. ``lineage`` ties agents that the handler asks to the query.
    """

    __slots__ = (
        "_controller",
        "_signal",
        "agent_runtime",
        "context",
        "interrupt",
        "lineage",
        "permissions",
        "tool_use_id",
    )

    def __init__(
        self,
        signal: AbortSignal | None = None,
        tool_use_id: str = "",
        context: Any = None,
        agent_runtime: Any = None,
        permissions: Any = None,
        interrupt: AbortSignal | None = None,
        lineage: Any = None,
    ) -> None:
        self._signal = signal
        self.interrupt = interrupt
        self.lineage = lineage
        self._controller: AbortController | None = None
        self.tool_use_id = tool_use_id
        self.context = context
        self.agent_runtime = agent_runtime
        self.permissions = permissions

    @property
    def signal(self) -> AbortSignal:
        """Fires when the handler should stop."""
        if self._signal is not None:
            return self._signal
        if self._controller is None:
            self._controller = AbortController()
        return self._controller.signal

    def stop(self, reason: BaseException) -> None:
        """Fire the signal if it is this call's own; the caller's signal is the caller's to fire."""
        if self._signal is None:
            if self._controller is None:
                self._controller = AbortController()
            self._controller.abort(reason)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool as the loop uses it; made by ``tool()``.

    ``parse`` turns raw input into what ``handler`` receives. ``kind`` is ``"agent_tool"`` for tools that delegate to
    another agent. ``on_recovery`` says what happens to a call that was under way when its process died; ``timeout_ms``
    bounds one call in milliseconds.
    """

    name: str
    description: str
    input_schema: Any
    json_schema: dict[str, Any]
    parse: Callable[[Any], Any]
    handler: Handler
    is_concurrency_safe: Callable[[Any], Any] | None = None
    metadata: dict[str, Any] | None = None
    kind: Literal["tool", "agent_tool"] = "tool"
    on_recovery: Literal["unknown", "rerun"] = "unknown"
    timeout_ms: int | None = None
    takes_context: bool = field(init=False, repr=False, compare=False)
    is_async: bool = field(init=False, repr=False, compare=False)
    _model: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes_context", _takes_context(self.name, self.handler))
        object.__setattr__(self, "is_async", _is_async(self.handler))
        model = {"name": self.name, "description": self.description, "input_schema": self.json_schema}
        object.__setattr__(self, "_model", model)

    def with_handler(self, handler: Handler) -> "ToolDefinition":
        """Return the same tool with another handler of the same signature; everything worked out is shared."""
        clone: ToolDefinition = object.__new__(ToolDefinition)
        for name in ToolDefinition.__slots__:
            object.__setattr__(clone, name, getattr(self, name))
        object.__setattr__(clone, "handler", handler)
        return clone

    def to_model(self) -> dict[str, Any]:
        """Return what the model is told; always the same dict, not to be changed."""
        return self._model

    def to_dict(self) -> dict[str, Any]:
        """Return the documented wire form; what was not given is absent."""
        wire = {"name": self.name, "description": self.description, "inputSchema": self.json_schema}
        if self.metadata:
            wire["metadata"] = self.metadata
        if self.kind != "tool":
            wire["kind"] = self.kind
        return wire


def tool(
    name: str | None = None,
    description: str | None = None,
    input_schema: Any = None,
    handler: Handler | None = None,
    *,
    is_concurrency_safe: Callable[[Any], Any] | bool | None = None,
    metadata: dict[str, Any] | None = None,
    on_recovery: Literal["unknown", "rerun"] = "unknown",
    timeout_ms: int | None = None,
    **unknown: Any,
) -> Any:
    """Make a tool, or a decorator that makes one of the function below it.

    Args:
        name: what the model calls it: letters, digits, ``_`` and ``-``, at most 128.
        description: what the model reads about it.
        input_schema: a pydantic model, a JSON Schema dict, or an object with ``parse``.
        handler: takes ``(input)`` or ``(input, context)``, returns a text, a ``ToolResult``, a dict with its keys, or
            None; a ``def`` handler runs in a thread.
        is_concurrency_safe: says of a parsed input whether the call may overlap with others.
        metadata: the host's own notes; neither read here nor shown to the model.
        on_recovery: ``"rerun"`` if a call that a crash cut off may be repeated; else the model is told of it.
        timeout_ms: how long one call may take, in milliseconds; None is for ever.
        unknown: refused.

    Raises:
        OptionError: an option is missing, unknown or unusable.
    """
    if name is None and description is None and input_schema is None and handler is None:
        return tool
    options = _Options(is_concurrency_safe, metadata, on_recovery, timeout_ms)
    _check_options(name, options, unknown)
    if not description or input_schema is None:
        raise OptionError("tool(name, description, input_schema, handler) requires all arguments")
    if handler is None:
        return functools.partial(_define, cast("str", name), description, input_schema, options=options)
    return _define(cast("str", name), description, input_schema, handler, options=options)


def check_tool_names(tools: Iterable[ToolDefinition]) -> None:
    """Refuse tools that share a name: the model could not say which one it means.

    Raises:
        OptionError: a name occurs twice.
    """
    seen: set[str] = set()
    for definition in tools:
        if definition.name in seen:
            raise OptionError(
                f'two tools are named "{definition.name}". Rename one of them; the built-in tools of a workspace'
                " count too (workspace=False leaves them out)."
            )
        seen.add(definition.name)


def _define(name: str, description: str, input_schema: Any, handler: Handler, *, options: _Options) -> ToolDefinition:
    if not callable(handler):
        raise OptionError(f'tool("{name}"): handler must be callable, not {handler!r}')
    safe = options.is_concurrency_safe
    try:
        json_schema, parse = schema_to_json(input_schema), make_parser(input_schema)
    except OptionError as error:
        raise OptionError(f'tool("{name}"): input_schema: {error}', cause=error) from error
    return ToolDefinition(
        name=name,
        description=description,
        input_schema=input_schema,
        json_schema=json_schema,
        parse=parse,
        handler=handler,
        is_concurrency_safe=_always if safe is True else safe or None,
        metadata=options.metadata or None,
        on_recovery=options.on_recovery,
        timeout_ms=options.timeout_ms,
    )


def _check_options(name: Any, options: _Options, unknown: dict[str, Any]) -> None:
    label = f'tool("{name}")'
    for key in unknown:
        raise OptionError(
            f'{label}: unknown option "{key}". Check for a typo, or upgrade the SDK if this option was added in a'
            " newer version."
        )
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise OptionError(f"tool: name must be 1 to 128 letters, digits, _ or -, not {name!r}")
    safe, metadata, on_recovery, timeout_ms = options
    if safe is not None and not isinstance(safe, bool) and not callable(safe):
        raise OptionError(f"{label}: is_concurrency_safe must be a function of the parsed input, not {safe!r}")
    if metadata is not None and not isinstance(metadata, dict):
        raise OptionError(f"{label}: metadata must be a dict, not {metadata!r}")
    if on_recovery not in {"unknown", "rerun"}:
        raise OptionError(f'{label}: on_recovery must be "unknown" or "rerun", not {on_recovery!r}')
    if timeout_ms is not None and (isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms <= 0):
        raise OptionError(f"{label}: timeout_ms must be a positive integer number of milliseconds, not {timeout_ms!r}")


def _always(_value: Any) -> bool:
    return True


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - the method is inspected, not tested for


def _takes_context(name: str, handler: Handler) -> bool:
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    takes_all = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p for p in positional if p.default is p.empty]
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(required) > 2 or keyword or (not positional and not takes_all):
        raise OptionError(f'tool("{name}"): handler must take (input) or (input, context), not {parameters}')
    if takes_all or len(required) == 2:
        return True
    return len(positional) > 1 and positional[1].name.lstrip("_") in _CONTEXT_NAMES
