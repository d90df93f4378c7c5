"""Shorthands for agent tests."""

import asyncio

from lattice import create_bare_agent, tool
from lattice.messages import tool_uses
from lattice.testing import ScriptedModel

ANY = {"type": "object"}


def agent_of(script, *, tools=(), **options):
    """An agent without a workspace on a scripted model; returns both."""
    model = script if hasattr(script, "create_message") else ScriptedModel(script)
    agent = create_bare_agent(model="scripted", model_client=model, tools=list(tools), **options)
    return agent, model


def echo_tool(name="echo", **options):
    async def handler(value):
        return f"echo {value.get('say', '')}".strip()

    return tool(name, "Says it again.", ANY, handler, **options)


async def events_of(stream):
    return [event async for event in stream]


def kinds(events):
    return [event.type for event in events]


class RecordingTracer:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)

    def types(self):
        return [event.type for event in self.events]

    def data(self, kind):
        return [event.data for event in self.events if event.type == kind]


class ListStore:
    """A history store in a list that writes down what it was asked."""

    def __init__(self, messages=()):
        self.messages = list(messages)
        self.calls = []

    def load(self):
        self.calls.append("load")
        return self.messages

    def append(self, message):
        self.calls.append("append")
        self.messages.append(message)

    def replace(self, messages):
        self.calls.append("replace")
        self.messages = list(messages)


def problems_of(history):
    """What is wrong with a history, as a provider would see it; empty if it is well formed."""
    wrong = []
    for index, message in enumerate(history):
        if not message["content"]:
            wrong.append(f"message {index} is empty")
        calls = [call["id"] for call in tool_uses(message)] if message["role"] == "assistant" else []
        following = history[index + 1] if index + 1 < len(history) else None
        results = results_of(following) if following else []
        if calls and results != calls:
            wrong.append(f"calls {calls} of message {index} are answered by {results}")
        if message["role"] == "user" and results_of(message):
            before = history[index - 1] if index else {"role": "user", "content": ""}
            if [call["id"] for call in tool_uses(before)] != results_of(message):
                wrong.append(f"results of message {index} answer nothing")
    return wrong


def results_of(message):
    content = message["content"]
    if isinstance(content, str) or message["role"] != "user":
        return []
    return [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]


def other_tasks():
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()]


async def until(condition, seconds=5.0):
    """Wait until a condition holds, without sleeping for a fixed time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0)
