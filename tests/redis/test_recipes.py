"""Every recipe of docs/redis.md, run as printed with the real redis-cli against a team at work, gives the answer."""

import asyncio
import inspect
import json
import os
import re
import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lattice import create_team, define_agent, team_member
from lattice.client import LatticeClient
from lattice.redis.keys import Keys
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from lattice.runs import Budget, ProcessInfo, RunRecord
from lattice.team.coordinator import Coordinator
from lattice.team.host import Host
from lattice.team.worker import MemberWorker
from lattice.testing import ScriptedModel, text, tool_use, turn

pytestmark = pytest.mark.redis

TEAM = "newsroom"
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "redis.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = {
    heading: BLOCK.search(body)[1]
    for heading, body in re.findall(r"^### (.+?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
}
(SETTING,) = BLOCK.findall(PAGE.split("## Questions")[0])


def lead_reply(request):
    last = request.messages[-1]["content"]
    said = last if isinstance(last, str) else "".join(block.get("text", "") for block in last)
    if said.startswith("Team runtime update"):
        return turn(text("the piece"), usage={"input_tokens": 30, "output_tokens": 3})
    calls = [tool_use(name, {"mode": "handoff", "task": f"work for {name}"}) for name in ("facts", "prose", "proof")]
    return turn(*calls, usage={"input_tokens": 20, "output_tokens": 2})


class Newsroom:
    """A team of which ``facts`` has reported, ``prose`` is in the middle of a tool call, and ``proof`` has no worker."""

    def __init__(self, url):
        self.url = url
        self.in_tool, self.may_end = asyncio.Event(), asyncio.Event()
        self.team = create_team(
            name=TEAM,
            lead=self._agent("lead", lead_reply),
            members=[
                team_member(name="facts", agent=self._agent("facts", ["the facts"])),
                team_member(name="prose", agent=self._agent("prose", [tool_use("look", id="call-1"), "the prose"])),
                team_member(name="proof", agent=self._agent("proof", ["the proof"])),
            ],
        )

    def _agent(self, name, script):
        from lattice import tool

        async def look(_input):
            self.in_tool.set()
            await self.may_end.wait()
            return "seen"

        tools = [tool("look", "Look.", {"type": "object", "properties": {}}, look)] if name == "prose" else []
        model = ScriptedModel(script)
        return define_agent(name=name, model="scripted", workspace=False, tools=tools, model_client=model)

    @asynccontextmanager
    async def at_work(self):
        """Submit a task and run the engine until the team is in the state that the class names."""
        async with LatticeClient(team=TEAM, redis_url=self.url) as client:
            self.client, self.store = client, client._store
            self.lead = await self._host("coordinator-1", "coordinator")
            self.run = await client.submit("Why is the sky blue?")
            self.driving = asyncio.create_task(Coordinator(self.lead, self.team).drive(self.run))
            self.tasks = [self.driving]
            await self.hire("facts")
            await self.hire("prose")
            await until(lambda: self._is_done("facts"))
            await asyncio.wait_for(self.in_tool.wait(), 20)
            await self._learn()
            try:
                yield self
            finally:
                await self._stop()

    async def _host(self, process, role, member=None):
        host = Host(self.store, process_id=process, lease_ms=30_000)
        await host.start()
        self.hosts = [*getattr(self, "hosts", []), host]
        info = ProcessInfo(id=process, role=role, host="here", pid=os.getpid(), member=member)
        await self.store.heartbeat(info, 60_000)
        return host

    async def hire(self, member):
        worker = MemberWorker(await self._host(f"worker-{member}", "worker", member), self.team, member)
        self.tasks.append(asyncio.create_task(worker.run()))

    async def _is_done(self, member):
        return (await self.store.counts(member)).get("done") == 1

    async def _learn(self):
        """Find what the placeholders of the page stand for, by the client and not by the recipes."""
        (message,) = await self.client.inbox("prose", "all")
        record = await self.client.run(self.run)
        self.message, self.batch = message.id, record.batch
        redis = self.store._redis
        field = await redis.hget(self.store.keys.message(message.id), "conversation")
        self.conversation = field.decode()
        (reported,) = await self.client.inbox("facts", "all")
        self.reported = reported.id

    async def finish(self):
        """Let the run come to its end."""
        self.may_end.set()
        await self.hire("proof")
        await asyncio.wait_for(self.driving, 20)

    async def _stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for host in self.hosts:
            await host.stop()


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


