"""A signal ends a request wherever it is."""

import asyncio

from examples.offline import model_of
from lattice import AbortController, create_bare_agent


async def endless(_request):
    await asyncio.Event().wait()


async def main():
    agent = create_bare_agent(**model_of(endless))
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.05, controller.abort)
    result = await agent.prompt("Count all the stars.", signal=controller.signal)
    print(result.subtype, result.is_error)


if __name__ == "__main__":
    asyncio.run(main())
