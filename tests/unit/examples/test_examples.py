"""Every example of the documentation's pages runs on the scripted model and says what it should."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    "quickstart configuration agent_loop streaming_events context_tracing tools hooks skills built_in_tools permissions"
).split()
HAIKU = "Cold night, one warm lamp / a queue of messages waits / a worker wakes up"

EXPECTED = {
    "quickstart.ask": ["system", *["stream_event"] * 6, "assistant", "result", "Hello, nice to meet you!"],
    "quickstart.final_result": ["success | 2 + 2 = 4"],
    "quickstart.multimodal": ["A single pixel, and not much of a view."],
    "quickstart.streaming": [f"streamed: {HAIKU}", "not streamed: system assistant result", f"at once: {HAIKU}"],
    "quickstart.output_format": ["the answer is 4"],
    "configuration.provider": ["Short and to the point."],
    "configuration.system_prompt": ["That is a question for whoever designs the page, I pass it on."],
    "configuration.workspace": ["The plan is in notes/plan.md.", "1. Measure", "2. Fix"],
    "configuration.bare_agent": ["There is one: bare_agent.py."],
    "configuration.abort": ["error_abort True"],
    "configuration.turn_limit": ["error_max_turns 3", "Reached maximum number of turns (3)"],
    "agent_loop.conversation": ["An SDK, as you said."],
    "agent_loop.structured_output": ["success | reject | the lock is never released"],
    "agent_loop.one_conversation": [
        "shared: success and ConcurrentQueryError",
        "one each: About tea: yes. About coffee: yes.",
    ],
    "agent_loop.persistent_history": ["You are Ada.", "4 messages, 4 lines"],
    "agent_loop.deadlines": [
        "error_abort",
        "error_timeout | Model request exceeded request_timeout_ms of 50ms",
    ],
    "agent_loop.interrupt": ["interrupted False", "Notes for 0.2 only."],
    "agent_loop.usage": [
        "{'input_tokens': 1200, 'output_tokens': 16, 'cache_read_input_tokens': 900}",
        "a fragment: The file describes how to",
    ],
    "agent_loop.compaction": [
        "3 messages became a summary, 2 were kept",
        "Both modules are fine. {'input_tokens': 4100, 'output_tokens': 56}",
    ],
    "streaming_events.events": [
        "session with add",
        "assistant: text tool_use",
        "tool result: 4",
        "assistant: text",
        "final: It is 4. | streamed while it came: True",
    ],
    "context_tracing.jsonl": [
        "1 agent run_start",
        "2 agent user_message",
        "3 agent model_request",
        "4 agent assistant_message",
        "5 agent result",
    ],
    "context_tracing.custom_sink": ["1 run, 5 rows, the last is number 5"],
    "context_tracing.redaction": ["run_start model_request assistant_message result", "the code is in the file: False"],
    "tools.calculator": [
        "tool: Tool calculator failed: only numbers and + - * / are understood",
        "tool: 42",
        "answer: It is 42.",
    ],
    "tools.finish": ["success | It was the butler. | {'length': 18} | 1"],
    "tools.concurrency": ["Steep for three minutes. Grind it fresh. Just drink it.", "at most 2 at once"],
    "tools.batch_policy": ["refused", "revision 2", "published"],
    "tools.options": [
        "{'contract': 3} False",
        (
            'AgentOptions: unknown option "tool". Check for a typo, or upgrade the SDK if this option was added in a newer'
            " version."
        ),
    ],
    "hooks.redact": ["turn 1: 1 messages", "turn 2: 3 messages", "I found: Ada Lovelace, card [card]"],
    "hooks.compose": ["password=[secret]; all quiet (3 times)"],
    "skills.in_code": ["Bugs first: the loop never ends.", "Nice weather today."],
    "skills.from_disk": [
        "pdf | Read and inspect PDF documents",
        "Look at the rendered pages before you say anything about the layout.",
    ],
    "built_in_tools.workspace": [
        "Wrote greet.sh",
        "Edited greet.sh",
        "Hi Ada",
        "denied",
        "The script works; /etc is out of my reach.",
    ],
    "built_in_tools.search": [
        "Read Write Edit LS Glob Grep Bash",
        "search.py, workspace.py",
        "search.py:3:import asyncio",
        '"""LS, Glob, Grep and Read only look, so their calls may run side by side."""',
    ],
    "permissions.deny_list": ["denied: There is no shell in this session.", "ran: (empty directory)"],
    "permissions.allow_list": [
        "denied: Write is not one of the tools that only read.",
        "ran: (empty directory)",
    ],
    "permissions.input_aware": ["denied: Nothing is deleted in this session.", "ran: kept"],
}


@pytest.fixture(autouse=True)
def without_keys(monkeypatch, tmp_path):
    for name in ("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_every_example_is_expected():
    found = {f"{page}.{path.stem}" for page in PAGES for path in (ROOT / "examples" / page).glob("*.py")}
    assert found == set(EXPECTED)


def test_the_list_of_examples_is_complete():
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    named = {
        f"{page}.{name}"
        for page in PAGES
        for row in listed.splitlines()
        if f"`{page}." in row
        for name in re.findall(r"\.([a-z_]+)`", row)
    }
    assert named == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
async def test_example(name, capsys, tmp_path):
    await importlib.import_module(f"examples.{name}").main()
    assert capsys.readouterr().out.splitlines() == EXPECTED[name]
    assert list(tmp_path.iterdir()) == []


def test_an_example_is_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.quickstart.final_result"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == EXPECTED["quickstart.final_result"]


@pytest.mark.parametrize(("key", "client"), [("sk-1", False), (None, True)])
def test_a_key_brings_the_real_model(monkeypatch, key, client):
    from examples.offline import model_of

    if key:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    assert ("model_client" in model_of("x")) is client
