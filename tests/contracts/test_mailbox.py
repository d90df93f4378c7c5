"""The mailbox's contract: memory, SQLite, fakeredis and a real server pass the same tests."""

import asyncio
import inspect
import sqlite3

import fakeredis
import pytest

from lattice.errors import OptionError, SizeLimitError
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.mailbox import create_memory_mailbox
from lattice.redis.connection import open_redis
from lattice.redis.mailbox import create_redis_mailbox
from lattice.run_store import StoreOptions
from lattice.sqlite.mailbox import create_sqlite_mailbox

LIMIT = 1000
WORKER = "crew::backend"


class Awaited:
    """The methods of a sync or async mailbox as coroutines."""

    def __init__(self, mailbox):
        self.mailbox = mailbox

    def __getattr__(self, name):
        async def call(*args, **options):
            value = getattr(self.mailbox, name)(*args, **options)
            return await value if inspect.isawaitable(value) else value

        return call


@pytest.fixture(params=["memory", "sqlite", "fakeredis", pytest.param("redis", marks=pytest.mark.redis)])
async def mailbox(request, tmp_path):
    if request.param == "memory":
        yield Awaited(create_memory_mailbox(max_message_bytes=LIMIT))
        return
    if request.param == "sqlite":
        database = sqlite3.connect(tmp_path / "mail.db")
        yield Awaited(create_sqlite_mailbox(database=database, max_message_bytes=LIMIT))
        database.close()
        return
    if request.param == "redis":
        client = open_redis(request.getfixturevalue("redis_url"))
    else:
        client = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), protocol=2)
    mailbox = create_redis_mailbox(client, "crew", StoreOptions(max_message_bytes=LIMIT))
    yield Awaited(mailbox)
    await mailbox.close()
    await client.aclose()


async def test_a_sent_message_is_kept_as_it_was_returned(mailbox):
    """team:MBX-03"""
    sent = await mailbox.send("manager", WORKER, "héllo 🌍\n", metadata={"n": [1, None], "é": "x"}, run_id="r-1")
    assert isinstance(sent, TeamMessage)
    assert (sent.from_, sent.to, sent.content, sent.status) == ("manager", WORKER, "héllo 🌍\n", "pending")
    assert sent.metadata == {"n": [1, None], "é": "x"}
    assert sent.run_id == "r-1"
    assert sent.created_at > 1_600_000_000_000
    assert await mailbox.get(sent.id) == sent
    assert await mailbox.inbox(WORKER) == [sent]


async def test_what_the_sender_leaves_open_comes_from_the_message_itself(mailbox):
    """team:MBX-05 team:MBX-06"""
    sent = await mailbox.send("manager", WORKER, "x")
    assert sent.thread_id == sent.work_item_id == sent.upstream_message_id == sent.id
    assert sent.parent_message_id is None
    assert sent.metadata is None


async def test_what_the_sender_leaves_open_comes_from_the_parent(mailbox):
    """team:MBX-05 team:SQL-07 team:MBX-06"""
    parent = await mailbox.send("manager", WORKER, "x", thread_id="t", work_item_id="w", upstream_message_id="u")
    reply = await mailbox.send(WORKER, "manager", "y", parent_message_id=parent.id)
    assert (reply.thread_id, reply.work_item_id, reply.upstream_message_id) == ("t", "w", "u")
    assert reply.parent_message_id == parent.id
    own = await mailbox.send(WORKER, "manager", "z", parent_message_id=parent.id, thread_id="t2", work_item_id="w2")
    assert (own.thread_id, own.work_item_id, own.upstream_message_id) == ("t2", "w2", "u")


async def test_an_unknown_parent_is_recorded_and_gives_nothing(mailbox):
    """team:MBX-05"""
    sent = await mailbox.send("manager", WORKER, "x", parent_message_id="gone")
    assert (sent.parent_message_id, sent.thread_id) == ("gone", sent.id)


async def test_the_role_is_inferred_when_none_is_given(mailbox):
    """team:MBX-07 team:MBX-04"""
    request = await mailbox.send("manager", WORKER, "1")
    report = await mailbox.send(WORKER, "manager", "2", parent_message_id=request.id)
    sideways = await mailbox.send(WORKER, "crew::qa", "3", parent_message_id=request.id)
    answer = await mailbox.send("crew::qa", WORKER, "4", parent_message_id=sideways.id)
    fresh = await mailbox.send(WORKER, "crew::qa", "5")
    given = await mailbox.send("manager", WORKER, "6", work_item_role="followup")
    roles = [message.work_item_role for message in (request, report, sideways, answer, fresh, given)]
    assert roles == [
        "upstream_request", "upstream_report", "executor_result", "downstream_reply", "delegation", "followup",
    ]  # fmt: skip


async def test_an_inbox_is_in_send_order_and_shows_pending_mail_unless_told(mailbox):
    """team:MBX-09 team:MBX-12"""
    sent = [await mailbox.send("manager", WORKER, str(n)) for n in range(12)]
    await mailbox.update_status(sent[3].id, "cancelled")
    assert [m.content for m in await mailbox.inbox(WORKER)] == [str(n) for n in range(12) if n != 3]
    assert [m.content for m in await mailbox.inbox(WORKER, status="all")] == [str(n) for n in range(12)]
    assert [m.content for m in await mailbox.inbox(WORKER, "cancelled")] == ["3"]
    assert await mailbox.inbox("crew::nobody", "all") == []


