"""One way to run a team in each world, and one shape for what came of it."""

import asyncio
import inspect
import sqlite3
from dataclasses import dataclass
from functools import partial

from lattice import AbortController, AbortError, create_sqlite_mailbox
from lattice.client import LatticeClient
from lattice.mailbox import mailbox_key
from tests.cluster import Cluster, until
from tests.contracts.backends import TEAM
from tests.teams import brief, team_of

__all__ = ["TEAM", "LocalWorld", "Outcome", "ProcessWorld", "RedisWorld"]

APP = "tests.scenarios.app:team"


def sqlite_mailbox(path):
    return create_sqlite_mailbox(database=sqlite3.connect(path))


@dataclass
class Outcome:
    """What came of a run: ``status`` is succeeded, failed or cancelled; ``events`` without stream events."""

    status: str
    text: str
    error: dict | None
    usage: dict | None
    events: list
    mail: dict

    @property
    def briefs(self):
        return [brief(event) for event in self.events]

    def statuses(self, member):
        return [str(message.status) for message in self.mail[member]]

    @property
    def ends(self):
        """How often the end of each work item of the team's members was told, by message id."""
        ends = [e["message"] for e in self.events if e.get("subtype") in ("done", "failed", "cancelled")]
        told = [(message["to"], message["id"]) for message in ends]
        work = [m for messages in self.mail.values() for m in messages if m.work_item_role == "delegation"]
        return {message.id: told.count((message.to, message.id)) for message in work}

    @property
    def reports(self):
        return [message for message in self.mail["manager"] if message.work_item_role == "upstream_report"]


class LocalWorld:
    """``Team.query`` in this process."""

    is_local = True

    def __init__(self, make_mailbox):
        self._make_mailbox = make_mailbox

    def team(self, lead, members=(), **options):
        return team_of(lead, dict(members), name=TEAM, mailbox=self._make_mailbox(), **options)

    async def run(self, team, task="go", *, abort=None, abort_at=None, permissions=None, within=10):
        controller, events, error = AbortController(), [], None
        watching = None if abort is None else asyncio.create_task(_abort_when(abort, controller))
        given = {} if permissions is None else {"permissions": permissions}
        result, status = None, "cancelled"
        try:
            async with asyncio.timeout(within):
                async for event in team.query(task, stream=False, signal=controller.signal, **given):
                    events.append(event.to_dict())
                    if abort_at is not None and brief(event) == abort_at:
                        controller.abort()
                    if event.type == "result":
                        result = event
            status = "failed" if result.is_error else "succeeded"
        except AbortError:
            pass
        finally:
            if watching is not None:
                watching.cancel()
        if result is not None and result.is_error:
            error = {"message": str(result.error)}
        text = "" if result is None else result.result
        usage = None if result is None else result.total_usage
        return Outcome(status, text, error, usage, events, await self._mail(team))

    async def _mail(self, team):
        boxes = {"manager": "manager", **{member.key: member.mailbox_id for member in team.members}}
        mail = {}
        for name, mailbox_id in boxes.items():
            found = team.mailbox.inbox(mailbox_id, "all")
            mail[name] = await found if inspect.isawaitable(found) else found
        return mail


class RedisWorld:
    """A coordinator and a worker for each member, each with a host and connections of its own, on a real server."""

    is_local = False

    def __init__(self, backend):
        self._backend = backend
        self._clusters = {}
        self._runs = 0

    def team(self, lead, members=(), **options):
        return team_of(lead, dict(members), name=TEAM, **options)

    async def run(self, team, task="go", *, abort=None, abort_at=None, permissions=None, within=10):
        cluster = await self._cluster(team)
        coordinator = next(process for process in cluster.processes if process.coordinator)
        self._runs += 1
        run_id = f"run-{self._runs}"
        options = {} if permissions is None else {"permissions": permissions}
        await cluster.submit(task, run_id, options=options)
        driving = coordinator.drive(run_id)
        if abort is not None:
            await asyncio.wait_for(abort.wait(), within)
            await cluster.store.cancel_run(run_id, "the test says so")
        if abort_at is not None:
            await until(partial(_told, cluster, run_id, abort_at))
            await cluster.store.cancel_run(run_id, "the test says so")
        outcome = await asyncio.wait_for(driving, within)
        return await _outcome_of(outcome, await cluster.events(run_id), cluster.store, team)

    async def _cluster(self, team):
        if id(team) not in self._clusters:
            cluster = self._clusters[id(team)] = Cluster(self._backend, team)
            await cluster.workers()
            await cluster.coordinator()
        return self._clusters[id(team)]

    async def close(self):
        for cluster in self._clusters.values():
            await cluster.close()


async def _abort_when(event, controller):
    await event.wait()
    controller.abort()


async def _told(cluster, run_id, event):
    return event in map(brief, await cluster.events(run_id))


async def _outcome_of(outcome, events, store, team):
    """What came of a run, from what a store knows of it."""
    events = [event for event in events if event["type"] not in ("stream_event", "run_ended")]
    mail = {name: await store.inbox(mailbox_key(name), "all") for name in ("manager", *(m.key for m in team.members))}
    text = outcome["result"] if outcome["result"] is not None else ""
    return Outcome(outcome["status"], text, outcome["error"], outcome["usage"], events, mail)


class ProcessWorld:
    """The real commands: a coordinator and a worker for each member, started for one scenario."""

    is_local = False

    def __init__(self, commands, redis_url):
        self._commands = commands
        self._redis_url = redis_url

    async def run(self, name, described, within=30):
        team, start = described.team, partial(self._commands.start, env={"LATTICE_TEST_SCENARIO": name})
        await start("lattice-coordinator", app=APP)
        for member in team.members:
            await start("lattice-worker", "--member", member.key, app=APP)
        async with LatticeClient(team=TEAM, redis_url=self._redis_url) as client, asyncio.timeout(within):
            options = {} if described.permissions is None else {"permissions": described.permissions}
            run_id = await client.submit("go", options=options)
            events = []
            async for _, event in client.events(run_id):
                events.append(event)
                if brief(event) == described.abort_at:
                    await client.cancel(run_id)
            return await _outcome_of(await client.result(run_id), events, client, team)
