"""Every error that lattice raises, in one tree.

    LatticeError
    ├── OptionError (also a ValueError)   an option that cannot be used; raised before anything starts
    ├── AgentSetupError                   an agent cannot be made of its template; trying again does not help
    ├── APIError                          the model provider refused or broke off a request
    ├── ToolExecutionError                a tool handler failed
    ├── ToolPermissionDeniedError         a tool was refused what it asked for
    ├── ToolBatchRejectedError            a batch of tool calls was refused before any of them ran
    ├── MaxTurnsError                     an agent used up its turns
    ├── MissingOutputError                an agent with an output schema ended without submitting
    ├── AbortError                        the caller's signal ended the work
    ├── TimeoutError (also the builtin)   a deadline passed
    │   └── AskTimeoutError               an agent that was asked has not answered in time
    ├── ConcurrentQueryError              an agent was asked twice at once
    ├── SizeLimitError                    a text is larger than a mailbox takes
    ├── ConversationLimitError            a conversation has become larger than the store keeps
    ├── LeaseLostError                    a late write by somebody whose lease is gone
    ├── RunHeldError                      another coordinator drives this run
    ├── BudgetExceededError               a run has used up its model calls or tokens
    ├── DeadlineExceededError             a run has used up its time
    ├── RunParkedError                    a coordinator that leaves has handed the run over
    ├── StoreError                        a mailbox, history or run store broke
    └── AppError                          the app that defines a team cannot be used

The docstring of a class is its default message; what went wrong is kept as attributes.
"""

import builtins
from typing import Any

__all__ = [
    "APIError",
    "AbortError",
    "AgentSDKError",
    "AgentSetupError",
    "AppError",
    "AskTimeoutError",
    "BudgetExceededError",
    "ConcurrentQueryError",
    "ConversationLimitError",
    "DeadlineExceededError",
    "LatticeError",
    "LeaseLostError",
    "MaxTurnsError",
    "MissingOutputError",
    "OptionError",
    "RunHeldError",
    "RunParkedError",
    "SizeLimitError",
    "StoreError",
    "TimeoutError",
    "ToolBatchRejectedError",
    "ToolExecutionError",
    "ToolPermissionDeniedError",
]


class LatticeError(Exception):
    """Something in lattice went wrong."""

    def __init__(self, message: str | None = None, *, cause: BaseException | None = None) -> None:
        """Take the message, or the class docstring; remember what caused it."""
        super().__init__(message if message is not None else (type(self).__doc__ or "").strip())
        if cause is not None:
            self.__cause__ = cause

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self.args[0]) if self.args else ""

    @property
    def name(self) -> str:
        """The class name, as it stands on the wire."""
        return type(self).__name__

    @property
    def cause(self) -> BaseException | None:
        """The error that led to this one."""
        return self.__cause__


AgentSDKError = LatticeError
"""The name that the documentation uses for the root of the tree."""


class OptionError(LatticeError, ValueError):
    """An option has a value that cannot be used."""


class AgentSetupError(LatticeError):
    """An agent cannot be made of its template."""


class APIError(LatticeError):
    """The model provider refused or broke off a request.

    ``status`` is the HTTP status if there was one, ``code`` the provider's error type, ``request_id`` its id for the
    request, ``retryable`` whether the same request may succeed later, ``retry_after`` the seconds it asked to wait.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        cause: BaseException | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, cause=cause)
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after


class ToolExecutionError(LatticeError):
    """A tool handler failed."""


class ToolPermissionDeniedError(LatticeError):
    """A tool was refused what it asked for."""

    def __init__(self, denial: Any) -> None:
        """Take the denial record; its ``reason`` is the message."""
        reason = denial.get("reason") if isinstance(denial, dict) else getattr(denial, "reason", None)
        super().__init__(str(reason) if reason else None)
        self.denial = denial


class ToolBatchRejectedError(LatticeError):
    """A batch of tool calls was refused before any of them ran."""

    def __init__(self, rejection: Any) -> None:
        """Take the rejection record; its ``message`` is the message."""
        text = rejection.get("message") if isinstance(rejection, dict) else getattr(rejection, "message", None)
        super().__init__(str(text) if text else None)
        self.rejection = rejection


class MaxTurnsError(LatticeError):
    """The agent reached its maximum number of turns."""


class MissingOutputError(LatticeError):
    """Agent ended its turn without calling submit_output."""


class AbortError(LatticeError):
    """Operation aborted"""  # noqa: D415 - it is the message, to the letter


class TimeoutError(LatticeError, builtins.TimeoutError):  # noqa: A001 - the documented name
    """A deadline passed."""


class AskTimeoutError(TimeoutError):
    """An agent that was asked has not answered in time."""


class ConcurrentQueryError(LatticeError):
    """The agent is already running a query."""


class SizeLimitError(LatticeError):
    """A text is larger than a mailbox takes."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        """Name what is too large; ``size`` and ``limit`` are bytes."""
        super().__init__(
            f"{what} has {size} bytes, the limit is {limit}. Write it to a file and send the path instead."
        )
        self.what = what
        self.size = size
        self.limit = limit


class ConversationLimitError(LatticeError):
    """A conversation is larger than the store keeps."""

    def __init__(self, size: int, limit: int) -> None:
        """Take its size and the limit, both in bytes."""
        super().__init__(
            f"The conversation has {size} bytes, the limit is {limit}. Let the agent compact it, give each work item a"
            " conversation of its own, or raise max_conversation_bytes."
        )
        self.size = size
        self.limit = limit


class LeaseLostError(LatticeError):
    """The lease on this work is gone: somebody else holds it, or the work has ended."""


class RunHeldError(LatticeError):
    """Another coordinator drives this run."""


class BudgetExceededError(LatticeError):
    """The run has used up its budget of model calls or tokens."""


class DeadlineExceededError(LatticeError):
    """The run has used up its time."""


class RunParkedError(LatticeError):
    """This coordinator has handed the run over before its end."""


class StoreError(LatticeError):
    """A mailbox, history or run store failed."""


class AppError(LatticeError):
    """The app that defines the team cannot be used."""
