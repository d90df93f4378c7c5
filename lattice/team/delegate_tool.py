"""``delegate_tool()``: a mailbox-backed delegate for hosts that build their own runners."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypedDict

from lattice.errors import LatticeError, OptionError, ToolExecutionError
from lattice.team.agent_tool import check_options, check_target, receipt
from lattice.team.delegation import DelegateRequest
from lattice.team.failures import error_of
from lattice.team.names import clean_tool_name
from lattice.tools.tool import ToolContext, ToolDefinition, tool
from lattice.workspace.grants import normalise_grants

__all__ = ["DelegateToolOptions", "delegate_tool"]

_INPUT = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "What is to be done."}},
    "required": ["task"],
    "additionalProperties": False,
}


class DelegateToolOptions(TypedDict, total=False):
    """What ``delegate_tool()`` takes besides name, description and agent."""

    wait: Literal["result", "accepted"] | None
    target_mailbox_id: str | None
    workspace_grants: Any


def delegate_tool(
    name: str, description: str, agent: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any
) -> ToolDefinition:
    """Offer an agent to a model as a delegate of a team runtime.

    Args:
        name: what the model calls it; also its mailbox, unless ``target_mailbox_id`` is given.
        description: what the model reads about it.
        agent: an ``AgentSpec`` or anything with ``query``.
        options: the same as ``keywords``, as a dict.
        keywords: ``wait`` (``"result"`` waits for the result, ``"accepted"`` hands off), ``target_mailbox_id``,
            ``workspace_grants`` that go with every task.

    Raises:
        OptionError: an option is unknown or cannot be used.
    """
    given: dict[str, Any] = {**(options or {}), **keywords}
    cleaned = clean_tool_name(name)
    label = f'delegateTool("{cleaned}")'
    check_options(label, given, DelegateToolOptions.__annotations__)
    check_target(label, agent)
    if given.get("wait") not in {None, "result", "accepted"}:
        raise OptionError(f'{label}: wait must be "result" or "accepted", not {given["wait"]!r}')
    normalise_grants(given.get("workspace_grants"))
    definition: ToolDefinition = tool(cleaned, description, _INPUT, _DelegateTool(cleaned, label, agent, given))
    return replace(definition, kind="agent_tool")


class _DelegateTool:
    """The handler of a delegate tool."""

    __slots__ = ("_label", "_name", "_options", "target", "target_mailbox_id")

    def __init__(self, name: str, label: str, target: Any, options: Mapping[str, Any]) -> None:
        self._name, self._label, self.target, self._options = name, label, target, options
        self.target_mailbox_id = options.get("target_mailbox_id")

    async def __call__(self, value: dict[str, Any], context: ToolContext) -> str:
        runtime = context.agent_runtime
        if runtime is None:
            raise LatticeError(
                f"{self._label} requires an AgentRuntime. Use create_team_runner().query() or"
                " create_team_runner().prompt()."
            )
        accepted = self._options.get("wait") == "accepted"
        result = await runtime.delegate(
            DelegateRequest(
                name=self._name,
                agent=self.target,
                task=value["task"],
                wait="accepted" if accepted else "result",
                target_mailbox_id=self.target_mailbox_id,
                workspace_grants=self._options.get("workspace_grants"),
                tool_use_id=context.tool_use_id,
            )
        )
        if accepted:
            return receipt(result)
        if result.error is not None:
            raise ToolExecutionError(result.content, cause=error_of(result.error))
        return str(result.content)
