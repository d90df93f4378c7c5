"""A skill from a folder with a SKILL.md: front matter, then the instructions."""

import asyncio
from pathlib import Path

from examples.offline import model_of
from lattice import create_bare_agent, load_skill


async def main():
    pdf = await load_skill(Path(__file__).parent / "pdf")
    print(pdf.name, "|", pdf.description)
    agent = create_bare_agent(
        **model_of(lambda request: str(request.messages[0]["content"]).splitlines()[-2]), skills=[pdf]
    )
    print((await agent.prompt("Is the layout of this PDF all right?")).result)


if __name__ == "__main__":
    asyncio.run(main())
