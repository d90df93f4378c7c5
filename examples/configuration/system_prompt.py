"""The system prompt gives an agent its role and the limits of it."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent

ROLE = """\
You look after the backend: APIs, data models, storage, integrations.
Correctness on the server is yours.
Questions of product or of the user interface you pass on; you never guess."""


async def main():
    agent = create_bare_agent(
        **model_of("That is a question for whoever designs the page, I pass it on."), system_prompt=ROLE
    )
    print((await agent.prompt("Should the button be blue?")).result)


if __name__ == "__main__":
    asyncio.run(main())
