"""Hooks change what crosses the loop: here a secret goes, and a long request is shortened."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn


@tool("query_database", "Look a customer up.", {"type": "object"})
async def query_database(_input):
    return "Ada Lovelace, card 4711 0815"


def on_tool_result(context):
    if context.tool_name != "query_database":
        return None  # as it was
    return {**context.result, "content": context.result["content"].replace("4711 0815", "[card]")}


def on_model_request(context):
    print(f"turn {context.turn}: {len(context.messages)} messages")
    if len(context.messages) > 40:
        return {"messages": context.messages[-40:]}
    return None


def echo(request):
    return f"I found: {request.messages[-1]['content'][0]['content']}"


async def main():
    agent = create_bare_agent(
        **model_of(turn(tool_use("query_database")), echo),
        tools=[query_database],
        hooks={"on_tool_result": on_tool_result, "on_model_request": on_model_request},
    )
    print((await agent.prompt("Look the customer up.")).result)


if __name__ == "__main__":
    asyncio.run(main())
