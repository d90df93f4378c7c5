"""Compares what really happened (the record outside Redis) with what a team left in Redis, against the promises.

Every check is a function of its own and names what it found by one of ``PROMISES``, so that a test can show for each of
them that it can fail.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.chaos.apps import CALL

ENDED = ("succeeded", "failed", "cancelled")
CLOSED = ("done", "failed", "cancelled")
EFFECT = re.compile(r"^effect (\w+)/(\d+)$")
QUIET_SECONDS = 1.0
RECORDED_WITHIN = 0.5
WAKES_WITHIN = 0.1
"""Seconds after it is woken up in which a process sends what it was about to send."""

PROMISES = (
    "run_ends",
    "message_ends_once",
    "report_once_in_order",
    "effect_once",
    "model_call_once",
    "quiet_after_cancel",
    "keys_expire",
    "memory",
)


@dataclass
class Cancel:
    """When the cancel of a run had taken effect, and until when which processes could not hear of it."""

    at: float
    deaf_until: dict[int, float] = field(default_factory=dict)

    def deadline(self, pid):
        return max(self.at, self.deaf_until.get(pid, 0.0)) + QUIET_SECONDS


@dataclass
class Findings:
    """``problems`` holds (promise, text); ``figures`` what was counted."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    figures: Counter = field(default_factory=Counter)

    def expect(self, promise, holds, text):
        assert promise in PROMISES
        if not holds:
            self.problems.append((promise, text))

    @property
    def broken(self):
        """The promises that were not kept."""
        return {promise for promise, _ in self.problems}


@dataclass
class Story:
    """All that is known of a set of runs."""

    world: object
    record: list
    accepted: dict[str, int]
    """The number in the task of each accepted run."""
    cancels: dict[str, Cancel] = field(default_factory=dict)
    deaf: list[tuple[int | None, float, float]] = field(default_factory=list)
    """(process or None for all, since, until): when a process was frozen, or the server away."""

    def __post_init__(self):
        self.calls = {line["call"]: line for line in self.record if line["what"] == "model_start"}
        self.history = {}
        """Each piece of work's recorded answers: the ids of the model calls, by turn."""
        for name, run_id in self._conversations():
            self.history[name] = [call for m in self.world.conversations[run_id] for call in _answer_ids(m)]

    def was_deaf(self, pid, since, until):
        """Whether a process may have been able to write nothing at some time between the two."""
        return any(who in (None, pid) and begin <= until and since <= end for who, begin, end in self.deaf)

    def _conversations(self):
        for run_id, run in self.world.runs.items():
            yield f"run {self.accepted[run_id]}", run["conversation"]
        for message_id, message in self.world.messages.items():
            if message.get("claimable") == "1":
                yield message_id, message["conversation"]


def check(story):
    """Check everything; ``problems`` is empty when every promise was kept."""
    findings = Findings()
    for one in (check_runs, check_messages, check_reports, check_model_calls, check_effects, check_quiet, check_keys):
        one(story, findings)
    return findings


def check_runs(story, findings):
    """Every accepted run is terminal, its stream closed, and only those that were cancelled did not succeed."""
    for run_id in story.accepted:
        findings.figures["runs"] += 1
        run = story.world.runs.get(run_id)
        status = "lost" if run is None else run["status"]
        findings.figures[f"runs {status}"] += 1
        findings.expect("run_ends", status in ENDED, f"run {run_id} is {status}")
        if run is None:
            continue
        allowed = ("succeeded", "cancelled") if run_id in story.cancels else ("succeeded",)
        findings.expect("run_ends", status in allowed, f"run {run_id} ended {status}: {run.get('error')}")
        ends = [e for e in story.world.events[run_id] if e["type"] == "run_ended"]
        findings.expect("run_ends", len(ends) == 1, f"run {run_id} has {len(ends)} ends in its event stream")


def check_messages(story, findings):
    """Every message is terminal, was told to have ended at most once, and every batch was counted down to nothing."""
    world = story.world
    for run_id in world.runs:
        ends = Counter(
            e["message"]["id"] for e in world.events[run_id] if e["type"] == "team_message" and e["subtype"] in CLOSED
        )
        for message in world.work_of(run_id):
            findings.figures["messages"] += 1
            _check_message(story, run_id, message, ends[message["id"]], findings)
    for batch_id, batch in world.batches.items():
        ended = all(world.messages[item]["status"] in CLOSED for item in batch["items"])
        if ended:
            findings.expect("message_ends_once", batch["waiting"] == "0", f"batch {batch_id} counts {batch['waiting']}")
    for member, depth in world.depths.items():
        findings.expect("message_ends_once", depth == "0", f"the depth of mailbox {member} is {depth}")
    findings.expect("message_ends_once", not world.open_leases, f"leases stand: {world.open_leases[:5]}")


