"""A policy sees all calls of a response before any of them runs, and may send them back."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn

ANY = {"type": "object"}


@tool("update", "Raise the revision.", ANY)
async def update(_input):
    return "revision 2"


@tool("publish", "Publish the current revision.", ANY)
async def publish(_input):
    return "published"


def validate(context):
    calls = {call.name: call.id for call in context.tool_calls}
    if {"update", "publish"} <= set(calls):
        return {
            "allowed": False,
            "code": "one_step_at_a_time",
            "message": "Update first; publish what came of it.",
            "conflicting_tool_call_ids": [calls["update"], calls["publish"]],
            "suggested_next_step": "Call update alone, then publish.",
        }
    return {"allowed": True}


async def main():
    agent = create_bare_agent(
        **model_of(
            turn(tool_use("update"), tool_use("publish")), turn(tool_use("update")), turn(tool_use("publish")), "Done."
        ),
        tools=[update, publish],
        tool_batch_policy={"validate": validate},
    )
    async for message in agent.query("Update and publish.", stream=False):
        if message.type == "user":
            print("refused" if message.error else message.tool_use_result)


if __name__ == "__main__":
    asyncio.run(main())
