"""Long conversations: older messages give way to a summary that the model writes."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn


@tool("look", "Look at a module.", {"type": "object", "properties": {"name": {"type": "string"}}})
async def look(value):
    return f"{value['name']} is fine"


async def main():
    agent = create_bare_agent(
        **model_of(
            turn(tool_use("look", {"name": "cart"}), usage={"input_tokens": 900, "output_tokens": 9}),
            turn(tool_use("look", {"name": "till"}), usage={"input_tokens": 2100, "output_tokens": 9}),
            turn("Asked to check modules; cart was fine.", usage={"input_tokens": 700, "output_tokens": 30}),
            turn("Both modules are fine.", usage={"input_tokens": 400, "output_tokens": 8}),
        ),
        tools=[look],
        auto_compact={"threshold_tokens": 2000, "keep_recent_messages": 2},
    )
    async for message in agent.query("Check the modules cart and till."):
        if message.type == "system" and message.subtype == "compaction":
            print(f"{message.compacted_messages} messages became a summary, {message.retained_messages} were kept")
        if message.type == "result":
            print(message.result, message.usage)


if __name__ == "__main__":
    asyncio.run(main())
