import pytest

from lattice.integrations.tracing.tree import TraceTree


class Sink:
    """Writes down what it is told, and which spans are open."""

    def __init__(self):
        self.log = []
        self.open = set()
        self.spans = 0

    def _open(self, name):
        self.spans += 1
        span = f"{name}#{self.spans}"
        self.open.add(span)
        self.log.append(("open", span))
        return span

    def start_run(self, event, parent):
        return self._open(f"run {event.run_id} in {parent}")

    def give_input(self, run, event):
        self.log.append(("input", run.span))

    def start_call(self, run, event):
        return self._open(f"turn {run.turn}")

    def start_tool(self, run, event):
        return self._open(f"tool {event.data['id']}")

    def end_call(self, span, event, error):
        self.open.remove(span)
        self.log.append(("end", span, event and event.type, error))

    end_tool = end_call

    def note(self, run, event):
        self.log.append(("note", run.span, event.type))

    def end_run(self, run, event):
        self.open.remove(run.span)
        self.log.append(("end", run.span, event and event.type))


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def tree(sink):
    return TraceTree(sink)


def test_a_run_with_a_tool_call_opens_and_ends_its_spans_in_order(tree, sink, events):
    tree.take(events("run_start"))
    tree.take(events("user_message"))
    tree.take(events("model_request"))
    tree.take(events("assistant_message"))
    tree.take(events("tool_use", id="t"))
    tree.take(events("tool_result", tool_use_id="t"))
    tree.take(events("user_message"))
    tree.take(events("result"))
    assert sink.log == [
        ("open", "run r1 in None#1"),
        ("input", "run r1 in None#1"),
        ("open", "turn 1#2"),
        ("end", "turn 1#2", "assistant_message", None),
        ("open", "tool t#3"),
        ("end", "tool t#3", "tool_result", None),
        ("note", "run r1 in None#1", "user_message"),
        ("end", "run r1 in None#1", "result"),
    ]
    assert tree.open_runs == 0


def test_calls_that_nobody_answered_are_ended_by_what_follows(tree, sink, events):
    """agent:W-32"""
    tree.take(events("run_start"))
    tree.take(events("model_request"))
    tree.take(events("model_request"))
    tree.take(events("tool_use", id="t"))
    tree.take(events("result"))
    ends = [entry for entry in sink.log if entry[0] == "end"]
    assert [entry[2] for entry in ends] == ["model_request", "result", "result", "result"]
    assert all(entry[3] for entry in ends[:3])
    assert sink.open == set()


def test_concurrent_tool_calls_end_by_their_ids(tree, sink, events):
    tree.take(events("run_start"))
    for name in "ab":
        tree.take(events("tool_use", id=name))
    for name in "ba":
        tree.take(events("tool_result", tool_use_id=name))
    assert [entry[1][:6] for entry in sink.log[-2:]] == ["tool b", "tool a"]


def test_an_event_of_a_run_that_nobody_knows_opens_it(tree, sink, events):
    """agent:LS-14"""
    tree.take(events("compaction", run="late"))
    assert sink.log == [("open", "run late in None#1"), ("note", "run late in None#1", "compaction")]


def test_mail_of_a_team_whose_root_another_process_writes_opens_nothing(tree, sink, events):
    """agent:LS-14"""
    tree.take(events("team_message", run="root"))
    assert sink.log == []
    assert tree.open_runs == 0


def test_answers_without_a_question_are_notes(tree, sink, events):
    tree.take(events("run_start"))
    tree.take(events("assistant_message"))
    tree.take(events("tool_result", tool_use_id="?"))
    assert [entry[0] for entry in sink.log[1:]] == ["note", "note"]


def test_children_know_their_parent_even_when_it_has_ended(tree, sink, events):
    tree.take(events("run_start", run="team"))
    tree.take(events("run_start", run="a", parent="team"))
    tree.take(events("result", run="team"))
    tree.take(events("run_start", run="b", parent="team"))
    tree.take(events("run_start", run="c", parent="another process"))
    opened = [entry[1] for entry in sink.log if entry[0] == "open"]
    assert opened == [
        "run team in None#1",
        "run a in run team in None#1#2",
        "run b in run team in None#1#3",
        "run c in None#4",
    ]


def test_a_second_result_of_the_same_run_is_nothing_new(tree, sink, events):
    tree.take(events("run_start"))
    tree.take(events("result"))
    before = list(sink.log)
    tree.take(events("result"))
    assert sink.log == before


def test_ten_thousand_abandoned_runs_do_not_stay_open(sink, events):
    """agent:W-32"""
    tree = TraceTree(sink, open_limit=10)
    for number in range(10_000):
        tree.take(events("run_start", run=str(number)))
        tree.take(events("model_request", run=str(number)))
        tree.take(events("tool_use", run=str(number), id="t"))
    assert tree.open_runs == 10
    assert len(sink.open) == 30
    tree.end_all()
    assert tree.open_runs == 0
    assert sink.open == set()
