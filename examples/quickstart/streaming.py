"""``stream`` says whether the model streams; ``query`` and ``prompt`` say how you take the answer."""

import asyncio

from examples.offline import model_of
from lattice import create_bare_agent

HAIKU = "Cold night, one warm lamp / a queue of messages waits / a worker wakes up"


async def main():
    agent = create_bare_agent(**model_of(HAIKU, HAIKU, HAIKU))
    async for message in agent.query("Write a haiku.", stream=True):
        if message.type == "stream_event" and message.event.get("delta", {}).get("type") == "text_delta":
            print("streamed:", message.event["delta"]["text"])

    kinds = [message.type async for message in agent.query("Write a haiku.", stream=False)]
    print("not streamed:", *kinds)

    result = await agent.prompt("Write a haiku.", stream=False)
    print("at once:", result.result)


if __name__ == "__main__":
    asyncio.run(main())
