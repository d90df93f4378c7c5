"""An agent is one conversation: make one per user, not one for all."""

import asyncio

from examples.offline import model_of
from lattice import ConcurrentQueryError, create_bare_agent


async def answer(question):
    """What a server does for each request."""
    agent = create_bare_agent(**model_of(f"About {question}: yes."))
    return (await agent.prompt(question)).result


async def main():
    shared = create_bare_agent(**model_of("Only one of you gets this."))
    first, second = await asyncio.gather(shared.prompt("a"), shared.prompt("b"), return_exceptions=True)
    print("shared:", first.subtype, "and", type(second).__name__)
    assert isinstance(second, ConcurrentQueryError)

    print("one each:", *await asyncio.gather(answer("tea"), answer("coffee")))


if __name__ == "__main__":
    asyncio.run(main())
