"""What the Agent loop costs per turn, beside a bare loop that does only what any loop must.

    python -m bench.loop [--rounds N] [--turns N]

A model that answers in no time asks for one tool call per turn, N turns long. ``bare-once`` encodes each message once;
``bare`` encodes the whole growing history again each turn, as a plain client does. Both parse the answer.
"""

import argparse
import asyncio
import time

import orjson

from bench import harness

SYSTEM = "You add numbers."
TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def answer(turn, turns):
    """The model's reply of one turn, as a plain dict."""
    if turn < turns:
        call = {"type": "tool_use", "id": f"toolu_{turn:06d}", "name": "add", "input": {"a": turn, "b": 1}}
        content, reason = [{"type": "text", "text": "Adding."}, call], "tool_use"
    else:
        content, reason = [{"type": "text", "text": "The sum stands."}], "end_turn"
    usage = {"input_tokens": 100 + turn, "output_tokens": 12}
    return {"role": "assistant", "content": content, "usage": usage, "stopReason": reason}


async def add(numbers):
    return str(numbers["a"] + numbers["b"])


async def bare(turns, *, once):
    """The least that a conversation needs: request, answer, call, result."""
    messages = [{"role": "user", "content": "Add."}]
    encoded = [orjson.dumps(messages[0])]
    tools = orjson.dumps([TOOL])
    for turn in range(turns + 1):
        history = b",".join(encoded) if once else orjson.dumps(messages)
        assert len(history) + len(tools) > 0
        reply = orjson.loads(orjson.dumps(answer(turn, turns)))
        said = {"role": "assistant", "content": reply["content"]}
        calls = [block for block in reply["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": await add(c["input"])} for c in calls]
        for message in (said, {"role": "user", "content": results}):
            messages.append(message)
            if once:
                encoded.append(orjson.dumps(message))
        if not calls:
            return


async def lattice_agent(turns):
    """The shipped Agent with one tool; its model encodes what is new and parses an answer."""
    from lattice import create_bare_agent, tool

    class Model:
        turn = 0

        async def create_message(self, request):
            assert orjson.dumps(request.messages[-1])
            reply = orjson.loads(orjson.dumps(answer(self.turn, turns)))
            self.turn += 1
            return reply

    agent = create_bare_agent(
        model="scripted",
        system_prompt=SYSTEM,
        model_client=Model(),
        max_turns=turns + 2,
        tools=[tool("add", TOOL["description"], TOOL["input_schema"], add)],
    )
    result = await agent.prompt("Add.", stream=False)
    if result.subtype != "success":
        raise SystemExit(f"the agent ended {result.subtype}: {result.result}")


CASES = {
    "bare": lambda turns: bare(turns, once=False),
    "bare-once": lambda turns: bare(turns, once=True),
    "lattice": lattice_agent,
}


def microseconds(case, turns):
    """One conversation, timed after a warm-up, per turn."""

    async def go():
        await case(min(turns, 10))
        began = time.perf_counter()
        await case(turns)
        return (time.perf_counter() - began) * 1e6 / turns

    return asyncio.run(go())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turns", type=int, default=50)
    options = parser.parse_args()
    rounds = [{name: microseconds(case, options.turns) for name, case in CASES.items()} for _ in range(options.rounds)]
    figures = harness.compare(rounds, "bare")
    harness.show(f"Agent loop, {options.turns} turns", "us/turn", figures)
    harness.save("loop", figures)


if __name__ == "__main__":
    main()
