"""Tokens of all requests of a query, and whether the answer was cut off."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent
from lattice.testing import turn


async def main():
    usage = {"input_tokens": 1200, "output_tokens": 16, "cache_read_input_tokens": 900}
    agent = create_bare_agent(
        **model_of(turn("The file describes how to", usage=usage, stop_reason="max_tokens")), max_tokens=16
    )
    result = await agent.prompt("Summarize the file.")
    print(result.usage)
    if result.stop_reason == "max_tokens":
        print("a fragment:", result.result)


if __name__ == "__main__":
    asyncio.run(main())
