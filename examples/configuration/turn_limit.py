"""max_turns counts model requests, so a model that never stops calling tools is stopped."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn


@tool("roll", "Roll a die.", {"type": "object"})
async def roll(_input):
    return "3"


async def main():
    agent = create_bare_agent(**model_of(*[turn(tool_use("roll"))] * 3), tools=[roll], max_turns=3)
    result = await agent.prompt("Roll the die until it shows 7.")
    print(result.subtype, result.num_turns)
    print(result.error)


if __name__ == "__main__":
    asyncio.run(main())