def _check_message(story, run_id, message, told, findings):
    message_id, status = message["id"], message["status"]
    name = f"message {message_id} of run {run_id} to {message['member']}"
    findings.figures[f"messages {status}"] += 1
    findings.expect("message_ends_once", status in CLOSED, f"{name} is {status}")
    findings.expect("message_ends_once", told <= 1, f"{name} was told to end {told} times")
    if status == "done":
        findings.expect("message_ends_once", told == 1, f"{name} is done, and nobody was told")
        findings.expect("message_ends_once", "report" in message, f"{name} is done without a report")
    elif status == "failed":
        lost = message_id in story.world.dead and "report" in message
        findings.expect("message_ends_once", lost, f"{name} failed, but is no dead letter with a report")
        findings.figures["dead letters"] += lost
    elif status == "cancelled":
        findings.expect("message_ends_once", run_id in story.cancels, f"{name} was cancelled, its run was not")
    if message["member"] == "delta" and run_id not in story.cancels:
        findings.expect("message_ends_once", status == "failed", f"{name} is poison and ended {status}")


def check_reports(story, findings):
    """Each report of each round stands in the conversation that waited for it once, in the order of the handoffs."""
    world = story.world
    for run_id, run in world.runs.items():
        waiting = [(f"run:{run_id}", run)]
        waiting += [(f"message:{m['id']}", m) for m in world.work_of(run_id)]
        for parent, holder in waiting:
            sent = world.handed_off(parent)
            shown = _reports_in(world.conversations[holder["conversation"]])
            findings.figures["reports"] += len(shown)
            findings.figures["reports shown twice"] += len(shown) - len(set(shown))
            complete = holder["status"] in ("succeeded", "done")
            right = shown == sent if complete else shown == sent[: len(shown)]
            findings.expect("report_once_in_order", right, f"{parent} handed off {sent}, was shown {shown}")


def check_model_calls(story, findings):
    """No answer that was recorded was paid for again: later answers of the same turn began before it was used."""
    used_at = _first_uses(story)
    under_way = _under_way(story)
    findings.figures["model calls under way when stopped"] = 0
    by_turn = defaultdict(list)
    for line in story.record:
        if line["what"] == "model_start":
            findings.figures["model calls"] += 1
            by_turn[line["work"], line["turn"]].append(line)
    for (work, turn), lines in by_turn.items():
        findings.figures["model calls that were cut off"] += len(lines) - 1
        used = [line for line in lines if line["call"] in used_at]
        findings.expect("model_call_once", len(used) <= 1, f"turn {turn} of {work} was answered {len(used)} times")
        for line in used:
            late = [other for other in lines if other["at"] > used_at[line["call"]] and other is not line]
            findings.figures["model calls under way when stopped"] += sum(other["call"] in under_way for other in late)
            late = [other for other in late if other["call"] not in under_way]
            findings.figures["model calls repeated"] += len(late)
            findings.expect("model_call_once", not late, f"turn {turn} of {work} was asked again after it was recorded")
    for work, calls in story.history.items():
        turns = [story.calls[call]["turn"] for call in calls]
        findings.expect("model_call_once", turns == list(range(len(calls))), f"{work} has the turns {turns}")


def _first_uses(story):
    """When each answer was first seen to be recorded: by a later turn, or by a tool call that it asked for.

    A tool that may be run again may begin before the answer is recorded, but not run for long.
    """
    used_at, begun = {}, {}
    for line in story.record:
        what, call = line["what"], line["call"]
        if what == "model_start":
            for seen in line["seen"]:
                used_at.setdefault(seen, line["at"])
        elif what == "tool_start":
            begun[call, line["n"]] = line["at"]
            if line["tool"] == "once":
                used_at.setdefault(call, line["at"])
        elif what == "tool_end":
            since = begun[call, line["n"]]
            if line["at"] - since > RECORDED_WITHIN and not story.was_deaf(line["pid"], since - 1, line["at"]):
                used_at.setdefault(call, line["at"])
    for calls in story.history.values():
        for call in calls:
            used_at.setdefault(call, float("inf"))
    return used_at


