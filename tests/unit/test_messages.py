"""Messages: reading, cleaning, sharing, repairing."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.messages import (
    MalformedMessageError,
    add_usage,
    input_tokens,
    read_assistant,
    read_prompt,
    repaired,
    text_of,
)
from tests.unit.agent.support import problems_of


@pytest.mark.parametrize("prompt", ["", " \n", None, 3, [], {}, [{"type": "text"}], ["x"]])
def test_prompts_that_are_none(prompt):
    with pytest.raises(MalformedMessageError):
        read_prompt(prompt)


def test_reading_an_answer():
    message = read_assistant({"content": "hi", "stop_reason": "end_turn", "usage": {"input_tokens": 1}})
    assert message == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 1},
        "stopReason": "end_turn",
    }
    signed = {"type": "thinking", "thinking": "odd \ud800", "signature": "x"}
    assert read_assistant({"content": [signed]})["content"] == [signed]
    kept = read_assistant({"content": [{"type": "text", "text": " "}, {"type": "tool_use", "name": "a"}]})["content"]
    assert [block["type"] for block in kept] == ["tool_use"]
    assert kept[0]["id"]
    assert kept[0]["input"] == {}
    with pytest.raises(MalformedMessageError, match="must name its tool"):
        read_assistant({"content": [{"type": "tool_use"}]})


def test_an_answer_that_is_nested_without_end_is_malformed():
    deep = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(MalformedMessageError, match="nested too deeply"):
        read_assistant({"content": [{"type": "tool_use", "id": "t", "name": "a", "input": deep}]})


def test_usage():
    total = {"input_tokens": 0, "output_tokens": 0}
    add_usage(total, {"input_tokens": 1, "cache_read_input_tokens": 0, "output_tokens": None})
    add_usage(total, None)
    add_usage(total, {"cache_read_input_tokens": 4})
    assert total == {"input_tokens": 1, "output_tokens": 0, "cache_read_input_tokens": 4}
    assert input_tokens({"input_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}) == 7
    assert input_tokens(None) == 0


def test_text_of():
    """agent:EXEC-11"""
    assert text_of("a") == "a"
    assert text_of([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]) == "ab"
    assert text_of(None) == ""


ids = st.sampled_from("abc")
blocks = st.one_of(
    st.builds(lambda name: {"type": "tool_use", "id": name, "name": "t", "input": {}}, ids),
    st.just({"type": "text", "text": "x"}),
)
results = st.builds(lambda name: {"type": "tool_result", "tool_use_id": name, "content": "r"}, ids)
histories = st.lists(
    st.one_of(
        st.builds(
            lambda content: {"role": "assistant", "content": content},
            st.lists(blocks, min_size=1, max_size=3, unique_by=lambda block: block.get("id", id(block))),
        ),
        st.builds(
            lambda content: {"role": "user", "content": content},
            st.one_of(st.just("hello"), st.lists(results, min_size=1, max_size=3)),
        ),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(histories)
def test_any_stored_history_can_be_made_whole(history):
    before = copy.deepcopy(history)
    fixed = repaired(history)
    assert history == before
    ends_open = bool(fixed) and fixed[-1]["role"] == "assistant"
    assert problems_of(fixed[:-1] if ends_open else fixed) == [] or problems_of(fixed) == problems_of(fixed[-1:])
    assert repaired(fixed) is fixed
