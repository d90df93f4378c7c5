"""LS, Glob, Grep and Read only look, so their calls may run side by side."""

import asyncio
from pathlib import Path

from examples.offline import model_of
from lattice import create_bare_agent, create_builtin_tools
from lattice.testing import tool_use, turn

HERE = Path(__file__).parent


async def main():
    tools = create_builtin_tools(cwd=HERE, allowed_directories=[HERE], bash_timeout_ms=30_000)
    print(*[entry.name for entry in tools])
    agent = create_bare_agent(
        **model_of(
            turn(
                tool_use("Glob", {"pattern": "*.py"}),
                tool_use("Grep", {"pattern": "^import ", "path": "search.py"}),
                tool_use("Read", {"file_path": "search.py", "limit": 1}),
            ),
            "Two examples.",
        ),
        tools=tools,
    )
    async for message in agent.query("What is in this folder?", stream=False):
        if message.type == "user":
            for block in message.message["content"]:
                print(block["content"].replace("\n", ", "))


if __name__ == "__main__":
    asyncio.run(main())
