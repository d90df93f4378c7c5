"""How a query ends: each way to end, and what of it a result and its trace show."""

from dataclasses import dataclass
from typing import Any

from lattice.agent.model_call import ModelCall
from lattice.agent.overflow import OVERFLOW_STOP
from lattice.errors import (
    AbortError,
    APIError,
    TimeoutError,  # noqa: A004 - the documented name
)
from lattice.events import SDKResultMessage, error_to_dict
from lattice.tools.tool import UNSET

__all__ = ["MISSING_OUTPUT", "Ending", "ending_of_call", "result_data", "wrap_error"]

MISSING_OUTPUT = (
    "Agent ended its turn without calling submit_output. A run with an output schema must end by submitting its output."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a query is going to end."""

    subtype: str
    text: str = ""
    error: BaseException | None = None
    structured_result: Any = UNSET
    paused: bool = False


def ending_of_call(call: ModelCall, *, aborted: bool, timeout_ms: int | None) -> Ending | None:
    """Return how a query ends whose model call was cut short, or whose client gave up by itself; None otherwise."""
    if call.why == "abort" or (call.why is not None and aborted):
        return Ending("error_abort", error=AbortError("Operation was aborted"))
    if call.why == "interrupt":
        return Ending("interrupted")
    if call.why == "timeout":
        error = TimeoutError(f"Model request exceeded request_timeout_ms of {timeout_ms}ms")
        return Ending("error_timeout", error=error)
    if call.why == "mail":  # what the client made of it does not matter
        return None
    if call.error is not None and not isinstance(call.error, Exception):
        raise call.error
    if isinstance(call.error, AbortError):
        return Ending("error_abort", error=call.error)
    if isinstance(call.error, TimeoutError):
        return Ending("error_timeout", error=call.error)
    return None


def wrap_error(error: BaseException | None) -> APIError:
    """Return the ``APIError`` that a result shows for what a client raised; None stands for an overflowed response."""
    if error is None:
        return APIError("The model ran out of its context window; the response was not used", code=OVERFLOW_STOP)
    known = {name: getattr(error, name, None) for name in ("status", "code", "request_id", "retry_after")}
    return APIError(
        str(error) or type(error).__name__, cause=error, retryable=bool(getattr(error, "retryable", False)), **known
    )


def result_data(result: SDKResultMessage) -> dict[str, Any]:
    """Return what the trace says of a result."""
    data: dict[str, Any] = {
        "subtype": result.subtype,
        "is_error": result.is_error,
        "result": result.result,
        "num_turns": result.num_turns,
        "usage": dict(result.usage),
    }
    if result.stop_reason is not None:
        data["stop_reason"] = result.stop_reason
    if result.has_structured_result:
        data["structuredResult"] = result.structured_result
    if result.error is not None:
        data["error"] = error_to_dict(result.error)
    return data
