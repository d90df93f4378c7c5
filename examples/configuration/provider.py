"""Another provider with an Anthropic-compatible endpoint: its address, its key, its model."""

import asyncio
import os

from examples.offline import model_of
from lattice import create_bare_agent


def options():
    """DeepSeek where there is a key for it; leave ``base_url`` out for Anthropic."""
    if key := os.environ.get("DEEPSEEK_API_KEY"):
        return {"api_key": key, "base_url": "https://api.deepseek.com/anthropic", "model": "deepseek-chat"}
    return model_of("Short and to the point.")


async def main():
    agent = create_bare_agent(
        **options(), system_prompt="You are a concise engineering assistant.", max_tokens=4096, max_turns=20
    )
    print((await agent.prompt("Describe your style.")).result)


if __name__ == "__main__":
    asyncio.run(main())
