"""Everything at once: odd tools, hosts that fail, and several stops, at any await point and in any order."""

import asyncio
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lattice import AbortController, create_bare_agent, tool
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import ANY, ListStore, other_tasks, problems_of, until
from tests.unit.agent.test_properties import SUBTYPES, TOOLS, SlowModel, going_on, never

ENDINGS = {*SUBTYPES, "error_missing_output"}


class HostError(Exception):
    """What the host's own callbacks raise here."""


async def _swallows(value):
    """Ends in its own time, whatever it is told; once."""
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return "cancelled, so what"
    return "in peace"


async def _hears(value, context):
    for _ in range(20):
        if context.signal.aborted or (context.interrupt is not None and context.interrupt.aborted):
            return "heard"
        await asyncio.sleep(0)
    return "heard nothing"


def _threaded(value):
    time.sleep(0)
    if value.get("fail"):
        raise SystemExit("from a thread")
    return "from a thread"


async def _cancels(value):
    raise asyncio.CancelledError


MORE_TOOLS = [
    *TOOLS,
    tool("swallows", "Swallows a cancellation.", ANY, _swallows, is_concurrency_safe=True),
    tool("hears", "Hears its signals.", ANY, _hears, is_concurrency_safe=True),
    tool("threaded", "Runs in a thread.", ANY, _threaded, is_concurrency_safe=True),
    tool("cancels", "Cancels itself.", ANY, _cancels, is_concurrency_safe=True),
    tool("hurries", "Has a deadline.", ANY, _hears, timeout_ms=1),
]

odd_calls = st.one_of(
    st.sampled_from(["swallows", "hears", "cancels", "hurries", "submit_output"]).map(tool_use),
    st.booleans().map(lambda fail: tool_use("threaded", {"fail": fail})),
)
odd_turns = st.lists(odd_calls, min_size=1, max_size=4).map(lambda blocks: turn(text("odd"), *blocks))
scripts = st.builds(
    lambda working, last: [*working, last],
    st.lists(st.one_of(going_on, odd_turns), max_size=4),
    st.sampled_from(["done", never, RuntimeError("broken"), turn(tool_use("submit_output"))]),
)
stops = st.lists(
    st.tuples(st.integers(0, 90), st.sampled_from(["abort", "interrupt", "cancel"])), min_size=1, max_size=3
)
hosts = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["safe", "all", "sequential"]),
        "limit": st.integers(1, 3),
        "schema": st.booleans(),
        "hook_fails_at": st.one_of(st.none(), st.integers(0, 4)),
        "permission": st.sampled_from([None, "deny", "raise", "slow"]),
        "policy": st.sampled_from([None, "allow", "refuse", "raise"]),
        "store_fails_at": st.one_of(st.none(), st.integers(0, 4)),
        "tracer": st.sampled_from([None, "raise", "slow"]),
    }
)


def countdown(start):
    """A function that raises from its call number ``start`` on; never if None."""
    left = start

    def fail(*_):
        nonlocal left
        if left is not None:
            left -= 1
            if left < 0:
                raise HostError

    return fail


async def _permission(how):
    if how == "raise":
        raise HostError
    if how == "slow":
        await asyncio.sleep(0)
    return {"behavior": "deny" if how == "deny" else "allow", "message": "no"}


async def _policy(how):
    await asyncio.sleep(0)
    if how == "raise":
        raise HostError
    return {"allowed": how == "allow", "code": "no", "message": "no"}


async def _tracer(how):
    await asyncio.sleep(0)
    if how == "raise":
        raise HostError


def agent_for(script, host, store):
    fail_append = countdown(host["store_fails_at"])
    keep = store.append

    def append(message):
        fail_append()
        keep(message)

    store.append = append
    permission, policy, tracer = host["permission"], host["policy"], host["tracer"]
    return create_bare_agent(
        model="m",
        model_client=SlowModel(script),
        tools=MORE_TOOLS,
        max_turns=5,
        history_store=store,
        auto_compact=True,
        tool_concurrency={"mode": host["mode"], "max_concurrency": host["limit"]},
        output_schema=ANY if host["schema"] else None,
        hooks={"on_tool_result": countdown(host["hook_fails_at"])},
        permission=None if permission is None else lambda _request: _permission(permission),
        tool_batch_policy=None if policy is None else lambda _context: _policy(policy),
        tracer=None if tracer is None else {"on_event": lambda _event: _tracer(tracer)},
    )


async def stop(work, agent, controller, how):
    if how == "abort":
        controller.abort()
    elif how == "interrupt":
        agent.interrupt()
    else:
        work.cancel()


async def collect(agent, controller, pauses):
    events = []
    async for event in agent.query("go", signal=controller.signal, stream=False):
        events.append(event)
        for _ in range(pauses):
            await asyncio.sleep(0)
    return events


@settings(
    max_examples=120, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(script=scripts, host=hosts, stopping=stops, pauses=st.integers(0, 3))
def test_nothing_that_happens_together_breaks_a_conversation(script, host, stopping, pauses):
    async def scenario():
        store, controller = ListStore(), AbortController()
        agent = agent_for(script, host, store)
        work = asyncio.ensure_future(collect(agent, controller, pauses))
        for steps, how in stopping:
            for _ in range(steps):
                await asyncio.sleep(0)
            await stop(work, agent, controller, how)
        if not (await asyncio.wait({work}, timeout=0.05))[0]:  # a stop before the start stops nothing that hangs
            controller.abort()
        assert (await asyncio.wait({work}, timeout=10))[0]
        if not work.cancelled() and not isinstance(work.exception(), HostError):
            events = work.result()
            assert [event.type for event in events].count("result") == 1
            assert events[-1].subtype in ENDINGS
        await until(lambda: agent.active is None)
        assert problems_of(await agent.get_history()) == []
        assert other_tasks() == []
        agent.model_client = ScriptedModel([turn(tool_use("submit_output"))] if host["schema"] else ["fine"])
        again = asyncio.ensure_future(agent.prompt("go on"))
        try:
            assert (await again).subtype in {"success", "error_max_turns", "error"}
        except HostError:
            assert host["hook_fails_at"] is not None
        assert problems_of(await agent.get_history()) == []
        if host["store_fails_at"] is None:
            assert store.messages == await agent.get_history()

    asyncio.run(scenario())
