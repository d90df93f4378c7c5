"""Checks, when a team is made, that the tools of its agents and those that the team adds can be told apart."""

from collections.abc import Iterable
from typing import Any

from lattice.agent.agent import Agent
from lattice.agent.spec import AgentSpec
from lattice.agent.toolset import SUBMIT_OUTPUT_TOOL_NAME, listed_tools
from lattice.errors import OptionError
from lattice.tools.builtin import BUILTIN_TOOL_NAMES
from lattice.tools.tool import ToolDefinition

__all__ = ["check_added_tools"]


def check_added_tools(who: str, agent: Any, added: Iterable[ToolDefinition]) -> None:
    """Refuse a tool of the team that is named like one which its agent has already; ``who`` names the agent in errors.

    Raises:
        OptionError: there is one.
    """
    own = _own_tool_names(agent)
    for definition in added:
        if definition.name in own:
            reserved = " (the name is reserved)" if definition.name == SUBMIT_OUTPUT_TOOL_NAME else ""
            raise OptionError(
                f'{who} has a tool "{definition.name}" of its own{reserved}, and the team adds one of that name;'
                " rename the member or the tool (workspace=False leaves the built-in tools out)"
            )


def _own_tool_names(agent: Any) -> set[str]:
    if isinstance(agent, Agent):
        return set(agent.toolset.names)
    if not isinstance(agent, AgentSpec):
        return set()
    names = {str(getattr(entry, "name", "")) for entry in listed_tools(agent.options.get("tools"))}
    if agent.options.get("workspace") is not False:
        names.update(BUILTIN_TOOL_NAMES)
    if agent.output_schema is not None:
        names.add(SUBMIT_OUTPUT_TOOL_NAME)
    return names
