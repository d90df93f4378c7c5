"""The floor: the least that a conversation needs, written by hand."""

import orjson

from bench.loop_peers.base import SYSTEM, TOOL, Subject, Wire, add


class Floor(Subject):
    """Encodes the whole request each turn, parses the answer, calls the tool."""

    name = "floor"
    imports = "import asyncio, orjson"
    packages = ("orjson",)

    def model(self, turns):
        return Wire(turns)

    def agent(self, model):
        return {"model": model, "messages": []}

    async def run(self, agent):
        agent["model"].turn = 0
        messages = agent["messages"] = [{"role": "user", "content": "go"}]
        while True:
            request = {"model": "fake", "max_tokens": 16384, "system": SYSTEM, "tools": [TOOL], "messages": messages}
            answer = orjson.loads(agent["model"](orjson.dumps(request)))
            messages.append({"role": "assistant", "content": answer["content"]})
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            if not calls:
                return answer["content"][0]["text"]
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": str(await add(**call["input"]))}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})


SUBJECTS = [Floor]
