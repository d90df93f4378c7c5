"""The shipped Agent, as its users make it; its client encodes the request and parses the answer."""

import functools

import orjson

from bench.loop_peers.base import SYSTEM, TOOL, Subject, Wire, add


class Client:
    """Encodes the whole request each turn, as the floor does."""

    def __init__(self, turns):
        self.wire = Wire(turns)

    def reset(self):
        self.wire.turn = 0

    async def create_message(self, request):
        body = orjson.dumps(
            {
                "model": request.model,
                "max_tokens": request.max_tokens,
                "system": request.system_prompt,
                "tools": request.tools,
                "messages": request.messages,
            }
        )
        return self.read(self.wire(body))

    @staticmethod
    def read(data):
        answer = orjson.loads(data)
        kept = {name: answer[name] for name in ("role", "content", "usage", "model")}
        return kept | {"stopReason": answer["stop_reason"], "providerResponseId": answer["id"]}


class OnceClient(Client):
    """Encodes what is new only, so that what remains to grow with the conversation is the loop's own."""

    async def create_message(self, request):
        return self.read(self.wire(orjson.dumps(request.messages[-1])))


class Lattice(Subject):
    name = "lattice"
    imports = "from lattice import create_agent"
    packages = ("agent-lattice", "pydantic")
    client = Client

    def model(self, turns):
        return self.client(turns)

    def agent(self, model):
        from lattice import create_bare_agent

        return create_bare_agent(
            model="fake", system_prompt=SYSTEM, model_client=model, tools=[_tool()], max_turns=1_000_000
        )

    async def run(self, agent):
        agent.model_client.reset()
        await agent.replace_history([])
        result = await agent.prompt("go", stream=False)
        assert result.subtype == "success", result
        return result.result


class LatticeOnce(Lattice):
    name = "lattice-once"
    client = OnceClient


async def _add(numbers):
    return str(await add(numbers["a"], numbers["b"]))


@functools.cache
def _tool():
    from lattice import tool

    return tool(TOOL["name"], TOOL["description"], TOOL["input_schema"], _add)


SUBJECTS = [Lattice, LatticeOnce]
