"""A team's mailboxes in a SQLite table, which several processes may share."""

import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypedDict

from lattice.encoding import clean_text, clean_value, decode, encode
from lattice.errors import OptionError, SizeLimitError, StoreError
from lattice.mailbox import MessageStatus, TeamMessage, check_send_options, complete_message
from lattice.run_store import StoreOptions
from lattice.runs import ALLOWED_MOVES

__all__ = ["SQLiteDatabaseLike", "SQLiteMailboxOptions", "SqliteMailbox", "create_sqlite_mailbox"]

SQLiteDatabaseLike: TypeAlias = sqlite3.Connection
"""The documented name of what mailboxes are kept in."""

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUSY_MS = 5_000

_COLUMNS = {
    "id": "id",
    "from_mailbox": "from_",
    "to_mailbox": "to",
    "content": "content",
    "status": "status",
    "created_at": "created_at",
    "thread_id": "thread_id",
    "parent_message_id": "parent_message_id",
    "work_item_id": "work_item_id",
    "work_item_role": "work_item_role",
    "upstream_message_id": "upstream_message_id",
    "metadata_json": "metadata",
    "parent_work_item_id": "parent_work_item_id",
    "run_id": "run_id",
}
_REQUIRED = ("from_mailbox", "to_mailbox", "content", "status", "thread_id")
_LATER = ("parent_work_item_id", "run_id")
"""Columns that a table of an older version may lack."""


class SQLiteMailboxOptions(TypedDict, total=False):
    """What ``create_sqlite_mailbox()`` takes; ``database`` is required."""

    database: SQLiteDatabaseLike
    table_name: str
    max_message_bytes: int | None


def create_sqlite_mailbox(
    *, database: sqlite3.Connection, table_name: str = "team_mailbox_messages", max_message_bytes: int | None = None
) -> "SqliteMailbox":
    """Return mailboxes kept in a table of ``database``, which is created if it is missing.

    The connection stays on the thread that made it. A database file is switched to write-ahead logging, so that several
    processes can work on it. ``max_message_bytes`` is the largest content, 1 MiB by default.

    Raises:
        OptionError: the table name is not a plain identifier, or ``database`` is no ``sqlite3.Connection``.
        StoreError: the table cannot be used.
    """
    if _TABLE_NAME.fullmatch(table_name) is None:
        raise OptionError(f"Invalid SQLite table name: {table_name}")
    if not isinstance(database, sqlite3.Connection):
        raise OptionError(f"database must be a sqlite3.Connection, not {type(database).__name__}")
    limits = StoreOptions() if max_message_bytes is None else StoreOptions(max_message_bytes=max_message_bytes)
    return SqliteMailbox(database, table_name, limits.max_message_bytes)


