"""Every agent made by create_agent() has a folder of its own and the tools to work in it."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_agent
from lattice.testing import tool_use, turn


def show(path):
    print(path.read_text("utf-8"), end="")


async def main():
    with TemporaryDirectory() as folder:
        agent = create_agent(
            **model_of(
                turn(tool_use("Write", {"file_path": "notes/plan.md", "content": "1. Measure\n2. Fix\n"})),
                "The plan is in notes/plan.md.",
            ),
            name="backend",
            workspace=folder,  # ~/.agent/workspaces/backend without it
        )
        result = await agent.prompt("Write a plan of two steps into notes/plan.md.")
        print(result.result)
        show(Path(folder, "notes/plan.md"))


if __name__ == "__main__":
    asyncio.run(main())
