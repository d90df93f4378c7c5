"""Failures of work items as data: from an error to ``{code, message, name}`` and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lattice.encoding import clean_text
from lattice.errors import (
    AbortError,
    AgentSetupError,
    APIError,
    AskTimeoutError,
    BudgetExceededError,
    ConcurrentQueryError,
    ConversationLimitError,
    DeadlineExceededError,
    LatticeError,
    LeaseLostError,
    MaxTurnsError,
    MissingOutputError,
    SizeLimitError,
    StoreError,
    TimeoutError,  # noqa: A004 - the documented name
    ToolExecutionError,
    ToolPermissionDeniedError,
)
from lattice.redaction import hide

__all__ = ["AgentRuntimeFailure", "describe", "error_of", "failure_of", "failure_text"]

_LONGEST_MESSAGE = 4_000

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (AgentSetupError, "invalid_agent"),
    (MaxTurnsError, "max_turns_exceeded"),
    (APIError, "api_error"),
    (ToolPermissionDeniedError, "permission_denied"),
    (MissingOutputError, "missing_output"),
    (ToolExecutionError, "tool_execution_error"),
    (AskTimeoutError, "timeout"),
    (TimeoutError, "request_timeout"),
    (ConcurrentQueryError, "conversation_busy"),
    (ConversationLimitError, "conversation_full"),
    (BudgetExceededError, "budget_exceeded"),
    (DeadlineExceededError, "deadline_exceeded"),
    (SizeLimitError, "size_limit"),
    (StoreError, "store_error"),
    (LeaseLostError, "worker_lost"),
    (AbortError, "aborted"),
)

_CLASSES: dict[str, type[LatticeError]] = {
    kind.__name__: kind
    for kind in (
        AgentSetupError,
        MaxTurnsError,
        APIError,
        MissingOutputError,
        ToolExecutionError,
        AskTimeoutError,
        TimeoutError,
        ConcurrentQueryError,
        StoreError,
        LeaseLostError,
        AbortError,
    )
}


@dataclass(frozen=True, slots=True)
class AgentRuntimeFailure:
    """Why a work item failed, as it stands in events and in the metadata of reports."""

    code: str
    message: str
    name: str = "Error"

    def to_dict(self) -> dict[str, str]:
        """Return the wire form."""
        return {"code": self.code, "message": self.message, "name": self.name}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "AgentRuntimeFailure":
        """Read the wire form; what is missing gets a plain default."""
        return cls(
            str(record.get("code") or "agent_error"),
            str(record.get("message") or ""),
            str(record.get("name") or "Error"),
        )


def failure_of(error: BaseException | Mapping[str, Any] | None, fallback: str = "") -> AgentRuntimeFailure:
    """Describe an error; ``fallback`` is the message when there is no error or it says nothing."""
    if isinstance(error, Mapping):
        return AgentRuntimeFailure.from_dict(error)
    if error is None:
        return AgentRuntimeFailure("agent_error", _shorten(fallback), "Error")
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "agent_error")
    message = str(error) or fallback or type(error).__name__
    return AgentRuntimeFailure(code, _shorten(message), type(error).__name__ or "Error")


def error_of(failure: AgentRuntimeFailure) -> LatticeError:
    """Return an error of the class that the failure names, as far as that class can be made of a message."""
    return _CLASSES.get(failure.name, LatticeError)(failure.message)


def failure_text(name: str, failure: AgentRuntimeFailure) -> str:
    """Return the report of a failed work item, as its sender's model reads it."""
    return "\n".join(
        (
            f"Delegated work assigned to {name} failed.",
            f"Error code: {failure.code}",
            f"Reason: {failure.message}",
            "Decide how to go on: retry it, revise the task, continue with what you have, or finish.",
        )
    )


def describe(error: BaseException) -> str:
    """Say what went wrong in one line."""
    return error.message if isinstance(error, LatticeError) else f"{type(error).__name__}: {error}"


def _shorten(message: str) -> str:
    message = hide(clean_text(message))
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + " [...]"
