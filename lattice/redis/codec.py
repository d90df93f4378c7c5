"""Records as Redis keeps them, and back."""

from collections.abc import Iterable, Sequence
from typing import Any

from lattice.encoding import clean_text, clean_value, decode, encode
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.run_store import StoreOptions
from lattice.runs import Account, Claim, Lease, RunRecord, RunStatus, Step, WorkItem

__all__ = [
    "Record",
    "batch_args",
    "claim_of",
    "item_fields",
    "lease_args",
    "message_of",
    "pairs",
    "run_fields",
    "run_of",
    "step_args",
]

_MESSAGE = {
    "id": "id",
    "from": "from_",
    "to": "to",
    "content": "content",
    "threadId": "thread_id",
    "parentMessageId": "parent_message_id",
    "workItemId": "work_item_id",
    "workItemRole": "work_item_role",
    "upstreamMessageId": "upstream_message_id",
    "parentWorkItemId": "parent_work_item_id",
    "runId": "run_id",
}
_STORED = tuple((field.encode(), name) for field, name in _MESSAGE.items())

Record = dict[bytes, bytes]
Arg = str | bytes | int


def pairs(flat: Sequence[bytes] | Record) -> Record:
    """Return field, value, field, value, ... as a dict."""
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def _text(record: Record, field: bytes) -> str | None:
    value = record.get(field)
    return None if value is None else value.decode()


# --- messages -------------------------------------------------------------------------------------------------------


def item_fields(item: WorkItem, *, claimable: bool = True) -> list[Arg]:
    """Return a message's hash as field, value, ...; the script adds status, time and order."""
    message = item.message
    fields: list[Arg] = ["member", item.member, "mode", item.mode, "conversation", item.conversation]
    for field, name in _MESSAGE.items():
        value = getattr(message, name)
        if value is not None:
            fields += (field, clean_text(value))
    if message.metadata is not None:
        fields += ("metadata", encode(clean_value(message.metadata)))
    if claimable:
        fields += ("claimable", "1", "depth", item.depth)
    if item.shared:
        fields += ("shared", "1")
    if item.chain:
        fields += ("chain", encode(item.chain))
    if item.account is not None:
        fields += ("account", encode(item.account.to_list()))
    for field, text in (
        ("batch", item.batch),
        ("description", item.description),
        ("traceparent", item.traceparent),
        ("trace", item.trace),
    ):
        if text is not None:
            fields += (field, clean_text(text))
    return fields


def message_of(record: Record) -> TeamMessage:
    """Return the message in a hash."""
    values: dict[str, Any] = {}
    for field, name in _STORED:
        raw = record.get(field)
        if raw is not None:
            values[name] = raw.decode()
    metadata = record.get(b"metadata")
    if metadata is not None:
        values["metadata"] = decode(metadata)
    status = MessageStatus(record[b"status"].decode())
    return TeamMessage(status=status, created_at=int(record[b"createdAt"]), **values)


def claim_of(reply: Sequence[Any], owner: str, asked_at: float) -> Claim:
    """Return the claim in a script's reply: record, conversation has entries, reports delivered, deadline, id."""
    record = pairs(reply[0])
    chain, account = record.get(b"chain"), record.get(b"account")
    item = WorkItem(
        message=message_of(record),
        member=record[b"member"].decode(),
        conversation=record[b"conversation"].decode(),
        mode=record[b"mode"].decode(),
        batch=_text(record, b"batch"),
        depth=int(record[b"depth"]),
        shared=b"shared" in record,
        description=_text(record, b"description"),
        traceparent=_text(record, b"traceparent"),
        trace=_text(record, b"trace"),
        chain=tuple(decode(chain)) if chain is not None else (),
        account=None if account is None else Account.from_list(decode(account)),
    )
    attempt = int(record[b"attempt"])
    lease = Lease("message", item.message.id, owner, attempt, int(reply[3]), asked_at)
    retries = int(record.get(b"retries", 0))
    return Claim(item, lease, attempt, bool(reply[1]), _text(record, b"pausedOn"), bool(reply[2]), retries)


