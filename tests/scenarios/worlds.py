"""The ways to run a team, from one process to many, and one shape for what came of it."""

import asyncio
import inspect
import sqlite3
from dataclasses import dataclass
from functools import partial

from lattice import AbortController, AbortError, create_sqlite_mailbox
from lattice.client import LatticeClient
from lattice.mailbox import TeamMessage, mailbox_key
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.team.definition import conversation_policy
from lattice.team.store_mail import StoreMail
from tests.cluster import Cluster, until
from tests.contracts.backends import TEAM
from tests.scenarios.description import Making
from tests.teams import brief

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

    def work(self, member):
        """What the member was asked or handed, without the reports on what it handed off itself."""
        return [message for message in self.mail[member] if message.work_item_role != "upstream_report"]

    def statuses(self, member):
        return [str(message.status) for message in self.work(member)]

    def tool_results(self, nth=0):
        """What the tools of the lead's nth batch returned."""
        batches = [event["message"]["content"] for event in self.events if event["type"] == "user"]
        return [block["content"] for block in batches[nth]]

    @property
    def ends(self):
        """How often the end of each work item of the team's members was told, by message id, if the run sent it."""
        told = [
            (e["subtype"], e["message"]["to"], e["message"]["id"]) for e in self.events if e["type"] == "team_message"
        ]
        ended = [message for word, *message in told if word in ("done", "failed", "cancelled")]
        work = [m for box in self.mail.values() for m in box if m.work_item_role == "delegation"]
        return {m.id: ended.count([m.to, m.id]) for m in work if ("sent", m.to, m.id) in told}

    @property
    def reports(self):
        return [message for message in self.mail["manager"] if message.work_item_role == "upstream_report"]

    @property
    def followups(self):
        return [message for message in self.mail["manager"] if message.work_item_role == "followup"]


class World:
    """What a scenario may do with a team. ``make`` makes one for this world; ``concurrency`` is that of its workers."""

    is_local = False

    def __init__(self, folder):
        self.make = Making(folder, self._team_options)
        self.stage = self.make.stage
        self.concurrency = None
        self.run_id = None
        """That of the latest run, where runs have one."""

    def _team_options(self):
        return {}

    async def run(self, team, task="go", *, within=20, **how):
        """Run a task; it may be aborted at an event, on a note of the stage, or first of all."""
        async with asyncio.timeout(within):
            outcome = await self._run(team, task, **how)
        assert set(outcome.ends.values()) <= {1}, "each work item has one end in the events"
        return outcome

    async def send(self, team, from_, to, content, **options):
        """Send mail from outside of any agent."""
        raise NotImplementedError

    async def interrupt(self, team):
        """Interrupt the latest run."""
        raise NotImplementedError

    async def drain(self, team):
        """Have the mail of all members worked off."""
        raise NotImplementedError

    async def mail(self, team):
        """Every mailbox of a team, by member; that of the lead is ``manager``."""
        raise NotImplementedError

    async def close(self):
        pass


class LocalWorld(World):
    """``Team.query`` in this process."""

    is_local = True

    def __init__(self, folder, make_mailbox):
        self._make_mailbox = make_mailbox
        super().__init__(folder)

    def _team_options(self):
        return {"mailbox": self._make_mailbox()}

    async def _run(self, team, task, *, abort_at=None, abort_on=None, abort_first=False, permissions=None):
        controller, events = AbortController(), []
        watching = asyncio.create_task(self._watch(controller, abort_on))
        given = {} if permissions is None else {"permissions": permissions}
        if abort_first:
            controller.abort()
        result, status, error = None, "cancelled", None
        try:
            async for event in team.query(task, stream=False, signal=controller.signal, **given):
                events.append(event.to_dict())
                if abort_at is not None and brief(event) == abort_at:
                    controller.abort()
                if event.type == "result":
                    result = event
            status = "failed" if result.is_error else "succeeded"
            error = {"message": str(result.error)} if result.is_error else None
        except AbortError:
            pass
        except Exception as problem:
            status, error = "failed", {"message": str(problem)}
        finally:
            watching.cancel()
        text = "" if result is None else result.result
        usage = None if result is None else result.total_usage
        return Outcome(status, text, error, usage, events, await self.mail(team))

    async def _watch(self, controller, abort_on):
        if abort_on is not None:
            await self.stage.reached(abort_on)
            controller.abort()

    async def send(self, team, from_, to, content, **options):
        return await team.send(from_, to, content, **options)

    async def interrupt(self, team):
        assert team.interrupt()

    async def drain(self, team):
        await team.drain()

    async def mail(self, team):
        boxes = {"manager": "manager", **{member.key: member.mailbox_id for member in team.members}}
        mail = {}
        for name, mailbox_id in boxes.items():
            found = team.mailbox.inbox(mailbox_id, "all")
            mail[name] = await found if inspect.isawaitable(found) else found
        return mail


