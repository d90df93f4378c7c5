"""Only the final result."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent


async def main():
    agent = create_bare_agent(**model_of("2 + 2 = 4"))
    result = await agent.prompt("What is 2 + 2?")
    print(result.subtype, "|", result.result)


if __name__ == "__main__":
    asyncio.run(main())
