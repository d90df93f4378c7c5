"""Each type of event, in the order in which they come."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


@tool("add", "Add two numbers.", NUMBERS)
async def add(numbers):
    return str(numbers["a"] + numbers["b"])


async def main():
    agent = create_bare_agent(
        **model_of(turn("Let me add.", tool_use("add", {"a": 2, "b": 2})), "It is 4."), tools=[add]
    )
    deltas = 0
    async for message in agent.query("What is 2 + 2?"):
        match message.type:
            case "system":
                print("session with", *message.tools)
            case "stream_event":
                deltas += message.event["type"] == "content_block_delta"
            case "assistant":
                print("assistant:", *[block["type"] for block in message.message["content"]])
            case "user":
                print("tool result:", message.tool_use_result)
            case "result":
                print("final:", message.result, "| streamed while it came:", deltas > 0)


if __name__ == "__main__":
    asyncio.run(main())
