import pytest

from lattice.errors import (
    AbortError,
    APIError,
    ConcurrentQueryError,
    LatticeError,
    LeaseLostError,
    MaxTurnsError,
    MissingOutputError,
    SizeLimitError,
    TimeoutError,  # noqa: A004 - the documented name
    ToolExecutionError,
    ToolPermissionDeniedError,
)
from lattice.team.failures import AgentRuntimeFailure, error_of, failure_of, failure_text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MaxTurnsError("m"), "max_turns_exceeded"),
        (APIError("m"), "api_error"),
        (ToolPermissionDeniedError({"reason": "m"}), "permission_denied"),
        (MissingOutputError("m"), "missing_output"),
        (ToolExecutionError("m"), "tool_execution_error"),
        (LatticeError("m"), "agent_error"),
        (ValueError("m"), "agent_error"),
    ],
)
def test_codes_by_class(error, code):
    """team:FAIL-05 agent:RT-06"""
    failure = failure_of(error)
    assert (failure.code, failure.message, failure.name) == (code, "m", type(error).__name__)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError("m"), "request_timeout"),
        (ConcurrentQueryError("m"), "conversation_busy"),
        (LeaseLostError("m"), "worker_lost"),
        (SizeLimitError("report", 2, 1), "size_limit"),
    ],
)
def test_what_may_pass_has_a_code_of_its_own(error, code):
    """team:W-13"""
    assert failure_of(error).code == code


def test_the_wire_form_comes_back():
    """team:FAIL-04"""
    failure = failure_of(MaxTurnsError("Reached"))
    assert failure.to_dict() == {"code": "max_turns_exceeded", "message": "Reached", "name": "MaxTurnsError"}
    again = AgentRuntimeFailure.from_dict(failure.to_dict())
    assert again == failure
    assert isinstance(error_of(again), MaxTurnsError)
    assert isinstance(error_of(AgentRuntimeFailure("aborted", "stop", "AbortError")), AbortError)
    assert type(error_of(AgentRuntimeFailure("agent_error", "m", "KeyError"))) is LatticeError


def test_no_error_object_leaves_the_text():
    """team:FAIL-07"""
    assert failure_of(None, "Delegate x failed").message == "Delegate x failed"
    assert failure_of(ValueError(), "said").message == "said"


def test_a_long_or_dirty_message_is_cut_and_cleaned():
    failure = failure_of(ValueError("x" * 10_000))
    assert len(failure.message) < 4_100
    assert "\ud800" not in failure_of(ValueError("a\ud800b")).message


def test_the_report_of_a_failure_has_four_lines():
    """team:FAIL-06"""
    lines = failure_text("worker", AgentRuntimeFailure("api_error", "gone", "APIError")).splitlines()
    assert lines[:3] == ["Delegated work assigned to worker failed.", "Error code: api_error", "Reason: gone"]
    assert len(lines) == 4
