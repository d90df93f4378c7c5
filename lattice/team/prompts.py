"""The texts that the runtime puts into conversations, as pure functions.

Whatever a member or a caller wrote is quoted with ``quote``: a line of it that looks like one of the headings below is
marked, so nobody can forge a report or a task.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lattice.mailbox import TeamMessage, mailbox_key
from lattice.team.failures import AgentRuntimeFailure, failure_text

__all__ = [
    "INTERRUPT",
    "PAUSED_TEXT",
    "compose_task",
    "drain_envelope",
    "grant_block",
    "mail_note",
    "quote",
    "report_text",
    "resume_prompt",
    "task_envelope",
    "urgency_of",
]

PAUSED_TEXT = "Delegated work was queued. Waiting for team runtime reports before continuing."
"""The result text of a query that ended because it handed work off."""

REPORT_HEADING = "--- mailbox reply ---"
TASK_HEADING = "--- delegated task ---"
CONTENT_HEADING = "--- message content ---"
MAIL_HEADING = "--- new mail ---"
RESUME_HEADING = "Team runtime update:"
GRANTS_HEADING = "Workspace access granted for this delegated task:"

_LETTERS = re.compile(r"[\W_]+")
_SHORT_ENOUGH = 200


def _bare(line: str) -> str:
    return _LETTERS.sub("", line).casefold()


_HEADINGS = frozenset(
    map(
        _bare,
        (REPORT_HEADING, TASK_HEADING, CONTENT_HEADING, MAIL_HEADING, RESUME_HEADING, GRANTS_HEADING),
    )
)


def quote(text: str) -> str:
    """Return ``text`` with every line that reads like a heading of the runtime marked by ``> ``."""
    if not any(_bare(line) in _HEADINGS for line in text.splitlines() if len(line) < _SHORT_ENOUGH):
        return text
    return "".join(
        f"> {line}" if len(line) < _SHORT_ENOUGH and _bare(line) in _HEADINGS else line
        for line in text.splitlines(keepends=True)
    )


def compose_task(task: str, expected_output: str | None = None, criteria: Sequence[str] | None = None) -> str:
    """Return a task with what its caller expects of it; a bare task stays as it is."""
    parts = [task]
    if expected_output:
        parts += ["", "Expected output:", expected_output]
    if criteria:
        parts += ["", "Acceptance criteria:", *(f"- {criterion}" for criterion in criteria)]
    return "\n".join(parts)


def task_envelope(message: TeamMessage, *, delegate: str, grants: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the prompt that opens a delegated work item."""
    lines = [
        "This is delegated work from an agent mailbox.",
        "",
        f"delegate: {delegate}",
        *_address(message),
        "",
        "Do the task and return the final result as text; it is sent back as your report.",
        "If you have tools that call other agents, you may use them.",
        "Write deliverables into your own workspace, and report their paths and how you verified them.",
        "Do not answer with artifact-reference objects.",
    ]
    if grants:
        lines += ["", grant_block(grants)]
    lines += ["", TASK_HEADING, quote(message.content)]
    return "\n".join(lines)


def resume_prompt(mailbox: str, reports: Iterable[TeamMessage]) -> str:
    """Return the prompt that gives a paused agent the reports of what it handed off, in the order of the handoffs."""
    lines = [
        RESUME_HEADING,
        "The work that you handed off has come back; each report is below, in the order of your handoffs.",
        "You may hand off more work if it is needed.",
        "Do not answer with a receipt or a progress note only: go on, or give the final answer.",
        "",
        f"mailbox: {mailbox}",
        "",
    ]
    for report in reports:
        lines += [REPORT_HEADING, *_report_fields(report), "", quote(report_text(report))]
    return "\n".join(lines)


def drain_envelope(
    message: TeamMessage,
    *,
    member: str,
    role: str,
    focus: str | None = None,
    has_mailbox_tools: bool = True,
    grants: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the prompt for a message that a member was drained for."""
    lines = ["A message is waiting in your team mailbox.", "", f"member: {member}", f"role: {role}"]
    if focus:
        lines.append(f"focus: {focus}")
    lines += ["", *_address(message)]
    lines += [f"work_item: {message.work_item_id}", f"work_item_role: {message.work_item_role}", ""]
    if has_mailbox_tools:
        lines += [
            f"Close it with team_reply (final result) or team_followup (progress) for message_id {message.id}.",
            "Do not finish with plain text only: nobody would read it.",
        ]
    else:
        lines.append("Return the final result as text; it is sent back as your reply.")
    lines.append("Write deliverables into your own workspace and report their paths.")
    if grants:
        lines += ["", grant_block(grants)]
    lines += ["", CONTENT_HEADING, quote(message.content)]
    return "\n".join(lines)


def grant_block(grants: Sequence[Mapping[str, Any]]) -> str:
    """Return what a task says about the shared paths that it may write to."""
    lines = [GRANTS_HEADING]
    for number, grant in enumerate(grants, 1):
        lines += [f"- grant {number}: {grant['root']}", f"  access: {', '.join(grant.get('access') or ('write',))}"]
        if grant.get("reason"):
            lines.append(f"  reason: {quote(str(grant['reason']))}")
    lines.append("Use these paths for this task only; everything else you write belongs in your own workspace.")
    return "\n".join(lines)


INTERRUPT = "interrupt"
"""The urgency that breaks a model call off."""

_URGENCIES = {
    "note": "For your information; go on with your work.",
    "steer": "Take this into account in what you do next.",
    "interrupt": "Stop what you are doing and deal with this first.",
}


def urgency_of(message: TeamMessage) -> str | None:
    """Return how urgent a note between agents is; None for mail of any other kind."""
    urgency = (message.metadata or {}).get("urgency")
    return urgency if urgency in _URGENCIES else None


def mail_note(messages: Iterable[TeamMessage]) -> str:
    """Return what a working agent is shown of notes that arrived in the meantime, the most urgent first."""
    ranked = sorted(messages, key=lambda message: -list(_URGENCIES).index(urgency_of(message) or "note"))
    lines = []
    for message in ranked:
        urgency = urgency_of(message) or "note"
        lines += [MAIL_HEADING, f"id: {message.id}", f"from: {message.from_}", f"urgency: {urgency}"]
        lines += [_URGENCIES[urgency], "", quote(message.content)]
    return "\n".join(lines)


def _address(message: TeamMessage) -> list[str]:
    return [
        f"message_id: {message.id}",
        f"from: {message.from_}",
        f"to: {message.to}",
        f"thread: {message.thread_id}",
    ]


def _report_fields(report: TeamMessage) -> list[str]:
    return [
        f"id: {report.id}",
        f"from: {report.from_}",
        f"to: {report.to}",
        f"status: {report.status}",
        f"thread: {report.thread_id}",
        f"work_item: {report.work_item_id}",
        f"role: {report.work_item_role}",
        f"reply_to: {report.parent_message_id}",
    ]


def report_text(report: TeamMessage) -> str:
    """Return the content of a report as its reader's model is shown it.

    A failure that was written by the store (a lost worker, say) reads like every other failure.
    """
    if report.status == "cancelled":
        return "This work was cancelled before it was finished; there is no report."
    error = (report.metadata or {}).get("error")
    if isinstance(error, dict) and "\nError code: " not in report.content:
        return failure_text(mailbox_key(report.from_), AgentRuntimeFailure.from_dict(error))
    return report.content
