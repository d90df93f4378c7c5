"""A skill is a set of instructions that the model gets when the prompt calls for it."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, skill

REVIEW = skill(
    name="code-review",
    description="Review code changes and pull requests",
    instructions="List bugs and risks before anything else.",
)


def follow(request):
    told = "List bugs and risks" in str(request.messages[0]["content"])
    return "Bugs first: the loop never ends." if told else "Nice weather today."


async def main():
    agent = create_bare_agent(**model_of(follow, follow), skills=[REVIEW])
    print((await agent.prompt("Please review this change: while True: pass")).result)
    print((await agent.prompt("How is the weather?")).result)


if __name__ == "__main__":
    asyncio.run(main())
