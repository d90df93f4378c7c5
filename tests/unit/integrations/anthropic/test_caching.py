import copy

import pytest

from lattice.integrations.anthropic.caching import add_breakpoints, caches_by_default

MARK = {"type": "ephemeral"}
TOOLS = [{"name": "a"}, {"name": "b"}]


def marked(body):
    system = body.get("system")
    places = [("tools", index) for index, tool in enumerate(body.get("tools") or ()) if "cache_control" in tool]
    if isinstance(system, list):
        places += [("system", index) for index, block in enumerate(system) if "cache_control" in block]
    for index, message in enumerate(body["messages"]):
        if not isinstance(message["content"], str):
            places += [(index, at) for at, block in enumerate(message["content"]) if "cache_control" in block]
    return places


def conversation(turns):
    messages = [{"role": "user", "content": "start"}]
    for turn in range(turns):
        call = {"type": "tool_use", "id": str(turn), "name": "a", "input": {}}
        result = {"type": "tool_result", "tool_use_id": str(turn), "content": "r"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


def test_four_breakpoints_and_nothing_shared_is_changed():
    body = {"system": "You are.", "tools": TOOLS, "messages": conversation(3)}
    before = copy.deepcopy(body)
    result = add_breakpoints(body)
    assert marked(result) == [("tools", 1), ("system", 0), (4, 0), (6, 0)]
    assert body == before
    assert result["system"] == [{"type": "text", "text": "You are.", "cache_control": MARK}]


def test_the_breakpoint_before_last_is_where_the_request_before_ended():
    last = marked(add_breakpoints({"messages": conversation(4)}))[-1]
    assert last in marked(add_breakpoints({"messages": conversation(5)}))


def test_a_text_prompt_becomes_a_marked_block():
    result = add_breakpoints({"messages": [{"role": "user", "content": "hi"}], "tools": []})
    assert result["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}]


def test_what_the_host_marked_counts_and_stays():
    blocks = [{"type": "text", "text": str(n), "cache_control": {"type": "ephemeral", "ttl": "1h"}} for n in range(3)]
    body = {"system": "s", "tools": TOOLS, "messages": [{"role": "user", "content": blocks}, *conversation(1)[1:]]}
    places = marked(add_breakpoints(body))
    assert len(places) == 4
    assert places[:3] == [(0, 0), (0, 1), (0, 2)]


def test_a_block_that_cannot_carry_a_mark_gets_none():
    content = [{"type": "text", "text": "x"}, {"type": "container_upload", "file_id": "f"}]
    assert marked(add_breakpoints({"messages": [{"role": "user", "content": content}]})) == [(0, 0)]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.anthropic.com", True),
        ("https://api.anthropic.com/v1", True),
        ("https://api.deepseek.com/anthropic", False),
        ("https://anthropic.com.example.org", False),
        ("https://notanthropic.com", False),
        ("http://127.0.0.1:8080", False),
    ],
)
def test_only_anthropic_itself_caches_by_default(url, expected):
    assert caches_by_default(url) is expected
