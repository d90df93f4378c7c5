"""An agent as a template: options without a conversation, from which sessions are made."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lattice.agent.agent import Agent, AgentLike
from lattice.agent.options import FrozenOptions, read_agent_options

__all__ = ["AgentSpec", "AgentToolTarget", "is_agent_spec"]


class AgentSpec:
    """A stateless template; made by ``define_agent()``."""

    __slots__ = ("_build", "options")

    def __init__(self, options: Mapping[str, Any], build: Callable[[dict[str, Any]], Agent]) -> None:
        read_agent_options(options)
        self.options = FrozenOptions(options)
        self._build = build

    @property
    def name(self) -> str | None:
        """The name from the options."""
        name = self.options.get("name")
        return str(name) if name else None

    @property
    def output_schema(self) -> Any:
        """The very object given as ``output_schema``; None if there is none."""
        return self.options.get("output_schema")

    def spawn(self, **overrides: Any) -> Agent:
        """Make an independent session with its own history and workspace; ``overrides`` replace options.

        Raises:
            OptionError: an override is unknown or has a value that cannot be used.
        """
        return self._build({**self.options, **{name: value for name, value in overrides.items() if value is not None}})

    def __repr__(self) -> str:
        return f"AgentSpec(name={self.name!r}, model={self.options.get('model')!r})"


AgentToolTarget: TypeAlias = AgentLike | AgentSpec
"""What ``agent_tool()`` and ``delegate_tool()`` take: a live session, or a template."""


def is_agent_spec(target: Any) -> bool:
    """Whether ``target`` is a template (it can ``spawn``) and not a live session."""
    return callable(getattr(target, "spawn", None))
