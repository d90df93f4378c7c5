"""Hooks that do one thing each, in a chain; None is left out."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, create_composite_agent_hooks, tool
from lattice.testing import tool_use, turn


def replacing(old, new):
    def on_tool_result(context):
        return {**context.result, "content": context.result["content"].replace(old, new)}

    return {"on_tool_result": on_tool_result}


@tool("read_log", "Read the log.", {"type": "object"})
async def read_log(_input):
    return "password=hunter2; " + "all quiet; " * 3


async def main():
    verbose = False
    hooks = create_composite_agent_hooks(
        [
            replacing("hunter2", "[secret]"),
            replacing("all quiet; all quiet; all quiet; ", "all quiet (3 times)"),
            replacing("all", "ALL") if verbose else None,
        ]
    )
    agent = create_bare_agent(
        **model_of(turn(tool_use("read_log")), "Nothing happened."), tools=[read_log], hooks=hooks
    )
    async for message in agent.query("What does the log say?", stream=False):
        if message.type == "user":
            print(message.tool_use_result)


if __name__ == "__main__":
    asyncio.run(main())
