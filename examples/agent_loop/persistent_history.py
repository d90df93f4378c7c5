"""A history store keeps a conversation, so that another process can go on with it."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_bare_agent, create_jsonl_history_store


def agent_over(path, *replies):
    return create_bare_agent(**model_of(*replies), history_store=create_jsonl_history_store(path=path))


def recall(request):
    return "You are Ada." if "I am Ada" in str(list(request.messages)) else "We have not met."


def lines(path):
    return path.read_text("utf-8").splitlines()


async def main():
    with TemporaryDirectory() as folder:
        path = Path(folder, "sessions", "ada.jsonl")
        await agent_over(path, "Hello Ada!").prompt("I am Ada.")

        later = agent_over(path, recall)  # as another process would
        print((await later.prompt("Who am I?")).result)
        print(len(await later.get_history()), "messages,", len(lines(path)), "lines")


if __name__ == "__main__":
    asyncio.run(main())
