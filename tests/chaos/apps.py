"""What the app of the fault suite is made of: models with a plan, tools whose effects are recorded outside Redis.

Every answer of a model carries an id of its own, and passes it on with every tool call and handoff: so the record shows
which answers were used, and which were paid for in vain.
"""

import asyncio
import ctypes
import os
import random
import re
import time
import uuid

from lattice import create_team, define_agent, team_member, tool
from lattice.team.agent_tool import agent_tool
from lattice.testing import ScriptedModel, tool_use, turn
from tests.chaos import faults
from tests.chaos.record import Record

MEMBERS = ("alpha", "beta", "gamma", "delta")
RUN = re.compile(r"run (\d+) (\w+)")
MESSAGE = re.compile(r"^message_id: (\S+)$", re.MULTILINE)
CALL = re.compile(r"\[call (\w+)\]")
REPORT = re.compile(r"answer of (\w+)")


class Stage:
    """The world of one process: where it records, and how long things take."""

    def __init__(self):
        self.record = Record(os.environ["CHAOS_FOLDER"])
        low, _, high = os.environ.get("CHAOS_LATENCY", "0-0").partition("-")
        self._range = float(low), float(high)
        self._random = random.Random(f"{os.environ.get('CHAOS_SEED', '0')}/{os.getpid()}")

    def latency(self):
        return self._random.uniform(*self._range)

    async def pause(self):
        await asyncio.sleep(self.latency())


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(b["text"] for b in content if b["type"] == "text")


class Script:
    """The model of one actor: turn n of a conversation does what the plan says for it."""

    def __init__(self, stage, actor, plan):
        self._stage = stage
        self._actor = actor
        self._plan = plan

    async def reply(self, request):
        first = text_of(request.messages[0])
        run, kind = RUN.search(first).groups()
        message = MESSAGE.search(first)
        said = [text_of(m) for m in request.messages if m["role"] == "assistant"]
        call = uuid.uuid4().hex[:12]
        facts = {
            "actor": self._actor,
            "work": f"run {run}" if message is None else message[1],
            "run": int(run),
            "turn": len(said),
            "call": call,
        }
        self._stage.record.write("model_start", seen=CALL.findall("\n".join(said)), **facts)
        await self._stage.pause()
        blocks = self._plan(len(said), kind, call, f"run {run} {kind} for {call}")
        self._stage.record.write("model_end", **facts)
        faults.reach("after_model")
        return turn(f"[call {call}] answer of {self._actor}", *blocks, usage={"input_tokens": 10, "output_tokens": 5})


def effect_tools(stage):
    """Tools whose effects are recorded: one whose outcome is unknown after a crash, one that is run again, a killer."""
    schema = {
        "type": "object",
        "properties": {"call": {"type": "string"}, "n": {"type": "integer"}, "run": {"type": "integer"}},
        "required": ["call", "n", "run"],
    }

    def effect(name, on_recovery):
        async def handler(given):
            stage.record.write("tool_start", tool=name, **given)
            faults.reach("tool_begun")
            await stage.pause()
            stage.record.write("tool_end", tool=name, **given)
            faults.reach("tool_done")
            return f"effect {given['call']}/{given['n']}"

        return tool(name, f"An effect ({on_recovery}).", schema, handler, on_recovery=on_recovery)

    async def die(given):
        stage.record.write("tool_start", tool="poison", **given)
        os._exit(13)

    async def block(given):
        stage.record.write("tool_start", tool="block", **given)
        time.sleep(float(os.environ["CHAOS_BLOCK"]))  # noqa: ASYNC251 - the loop is to stand still
        stage.record.write("tool_end", tool="block", **given)
        return "blocked"

    async def hold_gil(given):
        stage.record.write("tool_start", tool="hold_gil", **given)
        ctypes.PyDLL(None).sleep(int(os.environ["CHAOS_BLOCK"]))  # a call into C that lets no other thread run
        stage.record.write("tool_end", tool="hold_gil", **given)
        return "blocked"

    blocks = [
        tool("block", "Blocks the loop.", schema, block),
        tool("hold_gil", "Blocks all threads.", schema, hold_gil),
    ]
    poison = tool("poison", "Kills its process.", schema, die, on_recovery="rerun")
    return [effect("once", "unknown"), effect("again", "rerun"), poison, *blocks]


def _uses(name, call, run, count=1):
    return [tool_use(name, {"call": call, "n": n, "run": int(run)}) for n in range(count)]


def _number(task):
    return RUN.search(task)[1]


def lead_plan(turn_number, kind, call, task):
    """An effect, a round of handoffs, an ask, a second round, the end."""
    hand_off = {"mode": "handoff", "task": task}
    if turn_number == 0:
        return _uses("once", call, _number(task))
    if turn_number == 1:
        more = [tool_use("delta", hand_off)] if kind == "poison" else []
        return [tool_use("alpha", hand_off), tool_use("beta", hand_off), *more]
    if turn_number == 2:
        return [tool_use("gamma", {"mode": "ask", "task": task})]
    if turn_number == 3:
        return [tool_use("alpha", hand_off), *_uses("once", call, _number(task)), tool_use("gamma", hand_off)]
    return []


def alpha_plan(turn_number, kind, call, task):
    """One effect, then two that may be run again, then the report."""
    if turn_number == 0:
        if kind in ("block", "hold_gil"):
            return _uses(kind, call, _number(task))
        return _uses("once", call, _number(task))
    return _uses("again", call, _number(task), 2) if turn_number == 1 else []


def beta_plan(turn_number, _kind, _call, task):
    """A nested handoff, then the report."""
    return [tool_use("gamma", {"mode": "handoff", "task": task})] if turn_number == 0 else []


def gamma_plan(turn_number, _kind, call, task):
    """One effect, then the report."""
    return _uses("again", call, _number(task)) if turn_number == 0 else []


def delta_plan(turn_number, _kind, call, task):
    """Poison, then a report that nobody will ever see."""
    return _uses("poison", call, _number(task)) if turn_number == 0 else []


def build():
    """Make the team that the environment asks for."""
    stage = Stage()
    name = os.environ["CHAOS_TEAM"]
    tools = effect_tools(stage)

    def agent(actor, plan, *more):
        client = ScriptedModel(Script(stage, actor, plan).reply)
        return define_agent(name=actor, model="scripted", workspace=False, tools=[*tools, *more], model_client=client)

    gamma = agent("gamma", gamma_plan)
    to_gamma = agent_tool("gamma", gamma, target_mailbox_id=f"{name}::gamma")
    agents = {
        "alpha": agent("alpha", alpha_plan),
        "beta": agent("beta", beta_plan, to_gamma),
        "gamma": gamma,
        "delta": agent("delta", delta_plan),
    }
    return create_team(
        name=name,
        lead=agent("lead", lead_plan),
        members=[team_member(name=member, agent=agents[member]) for member in MEMBERS],
    )
