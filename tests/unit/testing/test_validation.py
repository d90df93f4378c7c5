import pytest

from lattice.testing.validation import RequestValidator

CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "1"}
MARK = {"cache_control": {"type": "ephemeral"}}


def body(*messages, **fields):
    return {"model": "m", "max_tokens": 10, "messages": list(messages) or [user("hi")], **fields}


def user(content):
    return {"role": "user", "content": content}


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


GOOD = [
    body(),
    body(user("hi"), assistant(CALL), user([RESULT])),
    body(tools=[{"name": "a-b_C9"}]),
    body(user([{"type": "text", "text": "x", **MARK}] * 4)),
]
BAD = [
    (None, "JSON object"),
    ({**body(), "model": ""}, "model"),
    ({**body(), "max_tokens": 0}, "max_tokens"),
    ({**body(), "messages": []}, "at least one"),
    (body({"role": "system", "content": "x"}), "role"),
    (body(user("")), "non-empty"),
    (body({**user("x"), "usage": {}}), "Extra inputs"),
    (body(user([{"type": "text", "text": " "}])), "non-whitespace"),
    (body(user("hi"), assistant(CALL), user("no")), "without `tool_result`"),
    (body(user("hi"), assistant(CALL)), "no `tool_result`"),
    (body(user([RESULT])), "unexpected `tool_use_id`"),
    (body(user("hi"), assistant({**CALL, "input": "{"}), user([RESULT])), "valid dictionary"),
    (body(user("hi"), assistant({**CALL, "_mark": 1}), user([RESULT])), "Extra inputs"),
    (body(tools=[{"name": "a.b"}]), "pattern"),
    (body(tools=[{"name": "a" * 129}]), "pattern"),
    (body(tools=[{"name": "a"}, {"name": "a"}]), "unique"),
    (body(user([{"type": "text", "text": "x", **MARK}] * 5)), "maximum of 4"),
    (body(user("a"), assistant({"type": "thinking", "thinking": "x", "signature": "s", **MARK})), "thinking"),
]


@pytest.mark.parametrize("request_body", GOOD)
def test_what_the_provider_takes_is_taken(request_body):
    assert RequestValidator().complaint(request_body) is None


@pytest.mark.parametrize(("request_body", "complaint"), BAD)
def test_what_the_provider_refuses_is_refused(request_body, complaint):
    assert complaint in RequestValidator().complaint(request_body)


def test_a_signed_block_that_was_edited_is_noticed():
    validator = RequestValidator()
    thought = {"type": "thinking", "thinking": "as it was", "signature": "s"}
    validator.remember([thought])
    assert validator.complaint(body(user("a"), assistant(thought), user("b"))) is None
    edited = {**thought, "thinking": "as it was, nearly"}
    assert "cannot be modified" in validator.complaint(body(user("a"), assistant(edited), user("b")))
