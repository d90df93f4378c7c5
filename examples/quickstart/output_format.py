"""JSON from the provider's structured output; the text comes back as it is, and reading it is yours."""

import asyncio
import json

from examples.offline import model_of
from lattice import create_bare_agent

FORMAT = {
    "type": "json_schema",
    "schema": {
        "type": "object",
        "properties": {"answer": {"type": "number"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
}


async def main():
    agent = create_bare_agent(**model_of('{"answer":4}'))
    result = await agent.prompt("Give the answer to 2 + 2.", output_format=FORMAT)
    print("the answer is", json.loads(result.result)["answer"])


if __name__ == "__main__":
    asyncio.run(main())
