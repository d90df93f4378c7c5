"""An agent remembers its conversation for as long as it lives."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent


def knows(request):
    told = any("my project is an SDK" in str(message["content"]) for message in request.messages)
    return "An SDK, as you said." if told else "I have no idea."


async def main():
    agent = create_bare_agent(**model_of("I will remember it.", knows), max_turns=50)
    await agent.prompt("Remember that my project is an SDK.")
    print((await agent.prompt("What kind of project is it?")).result)


if __name__ == "__main__":
    asyncio.run(main())
