"""With an output schema a run ends by a checked submission, or it fails; prose is no answer."""

import asyncio
from typing import Literal

from pydantic import BaseModel, Field

from examples.offline import model_of
from lattice import SUBMIT_OUTPUT_TOOL_NAME, create_bare_agent
from lattice.testing import tool_use, turn


class Review(BaseModel):
    verdict: Literal["accept", "reject"]
    risks: list[str] = Field(min_length=1)


async def main():
    agent = create_bare_agent(
        **model_of(
            turn(tool_use(SUBMIT_OUTPUT_TOOL_NAME, {"verdict": "maybe", "risks": []})),  # goes back to the model
            turn(tool_use(SUBMIT_OUTPUT_TOOL_NAME, {"verdict": "reject", "risks": ["the lock is never released"]})),
        ),
        output_schema=Review,
    )
    result = await agent.prompt("Review this change: lock(); work()")
    review = result.structured_result
    print(result.subtype, review.verdict, *review.risks, sep=" | ")


if __name__ == "__main__":
    asyncio.run(main())