class Cli:
    """Runs a recipe by a shell in which ``redis-cli`` is the real one, pointed at the test's server."""

    def __init__(self, binary, url):
        parts = urlsplit(url)
        where = ["-h", parts.hostname, "-p", str(parts.port), "-n", parts.path.strip("/") or "0"]
        self._prelude = f'redis-cli() {{ {shlex.join([binary, *where])} "$@"; }}\n{SETTING}set -eu\n'

    async def lines(self, heading, **variables):
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            self._prelude + RECIPES[heading],
            env={"PATH": os.environ["PATH"]} | variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0, err.decode()
        assert err == b""
        lines = out.decode().splitlines()
        assert not any(line.startswith(("ERR", "WRONGTYPE", "NOPERM")) for line in lines), lines
        return lines


@pytest.fixture
async def newsroom(redis_url):
    async with Newsroom(redis_url).at_work() as newsroom:
        yield newsroom


@pytest.fixture
def cli(redis_cli, redis_url):
    return Cli(redis_cli, redis_url)


ASKED = set()
"""The headings that the tests of this file ask; filled by ``asks``, compared with the page by the last test."""


def asks(*headings):
    ASKED.update(headings)
    return lambda test: test


def groups(lines, size):
    assert len(lines) % size == 0, lines
    return [tuple(lines[start : start + size]) for start in range(0, len(lines), size)]


@asks("What has each status in a mailbox?", "What is in a mailbox, in send order?", "How full is each mailbox?")
async def test_mailboxes_are_listed_and_counted(newsroom, cli):
    assert await cli.lines("What has each status in a mailbox?", MEMBER="proof") == ["pending", "1"]
    counts = dict(groups(await cli.lines("What has each status in a mailbox?", MEMBER="facts"), 2))
    assert counts["done"] == "1"
    (row,) = groups(await cli.lines("What is in a mailbox, in send order?", MEMBER="proof"), 4)
    assert row[1:] == ("pending", "manager", "work for proof")
    depths = dict(groups(await cli.lines("How full is each mailbox?"), 2))
    assert depths == {"facts": "0", "prose": "1", "proof": "1"}


@asks(
    "Who works on a message, and since when?",
    "Until when does its lease hold?",
    "Which leases are held, the next to end first?",
)
async def test_who_works_on_a_message_since_when_and_until_when(newsroom, cli):
    (now, _), *_ = groups([str(part) for part in await newsroom.store._redis.time()], 2)
    now = int(now) * 1000
    status, owner, attempt, since = await cli.lines("Who works on a message, and since when?", MESSAGE=newsroom.message)
    assert (status, owner, attempt) == ("processing", "worker-prose", "1")
    assert now - 60_000 < int(since) < now + 60_000
    (until_when,) = await cli.lines("Until when does its lease hold?", MESSAGE=newsroom.message)
    assert now < int(until_when) < now + 90_000
    leases = [name for name, _ in groups(await cli.lines("Which leases are held, the next to end first?"), 2)]
    assert sorted(leases) == sorted([f"message:{newsroom.message}", f"run:{newsroom.run}"])


@asks("What did the lead get back?", "What came of one message?")
async def test_reports_are_shown_as_the_lead_gets_them(newsroom, cli):
    rows = groups(await cli.lines("What did the lead get back?"), 3)
    assert rows == [("newsroom::facts", "pending", "the facts")]
    (report,) = await cli.lines("What came of one message?", MESSAGE=newsroom.reported)
    assert (await newsroom.store.get(report)).content == "the facts"
    await newsroom.finish()
    rows = groups(await cli.lines("What did the lead get back?"), 3)
    assert sorted(row[2] for row in rows) == ["the facts", "the proof", "the prose"]
    assert {row[1] for row in rows} == {"read"}


