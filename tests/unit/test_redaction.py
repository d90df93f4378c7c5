"""Secrets are taken out of whatever this process tells others."""

import json

import pytest

from lattice import create_jsonl_context_tracer, define_agent, redaction
from lattice.redaction import hide, hide_bytes, hide_value, remember_secrets, secrets_of
from lattice.team.failures import failure_of
from lattice.testing import ScriptedModel

KEY = 'sk-ant-"quoted"-0123456789'


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(redaction, "_known", redaction._Known())


def test_what_nobody_named_stays():
    value = {"a": ["b", KEY]}
    assert hide_value(value) is value
    assert (hide(KEY), hide_bytes(b"x")) == (KEY, b"x")


def test_texts_json_and_data_lose_what_was_named():
    remember_secrets([KEY, None, "short", "sk-ant-"])
    assert hide(f"key {KEY}!") == "key ***!"
    assert json.loads(hide_bytes(json.dumps({"k": f"<{KEY}>"}).encode())) == {"k": "<***>"}
    assert hide_value({"a": [1, {"b": KEY}], "c": ("x", KEY)}) == {"a": [1, {"b": "***"}], "c": ["x", "***"]}
    assert hide("short sk-ant-") == "short sk-ant-"


def test_what_holds_no_secret_is_not_copied():
    remember_secrets([KEY])
    clean = {"messages": [{"role": "user", "content": "hello"}], "n": 1}
    assert hide_value(clean) is clean
    mixed = {"clean": clean, "dirty": KEY}
    assert hide_value(mixed)["clean"] is clean
    assert mixed["dirty"] == KEY


def test_the_longer_secret_is_found_first():
    remember_secrets(["password1", "password1-and-more"])
    assert hide("password1-and-more password1") == "*** ***"


def test_secrets_of_an_environment():
    environ = {
        "ANTHROPIC_API_KEY": "key-value",
        "GITHUB_TOKEN": "token-value",
        "DB_PASSWORD": "password-value",
        "AWS_SECRET_ACCESS_KEY": "aws-value",
        "REDIS_URL": "redis://user:p%40ssword@host:6379/0",
        "PWD": "/home/me",
        "KEYBOARD": "qwertyuiop",
        "MONKEY": "capuchin",
        "PATH": "/usr/bin",
    }
    assert secrets_of(environ) == {
        "key-value", "token-value", "password-value", "aws-value", "p%40ssword", "p@ssword"
    }  # fmt: skip


def test_failures_hold_no_secret():
    remember_secrets([KEY])
    assert failure_of(RuntimeError(f"401 for {KEY}")).message == "401 for ***"


async def test_traces_hold_no_secret_and_the_model_still_sees_what_it_was_told(tmp_path):
    remember_secrets([KEY])
    model = ScriptedModel([f"you said {KEY}"])
    agent = define_agent(name="a", model="m", workspace=False, model_client=model).spawn()
    tracer = create_jsonl_context_tracer(dir=tmp_path)
    result = await agent.prompt(f"the key is {KEY}", tracer=tracer)
    assert KEY in result.result
    assert KEY in str(model.requests[0].messages)
    written = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert "you said ***" in written
    assert json.dumps(KEY)[1:-1] not in written
