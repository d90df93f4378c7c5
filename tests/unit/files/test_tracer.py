"""Traces in files of JSON lines."""

import dataclasses
import json

import pytest

from lattice import APIError, OptionError, create_bare_agent, create_jsonl_context_tracer, define_context_tracer
from lattice.testing import ScriptedModel
from lattice.tracer import ContextTraceEvent


def event(**changes):
    values = {
        "version": 1,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "seq": 1,
        "session_id": "s-1",
        "run_id": "r",
        "source": {"kind": "agent"},
        "type": "user_message",
        "data": {"message": "hällo"},
    }
    return ContextTraceEvent(**{**values, **changes})


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_path_or_dir(tmp_path):
    """agent:JSONL-01, agent:JSONL-02, agent:JSONL-03, agent:JSONL-05"""
    with pytest.raises(OptionError, match="create_jsonl_context_tracer requires either path or dir"):
        create_jsonl_context_tracer()
    with pytest.raises(OptionError, match="redact must be callable"):
        create_jsonl_context_tracer(path="x", redact=3)
    both = create_jsonl_context_tracer(path=tmp_path / "a" / "t.jsonl", dir=tmp_path / "b")
    both.on_event(event())
    create_jsonl_context_tracer(path=tmp_path / "a" / "t.jsonl").on_event(event(seq=2))
    assert [row["seq"] for row in rows(tmp_path / "a" / "t.jsonl")] == [1, 2]
    assert not (tmp_path / "b").exists()
    by_session = create_jsonl_context_tracer(dir=str(tmp_path / "b"))
    by_session.on_event(event())
    by_session.on_event(event(session_id="s-2"))
    assert sorted(entry.name for entry in (tmp_path / "b").iterdir()) == ["s-1.jsonl", "s-2.jsonl"]


def test_a_session_id_never_leaves_the_folder(tmp_path):
    tracer = create_jsonl_context_tracer(dir=tmp_path / "in")
    tracer.on_event(event(session_id="../../out/x"))
    tracer.on_event(event(session_id=".."))
    assert all(entry.parent == tmp_path / "in" for entry in tmp_path.rglob("*.jsonl"))


def test_a_line(tmp_path):
    """agent:JSONL-06, agent:TRACE-02"""
    path = tmp_path / "t.jsonl"
    create_jsonl_context_tracer(path=path).on_event(event(data={"error": APIError("no"), "n": 1}))
    assert path.read_text() == (
        '{"version":1,"timestamp":"2026-01-01T00:00:00.000Z","seq":1,"session_id":"s-1","run_id":"r",'
        '"source":{"kind":"agent"},"type":"user_message","data":{"error":{"name":"APIError","message":"no"},"n":1}}\n'
    )


def test_redaction(tmp_path):
    """agent:JSONL-04, agent:JSONL-07"""

    def redact(row):
        if row.type == "tool_result":
            return None
        if row.type == "model_request":
            return dataclasses.replace(row, session_id="hidden", data={**row.data, "messages": "[redacted]"})
        return {**row.to_dict(), "seen": True}

    tracer = create_jsonl_context_tracer(dir=tmp_path, redact=redact)
    tracer.on_event(event(type="tool_result"))
    tracer.on_event(event(type="model_request", data={"messages": ["secret"], "model": "m"}))
    tracer.on_event(event())
    assert rows(tmp_path / "hidden.jsonl")[0]["data"] == {"messages": "[redacted]", "model": "m"}
    assert [row["seen"] for row in rows(tmp_path / "s-1.jsonl")] == [True]


async def test_events_that_cannot_be_written(tmp_path):
    """agent:JSONL-08, agent:JSONL-09, agent:JSONL-10"""
    path = tmp_path / "t.jsonl"
    tracer = create_jsonl_context_tracer(path=path, redact=lambda row: row if row.seq != 2 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tracer.on_event(event(seq=2))
    cycle = {}
    cycle["me"] = cycle
    with pytest.raises(TypeError):
        tracer.on_event(event(seq=3, data=cycle))
    with pytest.raises(TypeError):
        await tracer.flush()
    tracer.on_event(event(seq=4))
    await tracer.flush()
    await tracer.close()
    assert [row["seq"] for row in rows(path)] == [4]


async def test_a_whole_run(tmp_path):
    path = tmp_path / "run.jsonl"
    agent = create_bare_agent(
        model="m", model_client=ScriptedModel(["hi", "ho"]), tracer=create_jsonl_context_tracer(path=path)
    )
    await agent.prompt("go")
    assert [row["type"] for row in rows(path)] == [
        "run_start",
        "user_message",
        "model_request",
        "assistant_message",
        "result",
    ]
    broken = create_jsonl_context_tracer(path=tmp_path, fail_on_error=True)
    with pytest.raises(IsADirectoryError):
        await agent.prompt("go", tracer=broken)
    assert (await agent.prompt("go", tracer=create_jsonl_context_tracer(path=tmp_path))).result == "ho"


def test_define_context_tracer():
    """agent:TRACE-26"""
    with pytest.raises(OptionError, match=r"define_context_tracer requires an on_event\(event\) method"):
        define_context_tracer({"flush": print})
    assert not hasattr(define_context_tracer(on_event=print, fail_on_error=True), "fail_on_error")
