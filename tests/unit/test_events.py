"""Events have a wire form that can be read back."""

import dataclasses

import pytest

from lattice import (
    AgentMessageEvent,
    APIError,
    MaxTurnsError,
    OptionError,
    SDKAssistantMessage,
    SDKResultMessage,
    SDKStreamEvent,
    SDKSystemCompactionMessage,
    SDKSystemInitMessage,
    SDKUserMessage,
    TeamAgentEvent,
    TeamMessageEvent,
    event_from_dict,
)
from lattice.encoding import decode, encode
from lattice.events import error_from_dict, error_to_dict

SOURCE = {"kind": "team_member", "name": "backend", "member": "backend", "mailbox": "eng::backend"}
USAGE = {"input_tokens": 1, "output_tokens": 2}

EVENTS = [
    SDKSystemInitMessage("m", ["Read"], "s"),
    SDKSystemCompactionMessage("s", 3, 2, 500, USAGE),
    SDKStreamEvent({"type": "ping"}, "s"),
    SDKStreamEvent({"type": "ping"}, "s", SOURCE),
    SDKAssistantMessage({"role": "assistant", "content": []}, "s"),
    SDKUserMessage({"role": "user", "content": []}, "s", "text"),
    SDKResultMessage("success", False, "hi", "s", 1, USAGE, stop_reason="end_turn"),
    SDKResultMessage("success", False, "", "s", 1, USAGE, structured_result={"a": 1}, has_structured_result=True),
    TeamMessageEvent("sent", SOURCE, "eng::backend", {"id": "1"}),
    TeamAgentEvent("started", SOURCE),
    AgentMessageEvent(SOURCE, SDKAssistantMessage({"role": "assistant", "content": []}, "s")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.type}-{getattr(event, 'subtype', '')}")
def test_there_and_back(event):
    wire = decode(encode(event.to_dict()))
    assert wire["type"] == event.type
    assert event_from_dict(wire) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events_cannot_be_changed(event):
    name = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, 1)


def test_shapes_on_the_wire():
    """agent:EVT-02, agent:EVT-09, team:EVT-02, team:EVT-03, team:EVT-04, team:EVT-05"""
    assert EVENTS[1].to_dict() == {
        "type": "system",
        "subtype": "compaction",
        "session_id": "s",
        "compacted_messages": 3,
        "retained_messages": 2,
        "trigger_input_tokens": 500,
        "usage": USAGE,
    }
    assert EVENTS[3].to_dict() == {
        "type": "stream_event",
        "event": {"type": "ping"},
        "session_id": "s",
        "source": SOURCE,
    }
    assert EVENTS[8].to_dict() == {
        "type": "team_message",
        "subtype": "sent",
        "source": SOURCE,
        "mailbox": "eng::backend",
        "message": {"id": "1"},
    }
    assert EVENTS[9].to_dict() == {"type": "team_agent", "subtype": "started", "source": SOURCE}
    assert EVENTS[10].to_dict()["message"]["type"] == "assistant"
    assert "structuredResult" in EVENTS[7].to_dict()
    assert "error" not in EVENTS[6].to_dict()


def test_errors_there_and_back():
    error = APIError("slow down", status=429, code="rate_limit_error", retryable=True)
    result = SDKResultMessage("error", True, "", "s", 1, USAGE, error=error)
    read = event_from_dict(decode(encode(result.to_dict()))).error
    assert isinstance(read, APIError)
    assert (str(read), read.status, read.code, read.retryable) == ("slow down", 429, "rate_limit_error", True)
    assert error_to_dict(MaxTurnsError("n")) == {"name": "MaxTurnsError", "message": "n"}
    assert isinstance(error_from_dict({"name": "MaxTurnsError", "message": "n"}), MaxTurnsError)
    assert type(error_from_dict({"name": "ToolBatchRejectedError", "message": "n"})).__name__ == "LatticeError"
    assert str(error_from_dict({"name": "KeyError", "message": "k"})) == "k"


@pytest.mark.parametrize("wire", [{"type": "news"}, {"type": "system"}, {}, {"type": "result", "subtype": "success"}])
def test_what_is_no_event_is_refused(wire):
    with pytest.raises(OptionError, match="event of type"):
        event_from_dict(wire)


def test_fields_of_later_versions_are_left_out():
    assert event_from_dict({**EVENTS[0].to_dict(), "new_field": 1}) == EVENTS[0]
