"""A trace of everything that a run did, one JSON object a line."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_bare_agent, create_jsonl_context_tracer


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def main():
    with TemporaryDirectory() as folder:
        path = Path(folder, "runs", "session.jsonl")  # dir= instead of path= writes a file a session
        agent = create_bare_agent(**model_of("Noted, Ada."), tracer=create_jsonl_context_tracer(path=path))
        await agent.prompt("Remember that my name is Ada.", stream=False)
        for row in rows(path):
            print(row["seq"], row["source"]["kind"], row["type"])


if __name__ == "__main__":
    asyncio.run(main())
