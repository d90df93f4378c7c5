"""Deliberately broken variants of the Lua scripts, each for a promise that the checker must then see broken.

A variant is what it replaces in which scripts; that text must be there, so a variant cannot silently become harmless.
"""

import hashlib
import os
from dataclasses import dataclass

from lattice.redis.scripts import Script, load_scripts

BROKEN = "CHAOS_BROKEN"


@dataclass(frozen=True)
class Variant:
    """A broken set of scripts, the promise that it breaks, and what must happen for that to show."""

    promise: str
    changes: tuple[tuple[tuple[str, ...], str, str], ...]
    """In which scripts what is replaced by what."""
    dies: tuple[str, str | None, str] | None = None
    """Role, member and fault point of a process that dies."""
    cancelled: bool = False
    """Whether the run is cancelled while members work."""
    never_ends: bool = False
    slow: str = "0-0"


VARIANTS = {
    "a settled message is not counted down": Variant(
        promise="run_ends",
        changes=(
            (("settle",), "redis.call('HINCRBY', key, 'waiting', -1)", "redis.call('HINCRBY', key, 'waiting', 0)"),
        ),
        never_ends=True,
    ),
    "the event stream of an ended run is not closed": Variant(
        promise="run_ends",
        changes=((("finish_run",), "{type = 'run_ended', status = status}", "{type = 'note', status = status}"),),
    ),
    "a settled message keeps its status": Variant(
        promise="message_ends_once",
        changes=(
            (
                ("settle",),
                "redis.call('HSET', key, 'status', status)\n  redis.call('HINCRBY', prefix .. 'counts:'",
                "redis.call('HINCRBY', prefix .. 'counts:'",
            ),
        ),
    ),
    "events are written twice": Variant(
        promise="message_ends_once",
        changes=(
            (
                ("settle",),
                "redis.call('XADD', key .. ':events', ",
                "redis.call('XADD', key .. ':events', '*', 'event', ARGV[at + n])\n    redis.call('XADD', key .. ':events', ",
            ),
        ),
    ),
    "reports come in the wrong order": Variant(
        promise="report_once_in_order",
        changes=(
            (
                ("resume",),
                "reply[#reply + 1] = redis.call('HGETALL'",
                "reply[#reply + 1] = reply[2]\n  reply[2] = redis.call('HGETALL'",
            ),
        ),
    ),
    "reports that were delivered are delivered again": Variant(
        promise="report_once_in_order",
        changes=(
            (("take_run",), "local delivered = not found[6] or ", "local delivered = not found[6] or false and "),
            (("append", "hand_off", "finish_run"), "':entered', step.once) == 0", "':entered', step.once) == 2"),
        ),
        dies=("coordinator", None, "after_answer:2"),
    ),
    "the start of a tool call is not kept": Variant(
        promise="effect_once",
        changes=((("append",), "redis.call('HSET', journal, call, '')", ""),),
        dies=("worker", "alpha", "tool_begun"),
    ),
    "a conversation that has entries is taken for empty": Variant(
        promise="model_call_once",
        changes=((("claim", "settle"), "return {record, redis.call('EXISTS', conversation), ", "return {record, 0, "),),
        dies=("worker", "alpha", "after_results"),
    ),
    "a cancel tells nobody and fences nobody off": Variant(
        promise="quiet_after_cancel",
        changes=(
            (
                ("cancel_run",),
                "if found[3] == '1' and (found[1] == 'pending' or found[1] == 'processing') then",
                "if false then",
            ),
        ),
        cancelled=True,
        slow="0.5-0.5",
    ),
    "nothing of an ended run expires": Variant(
        promise="keys_expire",
        changes=((("finish_run",), "redis.call('PEXPIRE', prefix .. key, retention + 3600000)", ""),),
    ),
    "events are not forgotten": Variant(
        promise="memory",
        changes=(
            (
                ("forget_runs",),
                "redis.call('DEL', key, key .. ':events', ",
                "redis.call('PERSIST', key .. ':events')\n  redis.call('DEL', key, ",
            ),
        ),
    ),
}


def broken_scripts(name):
    """Return the scripts that a variant replaces."""
    sources = {}
    for scripts, old, new in VARIANTS[name].changes:
        for script in scripts:
            source = load_scripts()[script].source.decode()
            assert old in source, f"{script}.lua has no {old!r} any more: the variant {name!r} breaks nothing"
            sources[script] = source.replace(old, new).encode()
    return {script: _script(script, source) for script, source in sources.items()}


def _script(name, source):
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def install():
    """Put the variant that the environment names in place, in this process."""
    name = os.environ.get(BROKEN)
    if name is not None:
        load_scripts().update(broken_scripts(name))
