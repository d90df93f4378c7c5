"""openai-agents: an Agent and its Runner on a Model of its own kind, tracing off."""

from bench.loop_peers.base import SYSTEM, Subject, add


class OpenAIAgents(Subject):
    name = "openai-agents"
    imports = "from agents import Agent, Runner"
    packages = ("openai-agents", "openai", "pydantic")

    def model(self, turns):
        from agents import Model, ModelResponse, Usage
        from openai.types import responses

        class Fake(Model):
            turn = 0

            async def get_response(self, *_arguments, **_options):
                turn, self.turn = self.turn, self.turn + 1
                if turn < turns:
                    item = responses.ResponseFunctionToolCall(
                        arguments=f'{{"a":{turn},"b":1}}', call_id=f"toolu_{turn:06d}", name="add", type="function_call"
                    )
                else:
                    text = responses.ResponseOutputText(annotations=[], text="done", type="output_text")
                    item = responses.ResponseOutputMessage(
                        id="msg_1", content=[text], role="assistant", status="completed", type="message"
                    )
                return ModelResponse(output=[item], usage=Usage(), response_id=None)

            def stream_response(self, *_arguments, **_options):
                raise NotImplementedError

        return Fake()

    def agent(self, model):
        from agents import Agent, function_tool, set_tracing_disabled

        set_tracing_disabled(disabled=True)
        return Agent(name="adder", instructions=SYSTEM, tools=[function_tool(add)], model=model)

    async def run(self, agent):
        from agents import Runner

        agent.model.turn = 0
        return (await Runner.run(agent, "go", max_turns=1_000_000)).final_output


SUBJECTS = [OpenAIAgents]
