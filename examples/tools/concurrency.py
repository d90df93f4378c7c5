"""Calls that a tool declares safe run side by side, and their results keep the order of the calls."""

import asyncio

from pydantic import BaseModel

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn

DOCUMENTS = {"tea": "Steep for three minutes.", "coffee": "Grind it fresh.", "water": "Just drink it."}


class Query(BaseModel):
    query: str


class Library:
    """Counts how many searches are under way at once."""

    def __init__(self):
        self.now = self.most = 0

    async def search(self, value: Query):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return DOCUMENTS.get(value.query, "nothing found")


async def main():
    library = Library()
    search = tool("search", "Search the documents.", Query, library.search, is_concurrency_safe=lambda _query: True)
    agent = create_bare_agent(
        **model_of(turn(*[tool_use("search", {"query": name}) for name in DOCUMENTS]), "I have read all three."),
        tools=[search],
        tool_concurrency={"mode": "safe", "max_concurrency": 2},
    )
    async for message in agent.query("Search for tea, coffee and water, all at once.", stream=False):
        if message.type == "user":
            print(*[block["content"] for block in message.message["content"]])
    print("at most", library.most, "at once")


if __name__ == "__main__":
    asyncio.run(main())
