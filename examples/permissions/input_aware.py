"""The callback sees what the model asks for; treat it as what a stranger typed."""

import asyncio
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_agent
from lattice.testing import tool_use, turn


async def permission(request):
    command = str(request.input.get("command", "")) if request.tool_name == "Bash" else ""
    if "rm -rf" in command:
        return {"behavior": "deny", "message": "Nothing is deleted in this session."}
    return {"behavior": "allow"}


async def main():
    with TemporaryDirectory() as folder:
        agent = create_agent(
            **model_of(
                turn(tool_use("Bash", {"command": "rm -rf ."})),
                turn(tool_use("Bash", {"command": "echo kept"})),
                "All is there.",
            ),
            workspace=folder,
            permission=permission,
        )
        async for message in agent.query("Tidy up.", stream=False):
            if message.type == "user":
                for block in message.message["content"]:
                    print("denied:" if block.get("is_error") else "ran:", block["content"].strip())


if __name__ == "__main__":
    asyncio.run(main())
