"""An interrupt gives the conversation back without calling it an error."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent


async def slow(_request):
    await asyncio.sleep(60)


async def main():
    agent = create_bare_agent(**model_of(slow, "Notes for 0.2 only."))
    pending = asyncio.create_task(agent.prompt("Draft the release notes."))
    await asyncio.sleep(0)
    agent.interrupt()
    result = await pending
    print(result.subtype, result.is_error)
    print((await agent.prompt("No: leave 0.1 out, cover 0.2 only.")).result)


if __name__ == "__main__":
    asyncio.run(main())
