"""The built-in tools of an agent's workspace, from the first file to a command."""

import asyncio
from tempfile import TemporaryDirectory

from examples.offline import model_of
from lattice import create_agent
from lattice.testing import tool_use, turn


async def main():
    with TemporaryDirectory() as folder:
        agent = create_agent(
            **model_of(
                turn(tool_use("Write", {"file_path": "greet.sh", "content": "echo Hello $1\n"})),
                turn(tool_use("Edit", {"file_path": "greet.sh", "old_string": "Hello", "new_string": "Hi"})),
                turn(tool_use("Bash", {"command": "sh greet.sh Ada"})),
                turn(tool_use("Write", {"file_path": "/etc/greet.sh", "content": "no"})),
                "The script works; /etc is out of my reach.",
            ),
            name="backend",
            workspace={"cwd": folder, "allowed_directories": [folder], "bash_timeout_ms": 30_000},
        )
        async for message in agent.query("Write a script that greets, try it, and install it.", stream=False):
            if message.type == "user":
                denied = "permission_denied" in str(message.tool_use_result)
                print("denied" if denied else message.tool_use_result.strip())
            if message.type == "result":
                print(message.result)


if __name__ == "__main__":
    asyncio.run(main())
