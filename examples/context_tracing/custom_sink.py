"""A sink of your own: whatever has on_event, and flush if it buffers."""

import asyncio
import sqlite3

from examples.offline import model_of
from lattice import create_bare_agent, define_context_tracer


async def main():
    database = sqlite3.connect(":memory:")
    database.execute("create table trace (run text, seq integer, type text)")
    waiting = []

    async def on_event(event):
        waiting.append((event.run_id, event.seq, event.type))

    async def flush():
        database.executemany("insert into trace values (?, ?, ?)", waiting)
        waiting.clear()

    tracer = define_context_tracer(on_event=on_event, flush=flush)
    agent = create_bare_agent(**model_of("Four."), tracer=tracer)
    await agent.prompt("What is 2 + 2?")
    runs, rows, last = database.execute("select count(distinct run), count(*), max(seq) from trace").fetchone()
    print(f"{runs} run, {rows} rows, the last is number {last}")
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
