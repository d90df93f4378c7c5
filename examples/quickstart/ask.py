"""Ask a question and watch what happens until the answer is there."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent


async def main():
    agent = create_bare_agent(**model_of("Hello, nice to meet you!"))
    async for message in agent.query("Say hello in one sentence."):
        print(message.type)
        if message.type == "result":
            print(message.result)


if __name__ == "__main__":
    asyncio.run(main())