@asks(
    "Which runs are the newest?",
    "What is a run doing?",
    "Which messages belong to a run?",
    "Why is a waiting run not moving?",
)
async def test_a_waiting_run_says_what_it_waits_for(newsroom, cli):
    assert await cli.lines("Which runs are the newest?") == [newsroom.run]
    doing = await cli.lines("What is a run doing?", RUN=newsroom.run)
    assert doing == ["waiting", "1", "coordinator-1", newsroom.batch]
    rows = groups(await cli.lines("Which messages belong to a run?", RUN=newsroom.run), 3)
    assert {(to, status) for _, to, status in rows if to != "manager"} == {
        ("newsroom::facts", "done"),
        ("newsroom::prose", "processing"),
        ("newsroom::proof", "pending"),
    }
    waiting, items = await cli.lines("Why is a waiting run not moving?", BATCH=newsroom.batch)
    assert waiting == "2"
    assert json.loads(items) == [row[0] for row in rows if row[1] != "manager"]


@asks("Which processes are alive?")
async def test_live_processes_say_what_they_are(newsroom, cli):
    lines = await cli.lines("Which processes are alive?")
    alive = {name for name, _ in groups(lines[:6], 2)}
    assert alive == {"coordinator-1", "worker-facts", "worker-prose"}
    about = [json.loads(line) for line in lines[6:] if line.startswith("{")]
    assert {(info["role"], info.get("member")) for info in about} == {
        ("coordinator", None),
        ("worker", "facts"),
        ("worker", "prose"),
    }


@asks(
    "What happened in a run so far?",
    "What is the result of a run?",
    "What did a run cost?",
    "When is an ended run forgotten?",
)
async def test_a_run_tells_its_events_its_result_its_cost_and_its_end(newsroom, cli):
    events = await cli.lines("What happened in a run so far?", RUN=newsroom.run)
    assert not any("run_ended" in line for line in events)
    await newsroom.finish()
    events = await cli.lines("What happened in a run so far?", RUN=newsroom.run)
    assert json.loads(events[-1]) == {"type": "run_ended", "status": "succeeded"}
    status, result, _error = await cli.lines("What is the result of a run?", RUN=newsroom.run)
    assert status == "succeeded"
    assert json.loads(result)["result"] == "the piece"
    assert await cli.lines("What did a run cost?", RUN=newsroom.run) == ["50", "5"]
    (forgotten,) = await cli.lines("When is an ended run forgotten?", RUN=newsroom.run)
    record = await newsroom.client.run(newsroom.run)
    assert int(forgotten) == record.finished_at + StoreOptions().retention_ms


@asks(
    "Which conversation does a message work in?",
    "What is in a conversation?",
    "Which tool calls are under way in a conversation?",
)
async def test_a_conversation_shows_its_messages_and_its_open_tool_calls(newsroom, cli):
    lines = await cli.lines("Which conversation does a message work in?", MESSAGE=newsroom.message)
    assert lines == [newsroom.conversation]
    lines = await cli.lines("What is in a conversation?", CONVERSATION=newsroom.conversation)
    messages = [json.loads(line) for line in lines]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert "work for prose" in json.dumps(messages[0])
    assert messages[1]["content"][0]["name"] == "look"
    calls = groups(
        await cli.lines("Which tool calls are under way in a conversation?", CONVERSATION=newsroom.conversation),
        2,
    )
    assert calls == [("call-1", "")]


@asks("Who has a shared conversation, and who waits for it?", "What is claimable right now, or being worked on?")
async def test_a_shared_conversation_lets_one_message_in_and_the_others_wait(redis_url, redis_client, cli):
    store = RedisRunStore(redis_client, TEAM)
    message = await asyncio.gather(*(_send(store, f"m{number}", "facts", "member/facts") for number in (1, 2, 3)))
    lines = await cli.lines("Who has a shared conversation, and who waits for it?", CONVERSATION="member/facts")
    assert lines == [one.id for one in message]
    (claim,) = await store.claim("facts", "worker-1", 30_000)
    lines = await cli.lines("What is claimable right now, or being worked on?", MEMBER="facts")
    assert lines[1:] == ["id", "m1", ""]
    await store.hand_back(claim.lease)
    lines = await cli.lines("What is claimable right now, or being worked on?", MEMBER="facts")
    assert lines[-1] == "m1"
    await store.close()


