"""A prompt of several blocks: a question and the picture that it is about."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent

# One transparent pixel, base64-encoded PNG.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


async def main():
    agent = create_bare_agent(**model_of("A single pixel, and not much of a view."))
    result = await agent.prompt(
        [
            {"type": "text", "text": "What does this picture show?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        ]
    )
    print(result.result)


if __name__ == "__main__":
    asyncio.run(main())
