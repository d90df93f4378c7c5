"""Two limits: one for the whole query, one for each model request."""

import asyncio

from examples.offline import model_of
from lattice import AbortSignal, create_bare_agent


async def slow(_request):
    await asyncio.sleep(60)


async def main():
    agent = create_bare_agent(**model_of(slow, slow), request_timeout_ms=120_000)
    whole = await agent.prompt("Audit everything.", signal=AbortSignal.timeout(50))
    print(whole.subtype)
    single = await agent.prompt("Answer quickly.", request_timeout_ms=50)
    print(single.subtype, "|", single.error)


if __name__ == "__main__":
    asyncio.run(main())
