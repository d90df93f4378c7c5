"""A tool that has the answer ends the run itself: no model request comes after it."""

import asyncio

from pydantic import BaseModel

from examples.offline import model_of
from lattice import ToolResult, create_bare_agent, tool
from lattice.testing import tool_use, turn


class Answer(BaseModel):
    answer: str


@tool("finish", "Hand in the final answer and end the run.", Answer)
async def finish(value: Answer):
    return ToolResult(value.answer, end_turn=True, structured_result={"length": len(value.answer)})


async def main():
    agent = create_bare_agent(**model_of(turn(tool_use("finish", {"answer": "It was the butler."}))), tools=[finish])
    result = await agent.prompt("Who did it? Finish with the answer.")
    print(result.subtype, "|", result.result, "|", result.structured_result, "|", result.num_turns)


if __name__ == "__main__":
    asyncio.run(main())
