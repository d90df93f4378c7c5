"""lattice: the run store alone (``lattice``), and the shipped worker with a one-turn agent (``lattice-agent``)."""

import asyncio
import os

from bench.peers.base import URL, AsyncPeer, now, stamp
from lattice import create_team, define_agent, team_member
from lattice.ids import new_id
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.runs import Batch, Outcome, RunRecord, Step, WorkItem
from lattice.team.host import Host
from lattice.team.worker import MemberWorker
from lattice.testing import ScriptedModel, text

TEAM, MEMBER, RUN, LEASE_MS, CONCURRENCY = "bench", "worker", f"run-{os.getpid()}", 30_000, 10


class Peer(AsyncPeer):
    """Send, claim, settle with a report, ten at a time as the worker does; each settle hands out the next claim."""

    async def a_open(self):
        self.store = RedisRunStore(open_redis(URL), TEAM)

    async def a_send(self):
        message = TeamMessage(id="", from_="manager", to=f"{TEAM}::{MEMBER}", content=f"sent at {now()}")
        await self.store.send(message, member=MEMBER)

    async def a_work(self):
        me = f"worker-{os.getpid()}"
        while True:
            claims = await self.store.claim(MEMBER, me, LEASE_MS, CONCURRENCY)
            while not claims:
                claims = await self.store.await_claims(MEMBER, me, LEASE_MS, CONCURRENCY, 5_000)
            await asyncio.gather(*(self._chain(claim, me) for claim in claims))

    async def _chain(self, claim, me):
        claims = [claim]
        while claims:
            claims = await self._settle(claims[0], me)

    async def _settle(self, claim, me):
        outcome = Outcome(status=MessageStatus.DONE, report=stamp(sent_at(claim.item.message.content)))
        step = Step(conversation=claim.item.conversation)
        settled = await self.store.settle(claim.lease, outcome, step, claim_next=(MEMBER, me, LEASE_MS))
        return settled.next


class AgentPeer(Peer):
    """Handoffs of a run, worked by ``MemberWorker`` at ten at a time: conversation, report, events."""

    lead = None

    async def a_send(self):
        if self.lead is None:
            self.lead = asyncio.ensure_future(self._lead())
        message = TeamMessage(
            id="",
            from_="manager",
            to=f"{TEAM}::{MEMBER}",
            content=f"sent at {now()}",
            run_id=RUN,
            work_item_role="delegation",
        )
        batch = Batch(id=new_id(), items=(WorkItem(message=message, member=MEMBER, conversation=""),))
        await self.store.hand_off(await self.lead, batch, Step(conversation=RUN))

    async def _lead(self):
        await self.store.start_run(RunRecord(id=RUN, team=TEAM, task="many jobs"))
        taken = await self.store.take_run(RUN, f"lead-{os.getpid()}", 0)
        return taken.lease

    async def a_work(self):
        host = Host(
            self.store,
            process_id=f"worker-{os.getpid()}",
            lease_ms=LEASE_MS,
            open_store=lambda: RedisRunStore(open_redis(URL), TEAM),
        )
        await host.start()
        await MemberWorker(host, team(), MEMBER, concurrency=CONCURRENCY).run()


def team():
    member = define_agent(name=MEMBER, model="scripted", workspace=False, model_client=ScriptedModel(answer))
    lead = define_agent(name="lead", model="scripted", workspace=False, model_client=ScriptedModel([]))
    return create_team(name=TEAM, lead=lead, members=[team_member(name=MEMBER, agent=member)])


async def answer(request):
    await asyncio.sleep(0)
    content = request.messages[-1]["content"]
    said = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
    return text(stamp(sent_at(said)))


def sent_at(said):
    return int(said.rpartition("sent at ")[2].split()[0])