class StoreWorld(World):
    """Workers and coordinators on Redis; each team is started when it is needed first."""

    def __init__(self, folder):
        super().__init__(folder)
        self._starting = asyncio.Lock()
        self._started = {}

    async def started(self, team):
        """What works for a team, at work."""
        async with self._starting:
            if team.key not in self._started:
                self._started[team.key] = await self._start(team)
        return self._started[team.key]

    async def send(self, team, from_, to, content, **options):
        started = await self.started(team)
        draft = TeamMessage(id="", from_=from_, to=team.directory.resolve(to), content=content, **options)
        return await StoreMail(started.store, team.directory).send(draft)

    async def interrupt(self, team):
        assert await (await self.started(team)).store.interrupt_run(self.run_id) == "interrupted"

    async def drain(self, team):
        """Its workers do so all the time."""
        await until(partial(self._is_drained, team), 20)

    async def _is_drained(self, team):
        mail = await self.mail(team)
        boxes = [mail[member.key] for member in team.members]
        return all(m.status.is_terminal or m.status == "read" for box in boxes for m in box)

    async def mail(self, team):
        store = (await self.started(team)).store
        return {
            name: await store.inbox(mailbox_key(name), "all") for name in ("manager", *(m.key for m in team.members))
        }

    async def _outcome_of(self, outcome, events, team):
        events = [event for event in events if event["type"] not in ("stream_event", "run_ended")]
        text = outcome["result"] if outcome["result"] is not None else ""
        return Outcome(outcome["status"], text, outcome["error"], outcome["usage"], events, await self.mail(team))

    def _concurrency_of(self, member):
        """As ``lattice-worker`` has it by default."""
        return self.concurrency or (1 if conversation_policy(member) == "member" else 10)


class RedisWorld(StoreWorld):
    """A coordinator and a worker for each member, each with a host and connections of its own, on a real server."""

    def __init__(self, folder, backend):
        super().__init__(folder)
        self._backend = backend
        self._runs = 0

    async def _run(self, team, task, *, abort_at=None, abort_on=None, abort_first=False, permissions=None):
        cluster = await self.started(team)
        coordinator = next(process for process in cluster.processes if process.coordinator)
        self._runs += 1
        run_id = self.run_id = f"run-{self._runs}"
        await cluster.submit(task, run_id, options={} if permissions is None else {"permissions": permissions})
        if abort_first:
            await cluster.store.cancel_run(run_id, "the test says so")
        driving = coordinator.drive(run_id)
        if abort_at is not None:
            await until(partial(_told, cluster, run_id, abort_at), 20)
        if abort_on is not None:
            await self.stage.reached(abort_on)
        if abort_at is not None or abort_on is not None:
            await cluster.store.cancel_run(run_id, "the test says so")
        return await self._outcome_of(await driving, await cluster.events(run_id), team)

    async def _start(self, team):
        cluster = Cluster(self._backend if team.key == TEAM else _Space(self._backend, team.key), team)
        for member in team.members:
            await cluster.worker(member.key, concurrency=self._concurrency_of(member))
        await cluster.coordinator()
        return cluster

    async def close(self):
        for cluster in self._started.values():
            await cluster.close()


class _Space:
    """The backend of another team on the same server."""

    def __init__(self, backend, key):
        self.store = partial(backend.space, key)
        self.space = backend.space


async def _told(cluster, run_id, event):
    return event in map(brief, await cluster.events(run_id))


class ProcessWorld(StoreWorld):
    """The real commands: a coordinator and a worker for each member, each a process of its own."""

    def __init__(self, folder, name, commands, redis_url):
        super().__init__(folder)
        self._commands = commands
        self._redis_url = redis_url
        self._env = {"LATTICE_APP": APP, "LATTICE_TEST_SCENARIO": name, "LATTICE_TEST_STAGE": str(folder)}

    async def _run(self, team, task, *, abort_at=None, abort_on=None, abort_first=False, permissions=None):
        client = (await self.started(team)).client
        run_id = self.run_id = await client.submit(
            task, options={} if permissions is None else {"permissions": permissions}
        )
        if abort_first:
            await client.cancel(run_id)
        aborting = asyncio.create_task(self._cancel_on(client, run_id, abort_on))
        events = []
        async for _, event in client.events(run_id):
            events.append(event)
            if brief(event) == abort_at:
                await client.cancel(run_id)
        await aborting
        return await self._outcome_of(await client.result(run_id), events, team)

    async def _cancel_on(self, client, run_id, abort_on):
        if abort_on is not None:
            await self.stage.reached(abort_on)
            await client.cancel(run_id)

    async def _start(self, team):
        env = {**self._env, "LATTICE_TEST_TEAM": team.key}
        self._commands.start("lattice-coordinator", **env)
        for member in team.members:
            words = ("--member", member.key, "--concurrency", self._concurrency_of(member))
            self._commands.start("lattice-worker", *words, **env)
        return await _Line(team, self._redis_url).open()

    async def close(self):
        for line in self._started.values():
            await line.close()


class _Line:
    """The connections of the test itself to a team's key space."""

    def __init__(self, team, redis_url):
        self._redis = open_redis(redis_url)
        self.store = RedisRunStore(self._redis, team.key)
        self.client = LatticeClient(team=team.key, redis_url=redis_url)

    async def open(self):
        await self.client.__aenter__()
        return self

    async def close(self):
        await self.client.__aexit__(None, None, None)
        await self.store.close()
        await self._redis.aclose()