def batch_args(items: Iterable[WorkItem]) -> list[Arg]:
    """Return a batch's messages as ``hand_off`` takes them."""
    args: list[Arg] = []
    for item in items:
        fields = item_fields(item)
        args += (item.message.id, item.member, item.message.run_id or "", len(fields), *fields)
    return args


# --- runs -----------------------------------------------------------------------------------------------------------


def run_fields(run: RunRecord) -> list[Arg]:
    """Return a queued run's hash as field, value, ...; the script adds status and time."""
    fields: list[Arg] = ["id", run.id, "team", run.team, "task", encode(clean_value(run.task))]
    fields += ("conversation", run.conversation or run.id, "options", encode(clean_value(run.options)))
    if run.traceparent is not None:
        fields += ("traceparent", run.traceparent)
    if run.outer_item is not None:
        fields += ("outerItem", run.outer_item)
    return fields


def run_of(record: Record) -> RunRecord:
    """Return the run in a hash."""
    usage = {field[6:].decode(): int(value) for field, value in record.items() if field.startswith(b"usage:")}
    return RunRecord(
        id=record[b"id"].decode(),
        team=record[b"team"].decode(),
        task=decode(record[b"task"]),
        status=RunStatus(record[b"status"].decode()),
        conversation=record[b"conversation"].decode(),
        created_at=int(record[b"createdAt"]),
        started_at=_number(record, b"startedAt"),
        finished_at=_number(record, b"finishedAt"),
        epoch=int(record[b"epoch"]),
        owner=_text(record, b"owner") or None,
        round=int(record[b"round"]),
        batch=_text(record, b"batch"),
        result=_json(record, b"result"),
        error=_json(record, b"error"),
        total_usage=usage or None,
        traceparent=_text(record, b"traceparent"),
        options=_options(record),
        model_calls=_number(record, b"modelCalls") or 0,
        tokens=_number(record, b"tokens") or 0,
        interrupted=b"interrupted" in record,
        outer_item=_text(record, b"outerItem"),
    )


def _options(record: Record) -> dict[str, Any]:
    options: dict[str, Any] = decode(record[b"options"])
    replaced = record.get(b"budget")
    if replaced is not None:
        options["budget"] = {**options.get("budget", {}), **decode(replaced)}
    return options


def _number(record: Record, field: bytes) -> int | None:
    value = record.get(field)
    return None if value is None else int(value)


def _json(record: Record, field: bytes) -> Any:
    value = record.get(field)
    return None if value is None else decode(value)


# --- what scripts take ----------------------------------------------------------------------------------------------


def lease_args(lease: Lease) -> tuple[Arg, ...]:
    """Return a lease as scripts take it."""
    return lease.kind, lease.id, lease.owner, lease.token


def step_args(step: Step | None, limits: StoreOptions) -> list[Arg]:
    """Return a step as scripts take it: a JSON head, then the texts that are JSON already; one empty text if none."""
    if step is None or not _adds_anything(step):
        return [""]
    head: dict[str, Any] = {
        "conversation": step.conversation,
        "messages": len(step.messages),
        "started": step.started,
        "finished": len(step.finished),
        "reads": step.reads,
        "events": len(step.events),
        "deltas": len(step.deltas),
        "usage": step.usage or {},
        "max_events": limits.max_events,
        "max_deltas": limits.max_deltas,
    }
    if step.once is not None:
        head["once"] = step.once
    if step.replace:
        head["replace"] = True
    if step.clear_journal:
        head["clear"] = True
    args: list[Arg] = [encode(head), *step.messages]
    for tool_use_id, result in step.finished:
        args += (tool_use_id, result)
    return [*args, *step.deltas, *step.events]


def _adds_anything(step: Step) -> bool:
    return bool(
        step.messages
        or step.events
        or step.deltas
        or step.once is not None
        or step.replace
        or step.started
        or step.finished
        or step.clear_journal
        or step.reads
        or step.usage
    )
