"""The tools of an agent, and of one query: by name, in order, and as the model is told of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from lattice.errors import OptionError
from lattice.tools.environment import ToolConcurrency
from lattice.tools.tool import ToolDefinition, ToolResult, check_tool_names, tool

__all__ = ["SUBMIT_OUTPUT_TOOL_NAME", "Toolset", "concurrency_section", "listed_tools", "submit_output_tool"]

SUBMIT_OUTPUT_TOOL_NAME = "submit_output"
"""The tool that ends a run which has an output schema; the name is reserved then."""

SUBMITTED_TEXT = "Structured output submitted."


class Toolset:
    """An ordered set of tools whose names differ.

    ``by_name`` stays the same dict for ever, so whoever holds it sees tools that are added later.
    """

    __slots__ = ("_last", "by_name", "models", "names")

    def __init__(self, tools: Iterable[Any] = (), *, last: ToolDefinition | None = None) -> None:
        self._last = last
        self.by_name: dict[str, ToolDefinition] = {}
        self.models: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.add(tools)

    def add(self, tools: Iterable[Any]) -> None:
        """Add tools after those that are there; ``last`` stays last.

        Raises:
            OptionError: something is no tool, or a name is taken or reserved; nothing is added then.
        """
        new = [_checked(entry) for entry in listed_tools(tools)]
        present = [entry for entry in self.by_name.values() if entry is not self._last]
        if self._last is not None and any(entry.name == self._last.name for entry in new):
            raise OptionError(f'Tool name "{self._last.name}" is reserved when AgentOptions.output_schema is set')
        together = [*present, *new, *([] if self._last is None else [self._last])]
        check_tool_names(together)
        self.by_name.clear()
        self.by_name.update((entry.name, entry) for entry in together)
        self.models = [entry.to_model() for entry in together]
        self.names = [entry.name for entry in together]

    def joined(self, extra: Sequence[ToolDefinition]) -> "Toolset":
        """Return a toolset of these tools and ``extra`` ones after them.

        Raises:
            OptionError: a name is taken.
        """
        own = [entry for entry in self.by_name.values() if entry is not self._last]
        return Toolset([*own, *extra], last=self._last)


def listed_tools(tools: Any) -> list[Any]:
    """Return the entries of the option ``tools``; None is an empty list.

    Raises:
        OptionError: it is no list.
    """
    if tools is None:
        return []
    if isinstance(tools, (str, dict, ToolDefinition)) or not isinstance(tools, Iterable):
        raise OptionError(f"AgentOptions.tools must be a list of tools, not {tools!r}")
    return list(tools)


def submit_output_tool(schema: Any) -> ToolDefinition:
    """Return the tool by which a run with an output schema ends.

    Raises:
        OptionError: ``schema`` is no schema.
    """

    def submit(value: Any) -> ToolResult:
        return ToolResult(SUBMITTED_TEXT, end_turn=True, structured_result=value)

    async def handler(value: Any) -> ToolResult:
        return submit(value)

    try:
        definition: ToolDefinition = tool(
            SUBMIT_OUTPUT_TOOL_NAME,
            "Submit the final output of this run. Call it exactly once, when all work is finished, and alone in its"
            " response, without any other tool call. It ends the run. A run that ends without it has failed.",
            schema,
            handler,
            on_recovery="rerun",
        )
    except OptionError as error:
        raise OptionError(f"AgentOptions.output_schema: {error}", cause=error) from error
    return definition


def concurrency_section(toolset: Toolset, concurrency: ToolConcurrency) -> str:
    """Return what the system prompt says about calls that may overlap; empty where none may."""
    tools = toolset.by_name.values()
    if not tools or concurrency.mode == "sequential":
        return ""
    if concurrency.mode != "all" and not any(entry.is_concurrency_safe is not None for entry in tools):
        return ""
    return (
        "Tool calls: you may request multiple independent tools in one response; put calls that do not need each"
        " other's results together. Use separate responses when a later call needs the result of an earlier one."
    )


def _checked(entry: Any) -> ToolDefinition:
    if not isinstance(entry, ToolDefinition):
        raise OptionError(f"AgentOptions.tools: {entry!r} is not a tool; make one with tool()")
    return entry
