"""What goes into the file is yours to decide; what the model gets stays as it is."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_bare_agent, create_jsonl_context_tracer


def redact(event):
    if event.type == "model_request":
        return replace(event, data={**event.data, "messages": "[redacted]"})
    if event.type == "user_message":
        return None  # left out altogether
    return event


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def main():
    with TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        tracer = create_jsonl_context_tracer(path=path, redact=redact)
        agent = create_bare_agent(**model_of("I shall not tell."), tracer=tracer)
        await agent.prompt("The code of the safe is 4711.")
        print(*[row["type"] for row in rows(path)])
        print("the code is in the file:", "4711" in str(rows(path)))


if __name__ == "__main__":
    asyncio.run(main())
