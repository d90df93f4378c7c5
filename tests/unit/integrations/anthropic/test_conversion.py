import pytest

from lattice.agent.shared import SharedMessages
from lattice.errors import OptionError
from lattice.integrations.anthropic.conversion import merge_usage, read_message, read_tool_input, to_body
from lattice.model import ModelRequest


def body_of(messages=(), **options):
    return to_body(ModelRequest(**{"model": "m", "max_tokens": 4000, "messages": messages, **options}))


@pytest.mark.parametrize(
    ("config", "wire"),
    [
        ({"type": "adaptive"}, {"type": "adaptive"}),
        ({"type": "disabled"}, {"type": "disabled"}),
        ({"type": "enabled", "budget_tokens": 8000}, {"type": "enabled", "budget_tokens": 3999}),
        ({"type": "enabled", "budgetTokens": 1024}, {"type": "enabled", "budget_tokens": 1024}),
    ],
)
def test_thinking_is_sent_as_documented_with_the_budget_below_max_tokens(config, wire):
    """agent:ANT-05 agent:ANT-06"""
    assert body_of(thinking_config=config)["thinking"] == wire


def test_no_thinking_configuration_sends_none():
    """agent:ANT-05"""
    assert "thinking" not in body_of()


@pytest.mark.parametrize("config", [{"type": "on"}, {"type": "enabled"}, {"type": "enabled", "budget_tokens": "1"}, {}])
def test_a_thinking_configuration_that_is_none_is_refused(config):
    with pytest.raises(OptionError, match="thinking_config"):
        body_of(thinking_config=config)


def test_messages_are_reduced_to_role_and_content():
    """agent:ANT-08 agent:MSG-03"""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assistant = {
        "role": "assistant",
        "content": [thinking, {"type": "tool_use", "id": "t", "name": "n", "input": {}}],
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "stopReason": "tool_use",
        "providerResponseId": "msg",
        "model": "m",
    }
    good = {"type": "tool_result", "tool_use_id": "t", "content": "1", "is_error": False, "note": "ours"}
    bad = {"type": "tool_result", "tool_use_id": "u", "content": "1", "is_error": True}
    sent = body_of([assistant, {"role": "user", "content": [good, bad]}])["messages"]
    assert sent == [
        {"role": "assistant", "content": assistant["content"]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "1"},
                {"type": "tool_result", "tool_use_id": "u", "content": "1", "is_error": True},
            ],
        },
    ]


def test_empty_texts_never_leave_the_house():
    """Stored once, they would be refused with every later request."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": " \n"}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ""}]},
        {"role": "assistant", "content": [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "  "},
    ]
    assert body_of(messages)["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "(no output)"}]},
    ]


@pytest.mark.parametrize("content", [None, [], [{"type": "text", "text": ""}], " "])
def test_a_tool_result_always_says_something(content):
    result = {"type": "tool_result", "tool_use_id": "t", "content": content}
    sent = body_of([{"role": "user", "content": [result]}])["messages"]
    assert sent[0]["content"][0]["content"] == "(no output)"


def test_the_history_is_shared_and_not_changed():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    history = [{"role": "user", "content": [image]}]
    sent = body_of(SharedMessages(history))["messages"]
    assert sent[0]["content"][0] is image
    assert history == [{"role": "user", "content": [image]}]


def test_usage_is_merged_field_by_field():
    """agent:ANT-13"""
    usage = merge_usage({}, {"input_tokens": 1200, "output_tokens": 0, "cache_read_input_tokens": 800})
    merge_usage(usage, {"output_tokens": 512, "input_tokens": None})
    merge_usage(usage, None)
    assert usage == {"input_tokens": 1200, "output_tokens": 512, "cache_read_input_tokens": 800}


def test_absent_usage_leaves_no_key():
    """agent:ANT-13"""
    assert "usage" not in read_message({"content": []})


def test_blocks_are_kept_as_they_came():
    cited = {"type": "text", "text": "x", "citations": [{"url": "u"}]}
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    unsigned = {"type": "thinking", "thinking": "no signature"}
    plain = {"type": "text", "text": "y", "citations": None}
    content = read_message({"content": [cited, server, unsigned, plain]})["content"]
    assert content == [cited, server, unsigned, {"type": "text", "text": "y"}]


@pytest.mark.parametrize("value", ["text", None, [1]])
def test_a_call_whose_input_is_no_object_is_marked(value):
    content = read_message({"content": [{"type": "tool_use", "id": "t", "name": "n", "input": value}]})["content"]
    assert content[0]["input"] == {}
    assert content[0]["_invalid_input"] == "must be a JSON object"


@pytest.mark.parametrize(
    ("fragments", "value", "reason"),
    [
        ('{"a": [1, "é"]}', {"a": [1, "é"]}, None),
        ('{"a": 1', {}, "not valid JSON"),
        ("[" * 100_000, {}, "not valid JSON"),
        ('{"a": Infinity}', {}, "not valid JSON"),
        ("null", {}, "must be a JSON object"),
        ('"text"', {}, "must be a JSON object"),
    ],
)
def test_streamed_input_is_read_or_said_to_be_broken(fragments, value, reason):
    assert read_tool_input(fragments) == (value, reason)
