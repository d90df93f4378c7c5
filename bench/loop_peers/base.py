"""What every subject of the loop benchmark does: the same conversation with a model that answers in no time.

The user says "go"; the model asks for ``add(a, b)`` once a turn, ``turns`` turns long, then says "done".
"""

import orjson

SYSTEM = "You are a careful assistant. Use your tools."
SAYING = "I add the two numbers."
TOOL = {
    "name": "add",
    "description": "Add two integers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


class Subject:
    """One loop under test; ``imports`` is what its user imports, ``packages`` what is shown with a version."""

    name = "?"
    imports = ""
    packages = ()
    threads = False

    def agent(self, model):
        """Return an agent with ``SYSTEM`` and one tool."""
        raise NotImplementedError

    def model(self, turns):
        """Return a fake model of a conversation of so many turns."""
        raise NotImplementedError

    async def run(self, agent):
        """Hold the whole conversation from its start; return the last text."""
        raise NotImplementedError


class Wire:
    """A provider without a network: takes the bytes of a request, gives the bytes of an answer."""

    def __init__(self, turns):
        self.answers = [orjson.dumps(_answer(turn, turns)) for turn in range(turns + 1)]
        self.turn = 0

    def __call__(self, body):
        assert body
        answer = self.answers[self.turn]
        self.turn += 1
        return answer


def _answer(turn, turns):
    content = [{"type": "text", "text": SAYING if turn < turns else "done"}]
    if turn < turns:
        content.append({"type": "tool_use", "id": f"toolu_{turn:06d}", "name": "add", "input": {"a": turn, "b": 1}})
    return {
        "id": f"msg_{turn:06d}",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": content,
        "stop_reason": "tool_use" if turn < turns else "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
