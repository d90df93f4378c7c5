"""Measures one subject in a process of its own: python -m bench.loop_peers MODULE NAME; prints a line of JSON."""

import asyncio
import gc
import importlib
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

CONVERSATIONS = {10: 25, 50: 10, 200: 4}
TOGETHER, TURNS_TOGETHER = 100, 10
IDLE_AGENTS = 1000


async def conversation(subject, agent, turns):
    began = time.process_time()
    last = await subject.run(agent)
    seconds = time.process_time() - began
    if last != "done":
        raise SystemExit(f"{subject.name} ended with {last!r}")
    return seconds * 1e6 / turns


async def per_turn(subject):
    """Least microseconds of processor time a turn, by length of the conversation, after a warm-up."""
    figures = {}
    for turns, times in CONVERSATIONS.items():
        agent = subject.agent(subject.model(turns))
        await conversation(subject, agent, turns)
        figures[f"us_{turns}"] = min([await conversation(subject, agent, turns) for _ in range(times)])
    return figures


async def together(subject):
    """Turns per second of processor time, many conversations on one loop; the best of three."""
    if subject.threads:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(TOGETHER))
    agents = [subject.agent(subject.model(TURNS_TOGETHER)) for _ in range(TOGETHER)]
    best = 0.0
    for _ in range(3):
        began = time.process_time()
        await asyncio.gather(*(subject.run(agent) for agent in agents))
        best = max(best, TOGETHER * TURNS_TOGETHER / (time.process_time() - began))
    return best


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


async def idle(subject):
    """Resident KiB of one agent among many that share a model and hold no conversation."""
    model = subject.model(TURNS_TOGETHER)
    agents = [subject.agent(model) for _ in range(50)]
    gc.collect()
    before = resident()
    agents += [subject.agent(model) for _ in range(IDLE_AGENTS)]
    gc.collect()
    return (resident() - before) / IDLE_AGENTS / 1024


async def measure(subject):
    kib = await idle(subject)  # first, while the process has no freed memory to hand out again
    return {"idle_kib": kib} | await per_turn(subject) | {"together": await together(subject)}


def main():
    module, name = sys.argv[1:]
    subject = next(one() for one in importlib.import_module(f"bench.loop_peers.{module}").SUBJECTS if one.name == name)
    figures = asyncio.run(measure(subject))
    versions = {package: metadata.version(package) for package in subject.packages}
    print(json.dumps({"figures": figures, "versions": versions, "imports": subject.imports}))


if __name__ == "__main__":
    main()
