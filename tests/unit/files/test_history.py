"""Histories in files of JSON lines."""

import asyncio
import json
import subprocess
import sys

import pytest

from lattice import OptionError, StoreError, create_bare_agent, create_jsonl_history_store, define_history_store
from lattice.testing import ScriptedModel

USER = {"role": "user", "content": "hällo"}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "stopReason": "end_turn"}


async def test_one_message_a_line(tmp_path):
    """agent:HIST-13, agent:HIST-14, agent:HIST-15"""
    path = tmp_path / "deep" / "er" / "a.jsonl"
    store = create_jsonl_history_store(path=str(path))
    assert await store.load() == []
    assert not path.exists()
    await store.append(USER)
    await store.append(ANSWER)
    assert (
        path.read_text(encoding="utf-8")
        == '{"role":"user","content":"hällo"}\n' + json.dumps(ANSWER, separators=(",", ":")) + "\n"
    )
    assert await create_jsonl_history_store(path=path).load() == [USER, ANSWER]
    await store.replace([ANSWER])
    assert await store.load() == [ANSWER]
    await store.replace([])
    assert path.read_bytes() == b""
    assert [entry.name for entry in path.parent.iterdir()] == ["a.jsonl"]


async def test_unreadable_lines_are_skipped(tmp_path, caplog):
    """agent:HIST-13, agent:HIST-14"""
    path = tmp_path / "a.jsonl"
    path.write_text(f'{json.dumps(USER)}\n\nnot json\n[1]\n{{"role":"system","content":"x"}}\n{json.dumps(ANSWER)}\n')
    assert await create_jsonl_history_store(path=path).load() == [USER, ANSWER]
    assert "not json" in caplog.text


async def test_a_torn_last_line_is_set_aside(tmp_path, caplog):
    """agent:HIST-13"""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(USER) + '\n{"role":"assist')
    store = create_jsonl_history_store(path=path)
    assert await store.load() == [USER]
    assert (tmp_path / "a.jsonl.torn").read_text() == '{"role":"assist\n'
    assert "cut off" in caplog.text
    await store.append(ANSWER)
    assert await store.load() == [USER, ANSWER]


async def test_appending_after_a_torn_line_loses_nothing(tmp_path):
    """agent:W-28"""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(USER) + '\n{"role":"assist')
    store = create_jsonl_history_store(path=path)
    await store.append(ANSWER)
    assert await store.load() == [USER, ANSWER]


async def test_a_last_line_without_its_newline_counts(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(USER))
    store = create_jsonl_history_store(path=path)
    assert await store.load() == [USER]
    await store.append(ANSWER)
    assert await store.load() == [USER, ANSWER]


async def test_lone_surrogates_written_by_others_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"role":"user","content":"\\ud800"}\n')
    store = create_jsonl_history_store(path=path)
    agent = create_bare_agent(model="m", model_client=ScriptedModel(["hi"]), history_store=store)
    assert (await agent.get_history())[0]["content"] == "\ufffd"


async def test_writes_keep_their_order_and_a_failed_one_stops_no_other(tmp_path):
    """agent:HIST-15"""
    store = create_jsonl_history_store(path=tmp_path / "a.jsonl")
    messages = [{"role": "user", "content": str(number)} for number in range(30)]
    bad = {"role": "user", "content": object()}
    outcomes = await asyncio.gather(
        *(store.append(message) for message in [*messages[:15], bad, *messages[15:]]), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [TypeError]
    assert await store.load() == messages


async def test_a_replace_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    """agent:HIST-16 agent:W-28"""
    path = tmp_path / "a.jsonl"
    store = create_jsonl_history_store(path=path)
    await store.append(USER)

    def fail(_handle):
        raise OSError("disk full")

    monkeypatch.setattr("lattice.files.history.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        await store.replace([ANSWER])
    assert await store.load() == [USER]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


async def test_processes_that_share_a_file_do_not_mix_their_lines(tmp_path):
    """agent:W-28"""
    path = tmp_path / "a.jsonl"
    program = """
import asyncio, sys
from lattice import create_jsonl_history_store
async def main():
    store = create_jsonl_history_store(path=sys.argv[1])
    for number in range(40):
        await store.append({"role": "user", "content": sys.argv[2] * 2000 + str(number)})
        if number % 10 == 0:
            await store.replace(await store.load() or [])
asyncio.run(main())
"""
    single = program.replace("if number % 10 == 0", "if False")
    workers = [subprocess.Popen([sys.executable, "-c", single, str(path), name]) for name in "ab"]
    assert [worker.wait(timeout=40) for worker in workers] == [0, 0]
    loaded = await create_jsonl_history_store(path=path).load()
    for name in "ab":
        mine = [message["content"].removeprefix(name * 2000) for message in loaded if message["content"][0] == name]
        assert mine == [str(number) for number in range(40)]


async def test_a_conversation_goes_on_in_another_process(tmp_path):
    """agent:HIST-01"""
    path = tmp_path / "ada.jsonl"

    def agent(script):
        model = ScriptedModel(script)
        store = create_jsonl_history_store(path=path)
        return create_bare_agent(model="m", model_client=model, history_store=store), model

    await agent(["Hello Ada"])[0].prompt("I am Ada")
    second, model = agent(["Ada"])
    assert (await second.prompt("Who am I?")).result == "Ada"
    assert [message["role"] for message in model.requests[0].messages] == ["user", "assistant", "user"]


async def test_a_load_sees_the_writes_that_were_asked_for_before_it(tmp_path):
    """agent:HIST-16, agent:W-28"""
    store = create_jsonl_history_store(path=tmp_path / "a.jsonl")
    messages = [{"role": "user", "content": str(number)} for number in range(20)]
    *_, loaded = await asyncio.gather(*(store.append(message) for message in messages), store.load())
    assert loaded == messages


async def test_strict_and_tolerant(tmp_path, caplog):
    """agent:HIST-08"""
    (tmp_path / "file").write_text("")
    where = tmp_path / "file" / "a.jsonl"
    tolerant = create_jsonl_history_store(path=where)
    agent = create_bare_agent(model="m", model_client=ScriptedModel(["hi"]), history_store=tolerant)
    assert (await agent.prompt("go")).result == "hi"
    assert caplog.text
    strict = create_jsonl_history_store(path=where, fail_on_error=True)
    agent = create_bare_agent(model="m", model_client=ScriptedModel(["hi"]), history_store=strict)
    with pytest.raises(OSError, match="file"):
        await agent.prompt("go")


def test_options():
    """agent:HIST-12"""
    with pytest.raises(OptionError, match="path must be a path, not 3"):
        create_jsonl_history_store(path=3)
    with pytest.raises(TypeError):
        create_jsonl_history_store(path="a", bogus=1)
    for missing in ("load", "append", "replace"):
        methods = {"load": list, "append": print, "replace": print, missing: None}
        with pytest.raises(OptionError, match=rf"define_history_store requires a {missing}\(\) method"):
            define_history_store(methods)
    with pytest.raises(OptionError, match='unknown option "lod"'):
        define_history_store(lod=list)
    defined = define_history_store({"load": list, "append": print, "replace": print, "failOnError": True})
    assert not hasattr(defined, "fail_on_error")
    assert not hasattr(defined, "failOnError")
    assert issubclass(StoreError, Exception)