async def test_a_clock_that_stands_or_goes_back_does_not_change_the_order(mailbox, monkeypatch):
    """team:W-30"""
    for number, now in enumerate((9, 9, 8, 3)):
        monkeypatch.setattr("time.time_ns", lambda now=now: now * 10**15)
        await mailbox.send("manager", WORKER, str(number))
    assert [m.content for m in await mailbox.inbox(WORKER)] == ["0", "1", "2", "3"]
    assert [(await mailbox.claim_next(WORKER)).content for _ in range(4)] == ["0", "1", "2", "3"]


async def test_the_oldest_pending_message_of_that_mailbox_is_claimed(mailbox):
    """team:MBX-11"""
    await mailbox.send("manager", "crew::qa", "other")
    first = await mailbox.send("manager", WORKER, "1")
    second = await mailbox.send("manager", WORKER, "2")
    claimed = await mailbox.claim_next(WORKER)
    assert claimed == first.evolve(status=MessageStatus.PROCESSING)
    assert await mailbox.get(first.id) == claimed
    assert (await mailbox.claim_next(WORKER)).id == second.id
    assert await mailbox.claim_next(WORKER) is None
    assert (await mailbox.claim_next("crew::qa")).content == "other"


async def test_no_two_claimants_get_one_message(mailbox):
    """team:MBX-15"""
    for n in range(20):
        await mailbox.send("manager", WORKER, str(n))
    claimed = await asyncio.gather(*[mailbox.claim_next(WORKER) for _ in range(25)])
    contents = [message.content for message in claimed if message is not None]
    assert contents == [str(n) for n in range(20)]


async def test_a_claim_passes_over_what_is_pending_no_more(mailbox):
    first = await mailbox.send("manager", WORKER, "1")
    await mailbox.send("manager", WORKER, "2")
    await mailbox.update_status(first.id, "cancelled")
    assert (await mailbox.claim_next(WORKER)).content == "2"


@pytest.mark.parametrize("end", ["done", "failed", "cancelled", "read"])
async def test_terminal_states_are_final(mailbox, end):
    """team:MBX-02 team:W-07 team:MBX-10"""
    sent = await mailbox.send("manager", WORKER, "x")
    await mailbox.claim_next(WORKER)
    assert await mailbox.update_status(sent.id, "pending") is False
    assert await mailbox.update_status(sent.id, end) is True
    for status in MessageStatus:
        assert await mailbox.update_status(sent.id, str(status)) is False
    assert (await mailbox.get(sent.id)).status == end


async def test_a_pending_message_may_end_without_being_claimed(mailbox):
    for end in ("done", "failed", "cancelled", "read"):
        sent = await mailbox.send("manager", WORKER, "x")
        assert await mailbox.update_status(sent.id, end) is True
    assert await mailbox.inbox(WORKER) == []


async def test_what_is_unknown_is_not_found(mailbox):
    """team:MBX-10"""
    assert await mailbox.get("nope") is None
    assert await mailbox.update_status("nope", "done") is False


async def test_unknown_options_and_states_are_refused(mailbox):
    with pytest.raises(OptionError, match="threadId"):
        await mailbox.send("manager", WORKER, "x", threadId="t")
    with pytest.raises(OptionError, match="open"):
        await mailbox.inbox(WORKER, "open")
    with pytest.raises(OptionError, match="finished"):
        await mailbox.update_status("x", "finished")
    assert await mailbox.inbox(WORKER, "all") == []


async def test_a_content_over_the_limit_is_refused(mailbox):
    with pytest.raises(SizeLimitError, match=f"{LIMIT + 1} bytes, the limit is {LIMIT}"):
        await mailbox.send("manager", WORKER, "é" * (LIMIT // 2) + "x")
    await mailbox.send("manager", WORKER, "x" * LIMIT)


async def test_lone_surrogates_do_not_enter(mailbox):
    sent = await mailbox.send("manager", WORKER, "a\udc00b", metadata={"k": "\ud800"})
    assert sent.content == "a�b"
    found = await mailbox.get(sent.id)
    assert (found.content, found.metadata) == ("a�b", {"k": "�"})


async def test_a_metadata_that_is_changed_later_stays_as_it_was_sent(mailbox):
    """team:MBX-13"""
    metadata = {"list": [1]}
    sent = await mailbox.send("manager", WORKER, "x", metadata=metadata)
    metadata["list"].append(2)
    assert (await mailbox.get(sent.id)).metadata == {"list": [1]}


async def test_a_question_goes_up_and_its_answer_comes_down_in_one_thread(mailbox):
    """team:MBX-14"""
    task = await mailbox.send("manager", WORKER, "task")
    await mailbox.claim_next(WORKER)
    question = await mailbox.send(WORKER, "manager", "which?", parent_message_id=task.id)
    await mailbox.update_status(task.id, "done")
    answer = await mailbox.send("manager", WORKER, "that one", parent_message_id=question.id)
    claimed = await mailbox.claim_next(WORKER)
    assert claimed.id == answer.id
    assert claimed.thread_id == task.thread_id
    assert claimed.work_item_id == task.work_item_id
