"""Types of what a host passes in and returns, under their documented names."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from lattice.tools.environment import ToolConcurrency
from lattice.tools.execution import ToolResultContext
from lattice.tools.policy import BatchPolicyContext

__all__ = [
    "AgentWorkspaceOptions",
    "AgentWorkspaceToolsOptions",
    "OutputSchema",
    "PermissionDecision",
    "ToolBatchPolicy",
    "ToolBatchPolicyContext",
    "ToolBatchPolicyResult",
    "ToolConcurrencyMode",
    "ToolConcurrencyOptions",
    "ToolOptions",
    "ToolResultHookContext",
]

ToolConcurrencyMode: TypeAlias = Literal["safe", "all", "sequential"]
ToolConcurrencyOptions: TypeAlias = ToolConcurrency
ToolResultHookContext: TypeAlias = ToolResultContext
ToolBatchPolicyContext: TypeAlias = BatchPolicyContext


class ToolOptions(TypedDict, total=False):
    """The options of ``tool()`` beyond name, description, schema and handler."""

    is_concurrency_safe: Callable[[Any], Any] | bool
    metadata: dict[str, Any]
    on_recovery: Literal["unknown", "rerun"]
    timeout_ms: int


class ToolBatchPolicyResult(TypedDict):
    """What a batch policy answers."""

    allowed: bool
    code: NotRequired[str]
    message: NotRequired[str]
    conflicting_tool_call_ids: NotRequired[list[str]]
    suggested_next_step: NotRequired[str]


class ToolBatchPolicy(Protocol):
    """Judges a whole batch of tool calls before any of them runs; ``def`` or ``async def``."""

    def validate(self, context: BatchPolicyContext) -> Any:
        """Return a ``ToolBatchPolicyResult``."""
        ...


class PermissionDecision(TypedDict):
    """What a permission callback answers."""

    behavior: Literal["allow", "deny"]
    message: NotRequired[str]


class OutputSchema(Protocol):
    """Anything that turns a raw value into a checked one, or raises."""

    def parse(self, value: Any) -> Any:
        """Return the checked value."""
        ...


class AgentWorkspaceToolsOptions(TypedDict, total=False):
    """The options of ``create_builtin_tools()``."""

    cwd: str | os.PathLike[str]
    allowed_directories: Sequence[str | os.PathLike[str]]
    bash_timeout_ms: int
    bash_env: Mapping[str, str]
    confine_reads: bool


AgentWorkspaceOptions: TypeAlias = str | os.PathLike[str] | AgentWorkspaceToolsOptions | Literal[False]
