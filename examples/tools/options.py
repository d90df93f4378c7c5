"""Notes on a tool are yours alone; options that do not exist are refused at once."""

import asyncio

from lattice import OptionError, create_bare_agent, tool


async def main():
    stamp = tool("stamp", "Stamp it.", {"type": "object"}, lambda _input: "stamped", metadata={"contract": 3})
    print(stamp.metadata, "metadata" in stamp.to_model())
    try:
        create_bare_agent(model="any", tool=[stamp])
    except OptionError as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
