"""What the fault suite's checker says of model calls around a stop of their process."""

from types import SimpleNamespace

import pytest

from tests.chaos.checker import Findings, Story, check_model_calls

WORLD = SimpleNamespace(runs={}, messages={}, conversations={})
WOKEN = 10.0


def start(call, at, pid, turn=0, seen=()):
    return {"what": "model_start", "call": call, "at": at, "pid": pid, "work": "w", "turn": turn, "seen": list(seen)}


@pytest.mark.parametrize(
    ("late", "repeated"),
    [
        ([start("b", WOKEN + 0.01, 2)], 0),
        ([start("b", WOKEN + 0.5, 2)], 1),
        ([start("b", WOKEN + 0.01, 3)], 1),
        ([start("b", WOKEN + 0.01, 2), start("c", WOKEN + 0.02, 2)], 1),
    ],
    ids=["as it wakes", "later", "another process", "a second one"],
)
def test_one_call_may_have_left_when_its_process_was_stopped(late, repeated):
    record = [start("a", 8.0, 1), start("d", 9.0, 1, turn=1, seen=["a"]), *late]
    story = Story(WORLD, record, {}, deaf=[(2, 7.0, WOKEN)])
    findings = Findings()
    check_model_calls(story, findings)
    assert findings.figures["model calls repeated"] == repeated
    assert findings.figures["model calls under way when stopped"] == len(late) - repeated
    assert bool(findings.problems) == bool(repeated)
