import pytest

from lattice.errors import APIError
from lattice.integrations.tracing import facts


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"kind": "agent", "name": "ada", "member": "m"}, "ada"),
        ({"kind": "team_member", "member": "m", "team": "t"}, "m"),
        ({"kind": "root", "team": "t"}, "t"),
        ({"kind": "root"}, "root"),
    ],
)
def test_a_run_is_called_by_what_is_known_of_it(source, name):
    """agent:LS-04"""
    assert facts.run_name(source) == name


def test_metadata_puts_ours_over_the_hosts_and_leaves_out_what_is_unknown(events):
    """agent:LS-05"""
    source = {"kind": "team_member", "team": "t", "member": "m", "mailbox": "t/m"}
    event = events("run_start", source=source, parent="p", model="x", tools=["a"])
    host = {"stage": "test", "sdk_trace_seq": "mine"}
    assert facts.metadata_of(event, host, facts.run_metadata(event)) == {
        "stage": "test",
        "sdk_trace_version": 1,
        "sdk_trace_seq": 1,
        "sdk_session_id": "s1",
        "sdk_run_id": "r1",
        "sdk_parent_run_id": "p",
        "sdk_source_kind": "team_member",
        "sdk_source_team": "t",
        "sdk_source_member": "m",
        "sdk_source_mailbox": "t/m",
        "model": "x",
        "tools": ["a"],
    }


def test_tags_stand_in_order_and_once():
    """agent:LS-06"""
    source = {"kind": "team_member", "team": "t", "member": "m", "mailbox": "b"}
    assert facts.tags_of(source, ["run:llm"], ["mine", "context-trace"]) == [
        "agent-lattice",
        "context-trace",
        "source:team_member",
        "run:llm",
        "mine",
        "team:t",
        "member:m",
        "mailbox:b",
    ]


def test_the_system_prompt_becomes_the_first_message_unless_there_is_one(events):
    """agent:LS-07"""
    message = {"role": "user", "content": "hi"}
    with_prompt = facts.call_inputs(events("model_request", systemPrompt="Be.", messages=[message]))
    assert with_prompt["messages"] == [{"role": "system", "content": "Be."}, message]
    assert facts.call_inputs(events("model_request", systemPrompt=" ", messages=[message]))["messages"] == [message]
    given = [{"role": "system", "content": "x"}]
    assert facts.call_inputs(events("model_request", systemPrompt="Be.", messages=given))["messages"] == given


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"error": {"name": "X", "message": "broken"}, "result": "r"}, "broken"),
        ({"error": APIError("refused")}, "refused"),
        ({"result": "the result"}, "the result"),
        ({"content": "the content"}, "the content"),
        ({"content": [{"type": "text"}], "result": ""}, "The run ended with an error"),
    ],
)
def test_the_text_of_an_error_is_taken_from_what_there_is(data, text):
    """agent:LS-12"""
    assert facts.error_text(data) == text


def test_values_become_plain():
    class Odd:
        def __str__(self):
            return "odd"

    value = {"error": ValueError("no"), "tuple": (1, 2.5), "nan": float("nan"), "odd": Odd(), 3: None}
    assert facts.plain(value) == {
        "error": {"name": "ValueError", "message": "no"},
        "tuple": [1, 2.5],
        "nan": "nan",
        "odd": "odd",
        "3": None,
    }
