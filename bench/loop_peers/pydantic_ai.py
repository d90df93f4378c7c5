"""pydantic-ai: an Agent on its FunctionModel, which reports a usage so that none is estimated."""

from bench.loop_peers.base import SAYING, SYSTEM, Subject, add


class PydanticAI(Subject):
    name = "pydantic-ai"
    imports = "from pydantic_ai import Agent"
    packages = ("pydantic-ai-slim", "pydantic")

    def model(self, turns):
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.usage import RequestUsage

        async def answer(_messages, _info):
            turn, fake.bench_turn = fake.bench_turn, fake.bench_turn + 1
            parts = [TextPart("done")]
            if turn < turns:
                parts = [TextPart(SAYING), ToolCallPart("add", {"a": turn, "b": 1}, tool_call_id=f"toolu_{turn:06d}")]
            return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=10))

        fake = FunctionModel(answer)
        fake.bench_turn = 0
        return fake

    def agent(self, model):
        from pydantic_ai import Agent

        return Agent(model, instructions=SYSTEM, tools=[add])

    async def run(self, agent):
        from pydantic_ai.usage import UsageLimits

        agent.model.bench_turn = 0
        return (await agent.run("go", usage_limits=UsageLimits(request_limit=None))).output


SUBJECTS = [PydanticAI]
