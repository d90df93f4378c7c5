"""A bare agent has exactly what you give it: here the built-in tools, in one folder, and nothing else."""

import asyncio
from pathlib import Path

from examples.offline import model_of
from lattice import create_bare_agent, create_builtin_tools
from lattice.testing import tool_use, turn

HERE = Path(__file__).parent


async def main():
    agent = create_bare_agent(
        **model_of(turn(tool_use("Glob", {"pattern": "bare_*.py"})), "There is one: bare_agent.py."),
        system_prompt="You are a concise engineering assistant.",
        tools=create_builtin_tools(cwd=HERE, allowed_directories=[HERE]),
    )
    print((await agent.prompt("Which files here begin with bare_?")).result)


if __name__ == "__main__":
    asyncio.run(main())
