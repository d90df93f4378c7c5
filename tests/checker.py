"""Reads from a store what became of a set of runs, and says everything that is not as promised.

Knows nothing of how the runs were worked: it looks at run records, mailboxes, event streams and conversations only.
"""

from collections import Counter
from dataclasses import dataclass, field

from lattice.encoding import decode
from lattice.mailbox import LEAD_MAILBOX, MessageStatus
from lattice.run_store import RUN_ENDED
from lattice.runs import RunStatus

ENDS = ("done", "failed", "cancelled")


@dataclass
class Findings:
    """What the checker saw: ``problems`` is empty when every promise was kept."""

    runs: int = 0
    messages: int = 0
    events: int = 0
    problems: list[str] = field(default_factory=list)

    def expect(self, holds, text):
        if not holds:
            self.problems.append(text)


async def check_runs(store, run_ids, *, members, statuses=(RunStatus.SUCCEEDED,), handoffs=True):
    """Check every run against P1 (ended), P2 (each message settled once) and P3 (each report once, in order)."""
    findings = Findings()
    requests = {run_id: [] for run_id in run_ids}
    for member in members:
        for message in await store.inbox(member, "all"):
            if message.run_id in requests and message.work_item_role == "delegation":
                requests[message.run_id].append(message)
    for run_id in run_ids:
        await _check_run(store, run_id, requests[run_id], findings, statuses, handoffs)
    return findings


async def _check_run(store, run_id, messages, findings, statuses, handoffs):
    findings.runs += 1
    run = await store.get_run(run_id)
    if run is None:
        findings.problems.append(f"{run_id}: the run is gone")
        return
    findings.expect(run.status in statuses, f"{run_id}: ended {run.status}, error {run.error}")
    events = [event for _, event in await _all_events(store, run_id)]
    findings.events += len(events)
    findings.expect(bool(events) and events[-1]["type"] == RUN_ENDED, f"{run_id}: the event stream is not closed")
    findings.expect(sum(e["type"] == "result" for e in events) == 1, f"{run_id}: not exactly one result event")
    ends = Counter(e["message"]["id"] for e in events if e["type"] == "team_message" and e["subtype"] in ENDS)
    for message in messages:
        findings.messages += 1
        findings.expect(message.status.is_terminal, f"{run_id}: {message.id} is still {message.status}")
        findings.expect(ends[message.id] == 1, f"{run_id}: {message.id} ended {ends[message.id]} times in the events")
    if handoffs and run.status is RunStatus.SUCCEEDED:
        findings.expect(all(m.status is MessageStatus.DONE for m in messages), f"{run_id}: not every message is done")
        await _check_reports(store, run, events, findings)


async def _check_reports(store, run, events, findings):
    """Each report of each round stands in the lead's conversation once, in the order of the handoffs."""
    sent = [
        e["message"]["id"]
        for e in events
        if e["type"] == "team_message" and e["subtype"] == "sent" and e["message"]["from"] == LEAD_MAILBOX
    ]
    state = await store.load(run.conversation)
    text = "".join(_text(decode(message)) for message in state.messages)
    shown = [line.removeprefix("reply_to: ").strip() for line in text.splitlines() if line.startswith("reply_to: ")]
    findings.expect(shown == sent, f"{run.id}: handed off {sent}, reports shown {shown}")


def _text(message):
    content = message["content"]
    if isinstance(content, str):
        return content + "\n"
    return "".join(block.get("text", "") + "\n" for block in content if block["type"] == "text")


async def _all_events(store, run_id):
    events, after = [], "0"
    while page := await store.read_events(run_id, after):
        events += page
        after = page[-1][0]
    return events
