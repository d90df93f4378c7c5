import multiprocessing
import sqlite3

import pytest

from lattice.errors import OptionError, StoreError
from lattice.sqlite.mailbox import create_sqlite_mailbox

WORKER = "crew::backend"


@pytest.fixture
def database(tmp_path):
    database = sqlite3.connect(tmp_path / "mail.db")
    yield database
    database.close()


def columns(database, table="team_mailbox_messages"):
    return {row[1]: bool(row[3]) for row in database.execute(f"PRAGMA table_info({table})")}


def test_the_table_has_the_documented_columns_and_index(database):
    """team:SQL-01 team:SQL-02"""
    create_sqlite_mailbox(database=database)
    found = columns(database)
    for name in ("from_mailbox", "to_mailbox", "content", "status", "created_at", "thread_id"):
        assert found[name], f"{name} is not null"
    for name in ("parent_message_id", "work_item_id", "work_item_role", "upstream_message_id", "metadata_json"):
        assert not found[name]
    indexed = database.execute("PRAGMA index_info(team_mailbox_messages_to_status_created_idx)").fetchall()
    assert [row[2] for row in indexed] == ["to_mailbox", "status", "created_at"]
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("name", ["", "1st", "a b", "a;drop table x", "é", "a-b", 'a"', "main.t"])
def test_a_table_name_is_a_plain_identifier(database, name):
    """team:SQL-01"""
    with pytest.raises(OptionError, match=r"^Invalid SQLite table name: "):
        create_sqlite_mailbox(database=database, table_name=name)


def test_only_a_connection_will_do():
    """team:SQL-03 team:SQL-08"""
    with pytest.raises(OptionError, match=r"sqlite3\.Connection, not str"):
        create_sqlite_mailbox(database="mail.db")


def test_ids_are_sixteen_hexadecimal_digits(database):
    """team:SQL-04"""
    sent = create_sqlite_mailbox(database=database).send("manager", WORKER, "x")
    prefix, _, digits = sent.id.partition("_")
    assert (prefix, len(digits)) == ("msg", 16)
    int(digits, 16)


def test_a_taken_id_is_refused(database):
    mailbox = create_sqlite_mailbox(database=database)
    mailbox.send("manager", WORKER, "x", id="m-1")
    with pytest.raises(OptionError, match="'m-1' is taken"):
        mailbox.send("manager", WORKER, "y", id="m-1")
    assert mailbox.get("m-1").content == "x"


def test_an_existing_database_reopens_with_its_mail(tmp_path):
    """team:SQL-02"""
    first = sqlite3.connect(tmp_path / "mail.db")
    sent = create_sqlite_mailbox(database=first, table_name="mail_2").send("manager", WORKER, "x", metadata={"a": 1})
    first.close()
    second = sqlite3.connect(tmp_path / "mail.db")
    assert create_sqlite_mailbox(database=second, table_name="mail_2").get(sent.id) == sent
    second.close()


def test_a_table_of_an_older_version_gets_the_newer_columns(database):
    database.execute(
        "CREATE TABLE mail (id TEXT PRIMARY KEY, from_mailbox TEXT NOT NULL, to_mailbox TEXT NOT NULL, content TEXT NOT "
        "NULL, status TEXT NOT NULL, created_at INTEGER NOT NULL, thread_id TEXT NOT NULL, parent_message_id TEXT, "
        "work_item_id TEXT, work_item_role TEXT, upstream_message_id TEXT, metadata_json TEXT)"
    )
    database.execute(
        "INSERT INTO mail VALUES ('old', 'manager', ?, 'hi', 'pending', 5, 'old', NULL, 'old', NULL, NULL, NULL)",
        (WORKER,),
    )
    database.commit()
    mailbox = create_sqlite_mailbox(database=database, table_name="mail")
    new = mailbox.send("manager", WORKER, "new", run_id="r", parent_work_item_id="p")
    assert [(m.content, m.run_id) for m in mailbox.inbox(WORKER)] == [("hi", None), ("new", "r")]
    assert mailbox.get(new.id).parent_work_item_id == "p"


@pytest.mark.parametrize("stored", ["[1]", "not json", "7", "null"])
def test_metadata_that_is_no_object_is_absent(database, stored):
    """team:SQL-06"""
    mailbox = create_sqlite_mailbox(database=database)
    sent = mailbox.send("manager", WORKER, "x", metadata={"a": 1})
    database.execute("UPDATE team_mailbox_messages SET metadata_json = ?", (stored,))
    database.commit()
    assert mailbox.get(sent.id).metadata is None


@pytest.mark.parametrize(("column", "value"), [("created_at", "yesterday"), ("status", "lost"), ("content", b"\xff")])
def test_damaged_rows_are_left_out(database, column, value):
    """team:SQL-06"""
    mailbox = create_sqlite_mailbox(database=database)
    damaged = mailbox.send("manager", WORKER, "x")
    mailbox.send("manager", WORKER, "y")
    database.execute(f"UPDATE team_mailbox_messages SET {column} = ? WHERE id = ?", (value, damaged.id))
    database.commit()
    assert [message.content for message in mailbox.inbox(WORKER, "all")] == ["y"]
    assert mailbox.claim_next(WORKER).content == "y"


def test_claims_join_a_transaction_of_the_host(database):
    mailbox = create_sqlite_mailbox(database=database)
    sent = mailbox.send("manager", WORKER, "x")
    database.execute("BEGIN")
    assert mailbox.claim_next(WORKER).id == sent.id
    database.execute("ROLLBACK")
    assert mailbox.get(sent.id).status == "pending"


def test_a_row_factory_of_the_host_changes_nothing(database):
    database.row_factory = sqlite3.Row
    mailbox = create_sqlite_mailbox(database=database)
    sent = mailbox.send("manager", WORKER, "x")
    assert mailbox.claim_next(WORKER).id == sent.id


def test_a_broken_database_is_a_store_error(database):
    mailbox = create_sqlite_mailbox(database=database)
    database.execute("DROP TABLE team_mailbox_messages")
    with pytest.raises(StoreError, match="no such table"):
        mailbox.inbox(WORKER)


def _claim_all(path, start, claimed):
    database = sqlite3.connect(path)
    mailbox = create_sqlite_mailbox(database=database)
    start.wait()
    mine = []
    while (message := mailbox.claim_next(WORKER)) is not None:
        mine.append(message.content)
    database.close()
    claimed.put(mine)


def test_processes_never_claim_one_message_twice(tmp_path):
    """team:SQL-05 team:W-29: a lost race goes on with the next message."""
    path = tmp_path / "mail.db"
    database = sqlite3.connect(path)
    mailbox = create_sqlite_mailbox(database=database)
    for n in range(60):
        mailbox.send("manager", WORKER, str(n))
    context = multiprocessing.get_context("spawn")
    start, claimed = context.Event(), context.Queue()
    workers = [context.Process(target=_claim_all, args=(path, start, claimed)) for _ in range(3)]
    for worker in workers:
        worker.start()
    start.set()
    found = [content for _ in workers for content in claimed.get(timeout=50)]
    for worker in workers:
        worker.join(20)
    database.close()
    assert sorted(found, key=int) == [str(n) for n in range(60)]
