"""agno: an Agent with a Model of its own kind and an async function as tool; no telemetry."""

import logging
from dataclasses import dataclass

from bench.loop_peers.base import SAYING, SYSTEM, Subject, add


class Agno(Subject):
    name = "agno"
    imports = "from agno.agent import Agent"
    packages = ("agno", "pydantic")

    def model(self, turns):
        from agno.models.base import Model
        from agno.models.response import ModelResponse

        @dataclass
        class Fake(Model):
            id: str = "fake"
            turns: int = 0
            turn: int = 0

            async def ainvoke(self, *_arguments, **_options):
                turn, self.turn = self.turn, self.turn + 1
                if turn == self.turns:
                    return ModelResponse(role="assistant", content="done")
                function = {"name": "add", "arguments": f'{{"a":{turn},"b":1}}'}
                call = {"id": f"toolu_{turn:06d}", "type": "function", "function": function}
                return ModelResponse(role="assistant", content=SAYING, tool_calls=[call])

            def invoke(self, *_arguments, **_options):
                raise NotImplementedError

            invoke_stream = ainvoke_stream = invoke

            def _parse_provider_response(self, response, **_options):
                return response

            _parse_provider_response_delta = _parse_provider_response

        return Fake(turns=turns)

    def agent(self, model):
        from agno.agent import Agent

        logging.disable(logging.CRITICAL)
        return Agent(model=model, tools=[add], instructions=SYSTEM, telemetry=False)

    async def run(self, agent):
        agent.model.turn = 0
        return (await agent.arun("go")).content.removeprefix(SAYING * agent.model.turns)


SUBJECTS = [Agno]
