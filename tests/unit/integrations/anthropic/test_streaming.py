import pytest

from lattice.integrations.anthropic.streaming import IncompleteStreamError, StreamAssembly, StreamRelay
from lattice.testing.sse import stream_events

MESSAGE = {
    "id": "msg_1",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "I think. ", "signature": "sig"},
        {"type": "text", "text": "A text that is longer than a piece."},
        {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 20},
}
STOP = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


def assemble(events):
    assembly = StreamAssembly()
    for event in events:
        assembly.add(event)
    return assembly.finish()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_message_does_not_depend_on_how_it_was_cut(size):
    """agent:ANT-11"""
    message = assemble(stream_events(MESSAGE, size))
    assert message["content"] == MESSAGE["content"]
    assert message["usage"] == MESSAGE["usage"]
    assert message["stopReason"] == "tool_use"


def test_every_prefix_of_a_stream_is_incomplete():
    events = list(stream_events(MESSAGE, 16))
    for length in range(len(events)):
        with pytest.raises(IncompleteStreamError):
            assemble(events[:length])


def test_a_call_without_fragments_keeps_the_input_it_started_with():
    block = {"type": "tool_use", "id": "t", "name": "n", "input": {"x": 1}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    assert assemble([start, *STOP])["content"] == [block]


def test_citations_are_gathered():
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "", "citations": None},
    }
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": url}}}
        for url in "ab"
    ]
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
    message = assemble([start, text, *deltas, *STOP])
    assert message["content"] == [{"type": "text", "text": "x", "citations": [{"url": "a"}, {"url": "b"}]}]


def test_events_of_unknown_kinds_are_ignored():
    """agent:ANT-11"""
    odd = [{"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "new": 1}}, {"type": "new"}]
    assert assemble([*odd, *STOP])["content"] == []


def shown_by(*attempts):
    shown = []
    relay = StreamRelay(shown.append)
    for events in attempts:
        relay.begin()
        for event in events:
            relay.pass_on(event)
    return shown


def test_a_relay_shows_the_first_attempt_as_it_is():
    """agent:ANT-17"""
    events = list(stream_events(MESSAGE, 5))
    assert shown_by(events) == events


@pytest.mark.parametrize("sizes", [(5, 5), (3, 11), (11, 3)])
def test_a_repeated_stream_ends_up_shown_once(sizes):
    first, second = (list(stream_events(MESSAGE, size)) for size in sizes)
    for cut in range(len(first) - 1):
        shown = shown_by(first[:cut], second)
        assert assemble(shown)["content"] == MESSAGE["content"], cut
        assert [event["type"] for event in shown].count("message_start") == 1
        assert [event["type"] for event in shown].count("message_stop") == 1


def test_three_attempts_continue_where_the_longest_one_stopped():
    events = list(stream_events(MESSAGE, 5))
    assert assemble(shown_by(events[:9], events[:4], events))["content"] == MESSAGE["content"]


def test_a_different_answer_is_not_shown_behind_the_first():
    other = {**MESSAGE, "content": [{"type": "thinking", "thinking": "Other.", "signature": "x"}]}
    events = list(stream_events(MESSAGE, 5))
    shown = shown_by(events[:4], stream_events(other, 5))
    assert shown == [*events[:4], *list(stream_events(other, 5))[-2:]]
