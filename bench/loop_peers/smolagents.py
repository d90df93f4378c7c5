"""smolagents: a ToolCallingAgent, which is synchronous, so each conversation has a thread."""

import asyncio

from bench.loop_peers.base import SYSTEM, Subject

INPUTS = {"a": {"type": "integer", "description": "one"}, "b": {"type": "integer", "description": "another"}}


class Smolagents(Subject):
    name = "smolagents"
    imports = "from smolagents import ToolCallingAgent"
    packages = ("smolagents",)
    threads = True

    def model(self, turns):
        from smolagents import models

        class Fake(models.Model):
            turns = turn = 0

            def generate(self, _messages, **_options):
                turn, self.turn = self.turn, self.turn + 1
                name, arguments = (
                    ("add", {"a": turn, "b": 1}) if turn < self.turns else ("final_answer", {"answer": "done"})
                )
                function = models.ChatMessageToolCallFunction(name=name, arguments=arguments)
                call = models.ChatMessageToolCall(function=function, id=f"toolu_{turn:06d}", type="function")
                return models.ChatMessage(role=models.MessageRole.ASSISTANT, content="", tool_calls=[call])

        fake = Fake(model_id="fake")
        fake.turns = turns
        return fake

    def agent(self, model):
        from smolagents import Tool, ToolCallingAgent

        class Add(Tool):
            name = "add"
            description = "Add two integers."
            inputs = INPUTS
            output_type = "integer"

            def forward(self, a: int, b: int) -> int:
                return a + b

        return ToolCallingAgent(
            tools=[Add()], model=model, instructions=SYSTEM, max_steps=1_000_000, verbosity_level=-1
        )

    async def run(self, agent):
        agent.model.turn = 0
        return await asyncio.to_thread(agent.run, "go")


SUBJECTS = [Smolagents]
