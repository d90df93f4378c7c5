"""Everything is allowed but one tool; the model reads why, and the run goes on."""

import asyncio
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_agent
from lattice.testing import tool_use, turn


async def permission(request):
    if request.tool_name == "Bash":
        return {"behavior": "deny", "message": "There is no shell in this session."}
    return {"behavior": "allow"}


async def main():
    with TemporaryDirectory() as folder:
        agent = create_agent(
            **model_of(turn(tool_use("Bash", {"command": "ls"})), turn(tool_use("LS")), "The folder is empty."),
            workspace=folder,
            permission=permission,
        )
        async for message in agent.query("What is here?", stream=False):
            if message.type == "user":
                for block in message.message["content"]:
                    print("denied:" if block.get("is_error") else "ran:", block["content"].strip())


if __name__ == "__main__":
    asyncio.run(main())
