"""Only what is named may run."""

import asyncio
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_agent
from lattice.testing import tool_use, turn

READ_ONLY = {"Read", "LS", "Glob", "Grep"}


def permission(request):
    if request.tool_name in READ_ONLY:
        return {"behavior": "allow"}
    return {"behavior": "deny", "message": f"{request.tool_name} is not one of the tools that only read."}


async def main():
    with TemporaryDirectory() as folder:
        agent = create_agent(
            **model_of(turn(tool_use("Write", {"file_path": "a", "content": "b"}), tool_use("LS")), "I may only look."),
            workspace=folder,
            permission=permission,
        )
        async for message in agent.query("Write a file and list the folder.", stream=False):
            if message.type == "user":
                for block in message.message["content"]:
                    print("denied:" if block.get("is_error") else "ran:", block["content"].strip())


if __name__ == "__main__":
    asyncio.run(main())
