"""deploy/redis.acl on a real server: each role does its work with the shipped commands, and no more than that."""

import asyncio
import json
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from redis.exceptions import NoPermissionError

from lattice.client import LatticeClient
from lattice.errors import StoreError
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.runs import Budget, Lease, Outcome, RunRecord, Step
from tests.deploy.servers import redis_server
from tests.processes.commands import Commands, until

pytestmark = [pytest.mark.redis, pytest.mark.processes]

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("submitter", "coordinator", "worker", "reader")
APP = ("--app", "tests.apps.three_members:team")
(RECIPE,) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "deploy" / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def filled_in(team):
    """The ACL file of a team, made as deploy/README.md says; the password of a role is its name."""
    passwords = {f"{role.upper()}_PASSWORD": role for role in ROLES}
    done = subprocess.run(
        ["bash", "-euc", RECIPE],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TEAM": team} | passwords,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture
def server(tmp_path):
    """A server with the users of two teams, and one for the test itself."""
    lines = {line: None for team in ("trio", "other") for line in filled_in(team).splitlines()}
    acl = tmp_path / "redis.acl"
    acl.write_text("\n".join(lines) + "\nuser test on >test ~* &* +@all\n")
    with redis_server("--aclfile", acl, "--acllog-max-len", 1000) as socket:
        yield Server(socket)


class Server:
    def __init__(self, socket):
        self.socket = socket

    def url(self, role, team="trio"):
        return f"unix://{team}-{role}:{role}@{quote(str(self.socket))}"

    def denials(self):
        """What the server refused since it started, but for what deploy/README.md says is refused."""
        with redis.Redis.from_url(f"unix://test:test@{quote(str(self.socket))}", decode_responses=True) as client:
            entries = client.execute_command("ACL", "LOG", 1000)
        found = {(entry["username"], entry["reason"], entry["object"]) for entry in entries}
        return sorted(
            one
            for one in found
            if not (one[0] == "trio-submitter" and ":message:" in one[2])
            and one != ("trio-coordinator", "command", "client|list")
        )

    def count_processes(self):
        with redis.Redis.from_url(f"unix://test:test@{quote(str(self.socket))}") as client:
            return client.zcard("lattice:{trio}:processes")

    def store(self, role, team="trio", space="trio"):
        return Store(self.url(role, team), space)


class Store(RedisRunStore):
    """The store of a role, to be used in a block."""

    def __init__(self, url, team):
        super().__init__(open_redis(url), team, patience=0)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()
        await self._redis.aclose(close_connection_pool=True)


def test_the_template_is_refused_until_the_passwords_are_filled_in(tmp_path):
    with pytest.raises(AssertionError), redis_server("--aclfile", ROOT / "deploy" / "redis.acl"):
        pass


@pytest.mark.timeout(180)
def test_a_team_does_its_work_with_the_rights_of_its_roles(server, tmp_path):
    with ExitStack() as stack:

        def start(name, role, *arguments):
            return commands.start(name, *arguments, *APP, "--redis-url", server.url(role))

        commands = Commands(tmp_path, warm=True)
        stack.callback(commands.close)
        stack.callback(lambda: print("refused:", server.denials()))  # shown when the test fails

        started = [start("lattice-coordinator", "coordinator")]
        started += [start("lattice-worker", "worker", "--member", member) for member in ("alpha", "beta", "gamma")]
        until(lambda: server.count_processes() == len(started), "every process is at work")
        submitted = start("lattice-submit", "submitter", "first", "--wait", "--json")
        outcome = json.loads(submitted.ends())
        assert outcome["status"] == "succeeded"
        assert "gamma first / gamma" in outcome["result"]
        assert "alpha second" in start("lattice-submit", "submitter", "second", "--follow", "--id", "key").ends()
        assert "beta later" in start("lattice-submit", "submitter", "later", "--wait", "--in", "100ms").ends()
        runs = json.loads(start("lattice", "reader", "runs", "--json").ends())
        assert [run["status"] for run in runs] == ["succeeded"] * 3
        assert start("lattice", "reader", "dead", "list", "--json").ends().strip() == "[]"
        later = start("lattice-submit", "submitter", "much later", "--in", "1h").ends().strip()
        assert "it is due at" in start("lattice", "reader", "doctor", later).ends()
        assert outcome["run_id"] in start("lattice", "reader", "doctor", outcome["run_id"], "--json").ends()
        inbox = json.loads(start("lattice", "reader", "inbox", "alpha", "--status", "all", "--json").ends())
        assert len(inbox) == 3
        assert outcome["run_id"] in start("lattice", "reader", "show", outcome["run_id"], "--json").ends()
        for command in started:
            command.process.terminate()
            command.ends()
    assert server.denials() == []


async def test_every_step_of_the_store_is_allowed_to_a_worker_and_a_coordinator(server):
    """Also those that the quiet life of a team does not reach: hand back, reclaim, dead letters, cancel, forget."""
    for role in ("worker", "coordinator"):
        async with server.store(role) as store:
            await store.start_run(RunRecord(id=role, team="trio", task="a task", conversation=f"run/{role}"))
            await store._redis.set(store.keys.looking, "1", px=600_000)
            await store.next_expiry()
            taken = await store.take_run(role, "p1", 30_000)
            await store.renew([taken.lease], 30_000)
            message = TeamMessage(id=f"{role}-m", from_="manager", to="trio::alpha", content="work", run_id=role)
            await store.send(message, member="alpha", conversation="member/alpha")
            (claim,) = await store.claim("alpha", "p1", 30_000)
            await store.append(claim.lease, Step(conversation="member/alpha", messages=(b'{"role":"user"}',)))
            await store.hand_back(claim.lease)
            (claim,) = await store.claim("alpha", "p1", 1)
            await store.load("member/alpha")
            await store.postpone(claim.lease, 1, "overload")
            await store._redis.zadd(store.keys.delayed, {f"{role}-m": 1})
            await store.wake_due()
            await store.draw(role, Budget(max_tokens=5), tokens=1)
            await store.work_items(role)
            await store.hold_off("provider", 0.001)
            await store.admission("provider")
            (claim,) = await store.claim("alpha", "p1", 1)
            await store._redis.zadd(store.keys.leases, {f"message:{role}-m": 1})
            await store.reclaim_expired("p2", 30_000)
            await store._redis.zadd(store.keys.leases, {f"message:{role}-m": 1})
            (claim,) = await store.claim("alpha", "p1", 1)
            await store._redis.hset(store.keys.message(f"{role}-m"), "attempt", 99)
            await store._redis.zadd(store.keys.leases, {f"message:{role}-m": 1})
            await store.reclaim_expired("p2", 30_000)
            again = await store.requeue_dead(f"{role}-m")
            assert again is not None
            await store.drop_dead(again.id)
            await store.update_status(again.id, "cancelled")
            assert await store.cancel_run(role, "enough") == "cancelled"
            await store._redis.zadd(store.keys.retention, {f"run:{role}": 1})
            await store.forget_runs()
            await store.await_claims("alpha", "p1", 30_000, 1, 1)
            await store.wait_for_signals("p1", 1)
    assert server.denials() == []


async def test_a_submitter_can_neither_see_claim_nor_settle_work(server):
    async with server.store("worker") as worker, server.store("submitter") as submitter:
        message = TeamMessage(id="m1", from_="manager", to="trio::alpha", content="secret")
        await worker.send(message, member="alpha")
        with pytest.raises(StoreError):
            await submitter.claim("alpha", "thief", 30_000)
        with pytest.raises(StoreError):
            await submitter.get("m1")
        (claim,) = await worker.claim("alpha", "p1", 30_000)
        lease = Lease("message", "m1", "p1", claim.lease.token)
        done = Outcome(status=MessageStatus.DONE, report="mine")
        with pytest.raises(StoreError):
            await submitter.settle(lease, done, Step(conversation="m1"))
        assert (await worker.settle(lease, done, Step(conversation="m1"))).word == "settled"


@pytest.mark.parametrize("space", ["trio", "trio.inner"])
@pytest.mark.parametrize("role", ROLES)
async def test_no_role_of_another_team_reads_or_claims_anything(server, role, space):
    async with server.store("worker", space=space) as worker, server.store(role, "other", space) as stranger:
        message = TeamMessage(id="m1", from_="manager", to="trio::alpha", content="secret")
        await worker.send(message, member="alpha")
        attempts = (
            lambda: stranger.claim("alpha", "thief", 30_000),
            lambda: stranger.get("m1"),
            lambda: stranger.inbox("alpha"),
            lambda: stranger.load("m1"),
            lambda: stranger.list_runs(),
            lambda: stranger.read_events("r1"),
            lambda: stranger.send(message.evolve(id="m2"), member="alpha"),
        )
        for attempt in attempts:
            with pytest.raises(StoreError):
                await attempt()
        assert [found.id for found in await worker.inbox("alpha")] == ["m1"]


async def test_a_worker_has_no_part_in_rq(server):
    async with server.store("worker") as worker:
        for key in ("rq:queue:lattice-trio", "rq:job:r1"):
            with pytest.raises(NoPermissionError):
                await worker._redis.exists(key)


async def test_a_reader_reads_and_changes_nothing(server):
    async with server.store("worker") as worker, server.store("reader") as reader:
        await worker.send(TeamMessage(id="m1", from_="manager", to="trio::alpha", content="work"), member="alpha")
        assert (await reader.get("m1")).content == "work"
        assert await reader.counts("alpha") == {"pending": 1}
        assert await reader.processes() == []
        with pytest.raises(StoreError):
            await reader.update_status("m1", "cancelled")
        with pytest.raises(StoreError):
            await reader.claim("alpha", "thief", 30_000)
        for command in (("SET", "x"), ("DEL",), ("EXPIRE", "1"), ("SORT", "BY", "nosort", "STORE", "x")):
            with pytest.raises(NoPermissionError):
                await reader._redis.execute_command(command[0], reader.keys.message("m1"), *command[1:])
        assert (await worker.get("m1")).status is MessageStatus.PENDING


async def test_nobody_comes_in_without_a_password(server):
    async with asyncio.timeout(10):
        with pytest.raises(StoreError):
            async with LatticeClient(team="trio", redis_url=f"unix://{quote(str(server.socket))}"):
                pass