class SqliteMailbox:
    """A ``TeamMailbox`` in SQLite; ids are ``msg_`` and 16 hexadecimal digits, order is the order of insertion."""

    __slots__ = ("_db", "_limit", "_table")

    def __init__(self, database: sqlite3.Connection, table: str, limit: int) -> None:
        self._db = database
        self._table = table
        self._limit = limit
        with _errors("opening the table"):
            self._open()

    def _open(self) -> None:
        self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        self._db.execute("PRAGMA journal_mode = WAL")
        required = ", ".join(f"{column} TEXT NOT NULL" for column in _REQUIRED)
        optional = ", ".join(f"{name} TEXT" for name in _COLUMNS if name not in (*_REQUIRED, "id", "created_at"))
        with self._transaction():
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} "
                f"(id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, {required}, {optional})"
            )
            present = {row[1] for row in self._db.execute(f"PRAGMA table_info({self._table})")}
            for column in _LATER:
                if column not in present:
                    self._db.execute(f"ALTER TABLE {self._table} ADD COLUMN {column} TEXT")
            self._db.execute(
                f"CREATE INDEX IF NOT EXISTS {self._table}_to_status_created_idx "
                f"ON {self._table} (to_mailbox, status, created_at)"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Take the write lock first, so that what is read inside stays true; joins a transaction that is open."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def send(self, from_: str, to: str, content: str, **options: Any) -> TeamMessage:
        """Keep a new pending message and return it.

        Raises:
            OptionError: an option is unknown, or the ``id`` is taken.
            SizeLimitError: the content is over the limit.
            StoreError: SQLite failed.
        """
        check_send_options(options)
        content = clean_text(content)
        size = len(content.encode())
        if size > self._limit:
            raise SizeLimitError(f"the message from {from_!r} to {to!r}", size, self._limit)
        values = {name: value for name, value in options.items() if value is not None}
        values.setdefault("id", f"msg_{secrets.token_hex(8)}")
        draft = TeamMessage(from_=from_, to=to, content=content, created_at=time.time_ns() // 1_000_000, **values)
        with _errors("send"), self._transaction():
            message = complete_message(draft, self.get(draft.parent_message_id or ""))
            self._insert(message)
        return self._as_read(message)

    def _insert(self, message: TeamMessage) -> None:
        marks = ", ".join("?" * len(_COLUMNS))
        row = [getattr(message, name) for name in _COLUMNS.values()]
        if message.metadata is not None:
            row[list(_COLUMNS).index("metadata_json")] = encode(clean_value(message.metadata)).decode()
        try:
            statement = f"INSERT INTO {self._table} ({', '.join(_COLUMNS)}) VALUES ({marks})"  # noqa: S608 - names we checked
            self._db.execute(statement, row)
        except sqlite3.IntegrityError as error:
            raise OptionError(f"send: the message id {message.id!r} is taken") from error

    @staticmethod
    def _as_read(message: TeamMessage) -> TeamMessage:
        metadata = message.metadata
        return message if metadata is None else message.evolve(metadata=decode(encode(clean_value(metadata))))

    def inbox(self, mailbox_id: str, status: str = "pending") -> list[TeamMessage]:
        """Return the messages of a mailbox in send order; ``status`` may be ``all``. Damaged rows are left out.

        Raises:
            OptionError: the status is unknown.
            StoreError: SQLite failed.
        """
        where, parameters = "to_mailbox = ?", [mailbox_id]
        if status != "all":
            where, parameters = where + " AND status = ?", [mailbox_id, _status(status)]
        rows = self._select(f"{where} ORDER BY rowid", parameters)
        return [message for message in map(_message, rows) if message is not None]

    def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None.

        Raises:
            StoreError: SQLite failed.
        """
        rows = self._select("id = ?", [message_id])
        return _message(rows[0]) if rows else None

    def _select(self, where: str, parameters: list[str]) -> list[tuple[Any, ...]]:
        with _errors("reading"):
            cursor = self._db.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM {self._table} WHERE {where}",  # noqa: S608 - only names we checked
                parameters,
            )
            cursor.row_factory = None
            return cursor.fetchall()

    def claim_next(self, mailbox_id: str) -> TeamMessage | None:
        """Turn the oldest pending message to processing and return it, or return None; nobody else gets it.

        Raises:
            StoreError: SQLite failed.
        """
        with _errors("claim"), self._transaction():
            for row in self._select("to_mailbox = ? AND status = 'pending' ORDER BY rowid LIMIT 10", [mailbox_id]):
                message = _message(row)
                if message is not None:
                    self._set_status(message.id, MessageStatus.PROCESSING)
                    return message.evolve(status=MessageStatus.PROCESSING)
        return None

    def update_status(self, message_id: str, status: str) -> bool:
        """Move a message to another status; False when it is unknown or the move is refused.

        Raises:
            OptionError: the status is unknown.
            StoreError: SQLite failed.
        """
        target = MessageStatus(_status(status))
        with _errors("update_status"), self._transaction():
            message = self.get(message_id)
            if message is None or target not in ALLOWED_MOVES[message.status]:
                return False
            self._set_status(message_id, target)
        return True

    def reopen(self, message_id: str) -> bool:
        """Make a message under way pending again; False when it is not under way.

        Raises:
            StoreError: SQLite failed.
        """
        with _errors("reopen"), self._transaction():
            message = self.get(message_id)
            if message is None or message.status is not MessageStatus.PROCESSING:
                return False
            self._set_status(message_id, MessageStatus.PENDING)
        return True

    def _set_status(self, message_id: str, status: MessageStatus) -> None:
        statement = f"UPDATE {self._table} SET status = ? WHERE id = ?"  # noqa: S608 - only a name we checked
        self._db.execute(statement, (str(status), message_id))


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"SQLite mailbox, {what}: {error}", cause=error) from error


def _message(row: tuple[Any, ...]) -> TeamMessage | None:
    """Return the message in a row; None for a row that somebody else damaged."""
    values = {name: value for name, value in zip(_COLUMNS.values(), row, strict=True) if value is not None}
    texts = [value for name, value in values.items() if name != "created_at"]
    if not isinstance(values.get("created_at"), int) or not all(isinstance(text, str) for text in texts):
        return None
    if "metadata" in values:
        metadata = _json(values.pop("metadata"))
        if isinstance(metadata, dict):
            values["metadata"] = metadata
    try:
        values["status"] = MessageStatus(values["status"])
    except ValueError:
        return None
    return TeamMessage(**values)


def _json(text: str) -> Any:
    try:
        return decode(text)
    except ValueError:
        return None


def _status(status: str) -> str:
    try:
        return str(MessageStatus(status))
    except ValueError:
        raise OptionError(f"mailbox status {status!r} is none of {', '.join(MessageStatus)}") from None