def _under_way(story):
    """Model calls that may have left already when their process was stopped: one a stop, the first as it wakes up.

    Whatever a process looks at last before a request leaves, it may be stopped right after that look. One thread sends
    them all, so that there is one such call at most; whoever sends more has not looked at its leases.
    """
    starts = defaultdict(list)
    for line in story.record:
        if line["what"] == "model_start":
            starts[line["pid"]].append((line["at"], line["call"]))
    first = set()
    for pid, _, woken in story.deaf:
        after = [start for start in starts[pid] if woken <= start[0] < woken + WAKES_WITHIN]
        first.update(call for _, call in sorted(after)[:1])
    return first


def check_effects(story, findings):
    """A finished tool call ran once; one that was cut off ran again only if its policy says so."""
    starts, ends = defaultdict(list), Counter()
    for line in story.record:
        if line["what"] == "tool_start" and line["tool"] in ("once", "again"):
            starts[line["call"], line["n"], line["tool"]].append(line["at"])
        elif line["what"] == "tool_end":
            ends[line["call"], line["n"], line["tool"]] += 1
    recorded = {call for calls in story.history.values() for call in calls}
    seen_at = _results_seen(story)
    results = _results(story.world)
    for (call, n, tool), times in starts.items():
        name = f"effect {tool} {call}/{n}"
        findings.figures["effects"] += 1
        findings.figures["effects run again by policy"] += len(times) - 1 if tool == "again" else 0
        if tool == "once":
            findings.expect("effect_once", call in recorded, f"{name} was asked for by an answer that nobody kept")
            findings.figures["effects repeated"] += len(times) - 1
            findings.expect("effect_once", len(times) == 1, f"{name} was started {len(times)} times")
        late = [at for at in times if at > seen_at.get(call, float("inf"))]
        findings.figures["effects repeated"] += len(late)
        findings.expect("effect_once", not late, f"{name} was started again after its result was recorded")
    tools = {(call, n): tool for call, n, tool in starts}
    for (call, n), good in results.items():
        tool = tools.get((call, n))
        if good:
            findings.expect(
                "effect_once", tool is not None and ends[call, n, tool] >= 1, f"{call}/{n} has a result only"
            )
        else:
            findings.figures["effects with unknown outcome"] += 1
            findings.expect("effect_once", tool in (None, "once"), f"{call}/{n} may be run again, but was not")


def _results_seen(story):
    """When the next turn saw the result of an answer's tool calls: from then on it was recorded."""
    seen = {}
    for line in story.record:
        if line["what"] == "model_start" and line["seen"]:
            seen.setdefault(line["seen"][-1], line["at"])
    return seen


def _results(world):
    """The results of recorded tool calls, by answer and number: whether they are good."""
    found = {}
    for conversation in world.conversations.values():
        asked = {}
        for message in conversation:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_use" and block["name"] in ("once", "again"):
                    asked[block["id"]] = block["input"]["call"], block["input"]["n"]
                elif block["type"] == "tool_result" and block["tool_use_id"] in asked:
                    found[asked[block["tool_use_id"]]] = not block.get("is_error")
    return found


def check_quiet(story, findings):
    """One second after its cancel took effect, nothing is begun for a run any more."""
    cancels = {story.accepted[run_id]: cancel for run_id, cancel in story.cancels.items()}
    begun = [line for line in story.record if line["what"] in ("model_start", "tool_start") and line["run"] in cancels]
    for line in begun:
        cancel = cancels[line["run"]]
        late = line["at"] - cancel.deadline(line["pid"])
        text = f"{line['what']} of run {line['run']} {late + QUIET_SECONDS:.3f} s after its cancel"
        findings.expect("quiet_after_cancel", late <= 0, text)


def check_keys(story, findings):
    """Nothing of the runs stays for ever."""
    findings.figures["keys without expiry"] += len(story.world.without_expiry)
    findings.expect("keys_expire", not story.world.without_expiry, f"no expiry: {story.world.without_expiry[:10]}")


def _answer_ids(message):
    return CALL.findall(_text(message)) if message["role"] == "assistant" else []


def _reports_in(conversation):
    lines = [line for m in conversation if m["role"] == "user" for line in _text(m).splitlines()]
    return [line.removeprefix("reply_to: ").strip() for line in lines if line.startswith("reply_to: ")]


def _text(message):
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block["type"] == "text")
