"""Fault points: a process that is told ``<point>[:<nth>]`` kills (or freezes) itself when it gets there for the nth time.

They are put around the steps of the store, the recorder and RQ's books when a test's app is loaded; the product has none.
"""

import functools
import os
import signal

from lattice.redis.run_store import RedisRunStore
from lattice.rq.books import Books
from lattice.team.recording import Recorder, RunJournal

FAULT = "LATTICE_TEST_FAULT"
SIGNAL = "LATTICE_TEST_FAULT_SIGNAL"

_left = {}


def reach(point):
    """Die (or freeze) here if this is the point."""
    if point in _left:
        _left[point] -= 1
        if _left[point] == 0:
            os.kill(os.getpid(), signal.Signals[os.environ.get(SIGNAL, "SIGKILL")])


def _always(*_):
    return True


def _has_started(_store, _lease, step):
    return bool(step.started)


def _has_results(_store, _lease, step):
    return any(b'"tool_result"' in message for message in step.messages)


STEPS = (
    # the point's name, whose method, its name, which calls count, which replies count
    ("take", RedisRunStore, "take_run", _always, lambda reply: not isinstance(reply, str)),
    ("claim", RedisRunStore, "claim", _always, bool),
    ("claim", RedisRunStore, "await_claims", _always, bool),
    ("answer", RedisRunStore, "append", _has_started, _always),
    ("results", RedisRunStore, "append", _has_results, _always),
    ("hand_off", RedisRunStore, "hand_off", _always, _always),
    ("resume", RedisRunStore, "resume", _always, lambda reply: reply[0] == "complete"),
    ("settle", RedisRunStore, "settle", _always, _always),
    ("finish_run", RedisRunStore, "finish_run", _always, _always),
    ("reclaim", RedisRunStore, "reclaim_expired", _always, bool),
    ("finished_call", RunJournal, "finished", _always, _always),
    ("begin_job", Books, "write_begun", _always, _always),
    ("finish_job", Books, "finish", _always, _always),
)


def install():
    """Put the point that the environment names in place."""
    spec = os.environ.get(FAULT)
    if spec is None:
        return
    point, _, nth = spec.partition(":")
    _left[point] = int(nth or 1)
    for name, owner, method, counts, replied in STEPS:
        if point in (f"before_{name}", f"after_{name}"):
            setattr(owner, method, _around(name, getattr(owner, method), counts, replied))
    if point == "after_prompt":
        Recorder.add_message = _prompted(Recorder.add_message)


def _around(name, step, counts, replied):
    @functools.wraps(step)
    async def wrapped(*args, **options):
        counted = counts(*args)
        if counted:
            reach(f"before_{name}")
        reply = await step(*args, **options)
        if counted and replied(reply):
            reach(f"after_{name}")
        return reply

    return wrapped


def _prompted(add_message):
    @functools.wraps(add_message)
    def wrapped(self, message):
        add_message(self, message)
        if message["role"] == "user":
            reach("after_prompt")

    return wrapped
