"""The seam between an agent and what drives it: a team runtime, or a worker process."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from lattice.tools.tool import ToolDefinition

__all__ = ["PAUSED_TEXT", "AgentRuntime", "AgentRuntimeContext", "optional_method"]

PAUSED_TEXT = "Delegated work was queued. Waiting for team runtime reports before continuing."
"""The result text of a query that its runtime paused."""


@runtime_checkable
class AgentRuntime(Protocol):
    """What an agent takes from its runtime; handed over as the query option ``runtime``.

    More methods are used where they exist: ``before_model_call()`` may raise to stop the work, and so may
    ``before_sending()``, which is asked when nothing is waited for any more before the request leaves;
    ``mail_after_tool_batch()`` returns content blocks that follow the tool results in the conversation;
    ``should_pause_after_tool_batch()`` ends the query after a batch. Each may be ``def`` or ``async def``. While
    ``has_urgent_mail()`` (a ``def``) is true, ``mail_after_tool_batch()`` is also asked before a model call.
    """

    source: dict[str, Any]
    permissions: Any

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """Return tools for this query only, offered after the agent's own."""
        ...

    async def delegate(self, request: Any) -> Any:
        """Have another agent do something."""
        ...

    def emit(self, event: Any) -> Any:
        """Tell the run's listeners something."""
        ...


AgentRuntimeContext = AgentRuntime
"""The documented name of the type."""


def optional_method(runtime: Any, name: str) -> Any:
    """Return a method of the runtime, or None if it has none."""
    method = getattr(runtime, name, None)
    return method if callable(method) else None
