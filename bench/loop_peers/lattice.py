"""The shipped Agent, as its users make it: like the peers on ready answers, and like the floor on encoded ones."""

import functools

import orjson

from bench.loop_peers.base import SYSTEM, TOOL, Subject, Wire, add


class ReadyClient:
    """Answers with ready objects, as the models of the peers do."""

    def __init__(self, turns):
        self.answers = [_message(orjson.loads(data)) for data in Wire(turns).answers]
        self.turn = 0

    def reset(self):
        self.turn = 0

    async def create_message(self, _request):
        answer = self.answers[self.turn]
        self.turn += 1
        return answer


class WireClient:
    """Encodes the whole request each turn and parses the answer, as the floor does."""

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
        return _message(orjson.loads(self.wire(body)))


class Lattice(Subject):
    name = "lattice"
    imports = "from lattice import create_agent"
    packages = ("agent-lattice", "pydantic")
    client = ReadyClient

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


class LatticeWire(Lattice):
    name = "lattice-wire"
    client = WireClient


def _message(answer):
    kept = {name: answer[name] for name in ("role", "content", "usage", "model")}
    return kept | {"stopReason": answer["stop_reason"], "providerResponseId": answer["id"]}


async def _add(numbers):
    return str(await add(numbers["a"], numbers["b"]))


@functools.cache
def _tool():
    from lattice import tool

    return tool(TOOL["name"], TOOL["description"], TOOL["input_schema"], _add)


SUBJECTS = [Lattice, LatticeWire]