@asks("For how long is no expired lease taken away?")
async def test_a_time_of_grace_says_how_long_it_lasts(redis_client, redis_url, cli):
    store = RedisRunStore(redis_client, TEAM)
    (before,) = await cli.lines("For how long is no expired lease taken away?")
    await store.reclaim_expired("worker-2", 30_000)
    (left,) = await cli.lines("For how long is no expired lease taken away?")
    assert int(before) < 0 < int(left) <= 30_000
    await store.close()


@asks("Which messages were given up?")
async def test_dead_letters_say_why(redis_url, redis_client, cli):
    store = RedisRunStore(redis_client, TEAM, StoreOptions(max_attempts=1))
    await _send(store, "m1", "facts", None)
    await store.claim("facts", "worker-1", 30_000)
    await redis_client.zadd(store.keys.leases, {"message:m1": 1})
    await redis_client.set(store.keys.looking, "1")
    await store.reclaim_expired("worker-2", 30_000)
    _entry, *fields = await cli.lines("Which messages were given up?")
    letter = dict(groups(fields, 2))
    assert (letter["id"], letter["member"], letter["attempt"]) == ("m1", "facts", "1")
    assert "worker-1" in letter["reason"]
    await store.close()


@asks(
    "What waits for another try, and until when?",
    "What has a run used of its budget?",
    "Which model providers have asked for a pause?",
)
async def test_what_is_put_off_counted_and_held_back(redis_url, redis_client, cli):
    store = RedisRunStore(redis_client, TEAM)
    await _send(store, "m1", "facts", None)
    (claim,) = await store.claim("facts", "worker-1", 30_000)
    await store.postpone(claim.lease, 60_000, "overload: busy")
    message, due, retries, reason = await cli.lines("What waits for another try, and until when?", MESSAGE="m1")
    assert (message, retries, reason) == ("m1", "1", "overload: busy")
    assert int(due) > claim.lease.deadline
    await store.start_run(RunRecord(id="r1", team=TEAM, task="x"))
    await store.draw("r1", Budget(max_tokens=100), tokens=7)
    assert await cli.lines("What has a run used of its budget?", RUN="r1") == ["1", "7"]
    assert await cli.lines("Which model providers have asked for a pause?") == []
    await store.hold_off("0123abcd", 60)
    assert await cli.lines("Which model providers have asked for a pause?") == [store.keys.provider_pause("0123abcd")]
    await store.close()


@asks("What does RQ say about a run?")
async def test_rq_and_lattice_speak_of_the_same_run(redis_url, cli):
    async with LatticeClient(team=TEAM, redis_url=redis_url) as client:
        run = await client.submit("Why is the sky blue?")
        assert await cli.lines("What does RQ say about a run?", RUN=run) == ["queued", run]


async def _send(store, message_id, member, conversation):
    from lattice.mailbox import TeamMessage

    message = TeamMessage(id=message_id, from_="manager", to=f"{TEAM}::{member}", content="work")
    return await store.send(message, member=member, conversation=conversation)


def test_every_recipe_of_the_page_is_asked():
    assert set(RECIPES) == ASKED


def test_every_key_is_on_the_page():
    """The page's table names each key that lattice/redis/keys.py makes, and each that the scripts derive from them."""
    rows = set(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE))
    keys = Keys(TEAM)
    made = {_pattern(keys, name) for name in dir(Keys) if not name.startswith("_") and name != "prefix"}
    assert made <= rows
    sources = "\n".join(path.read_text() for path in (Path(inspect.getfile(Keys)).parent / "lua").rglob("*.lua"))
    for row in rows:
        last = row.rpartition(":")[2] if not row.endswith(">") else row.partition(":")[0]
        assert re.search(rf"['\":]{last}[':\"]", sources + inspect.getsource(Keys)), row


def _pattern(keys, name):
    made = getattr(keys, name)
    if callable(made):
        word = {"member": "<member>", "process_id": "<process>"}.get(
            next(iter(inspect.signature(made).parameters)), "<id>"
        )
        made = made(word)
    return made.removeprefix(keys.prefix)
