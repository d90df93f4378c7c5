"""What a batch of tool calls runs in, and what comes of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lattice.abort import AbortSignal
from lattice.errors import OptionError
from lattice.journal import ToolJournal
from lattice.tools.tool import UNSET, ToolDefinition

__all__ = ["BatchOutcome", "Lineage", "ToolConcurrency", "ToolEnvironment"]

Trace = Callable[[str, dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConcurrency:
    """Which calls of one response may overlap, and how many at once.

    ``"safe"``: consecutive calls that their tools declare safe; ``"all"``: every call; ``"sequential"``: none.
    """

    mode: Literal["safe", "all", "sequential"] = "safe"
    max_concurrency: int = 10

    def __post_init__(self) -> None:
        if self.mode not in {"safe", "all", "sequential"}:
            raise OptionError(
                f'AgentOptions.tool_concurrency.mode must be "safe", "all", or "sequential", not {self.mode!r}'
            )
        limit = self.max_concurrency
        if type(limit) is not int or limit < 1:
            raise OptionError(
                f"AgentOptions.tool_concurrency.max_concurrency must be a positive integer, not {limit!r}"
            )


@dataclass(slots=True)
class Lineage:
    """Ties the agents that a tool asks to the query that called it: their rows in its trace, their tokens in its total.

    ``tracer`` is None if the query is not traced.
    """

    tracer: Any
    session_id: str
    run_id: str
    usage: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnvironment:
    """Everything that the tool calls of one query share.

    ``exclusive_tool`` must be alone in its batch and is not guarded by ``permission``. ``signal`` is the caller's own,
    handed to handlers as it is; ``interrupt`` fires when the query is interrupted, which ends no batch. ``trace`` takes
    an event type and its data. Results longer than ``max_result_chars`` characters are cut; the whole text is kept in a
    file below ``overflow_dir`` if there is one.
    """

    tools: Mapping[str, ToolDefinition]
    concurrency: ToolConcurrency = field(default_factory=ToolConcurrency)
    policy: Any = None
    permission: Callable[..., Any] | None = None
    exclusive_tool: str | None = None
    on_tool_result: Callable[..., Any] | None = None
    signal: AbortSignal | None = None
    interrupt: AbortSignal | None = None
    context: Any = None
    agent_runtime: Any = None
    permissions: Any = None
    source: dict[str, Any] = field(default_factory=dict)
    trace: Trace | None = None
    journal: ToolJournal | None = None
    max_result_chars: int = 100_000
    overflow_dir: Path | None = None
    lineage: Lineage | None = None


@dataclass(slots=True)
class BatchOutcome:
    """What a batch came to.

    ``results`` holds exactly one ``tool_result`` block per call, in call order. ``error`` is the first error in call
    order. ``aborted`` says that the caller's signal fired, or that the batch policy aborted. ``failure`` is what must
    leave the query once the results are stored: an exception of a hook, a strict tracer or a journal, or the
    cancellation of the task.
    """

    results: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    end_turn: bool = False
    end_turn_text: str = ""
    structured_result: Any = UNSET
    aborted: bool = False
    failure: BaseException | None = None
