import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from lattice.integrations.opentelemetry import continue_trace, current_traceparent

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_a_span_there_is_nothing_to_pass_on():
    assert current_traceparent() is None


def test_what_is_passed_on_is_continued():
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("sender") as sender:
        passed = current_traceparent()
    with continue_trace(passed), tracer.start_as_current_span("receiver") as receiver:
        assert receiver.parent.span_id == sender.get_span_context().span_id
        assert receiver.get_span_context().trace_id == sender.get_span_context().trace_id
    assert current_traceparent() is None


def test_a_traceparent_is_handed_through_where_nothing_is_recorded():
    with continue_trace(TRACEPARENT):
        assert current_traceparent() == TRACEPARENT


@pytest.mark.parametrize("nonsense", [None, "", "hello", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_nonsense_continues_nothing(nonsense):
    with continue_trace(nonsense):
        assert not trace.get_current_span().get_span_context().is_valid
