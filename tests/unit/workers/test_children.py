"""Child processes: their lines, their restarts, their end."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workers import children as module
from workers.children import Child, Children, LinePrinter, command_line


@pytest.fixture
def said():
    return []


@pytest.fixture
async def group(said):
    group = Children(lambda name, line: said.append((name, line if isinstance(line, str) else line.decode())))
    yield group
    group.kill()
    await group.stop(within=5)


def python(name, code, **options):
    return Child(name=name, argv=(sys.executable, "-c", code), **options)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


SLEEPER = "import time; print('up', flush=True); time.sleep(60)"


async def test_lines_come_with_their_name_whole_and_complete(group, said):
    group.start(python("a", "print('one\\ntwo'); print('x' * 200000); print('last', end='')", lasting=False))
    await until(lambda: ("a", "last") in said)
    assert said[:2] == [("a", "one"), ("a", "two")]
    assert sum(len(line) for _name, line in said[2:-1]) == 200000


async def test_one_that_dies_is_started_again(group, said, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    group.start(python("a", SLEEPER))
    await until(lambda: said.count(("a", "up")) == 1)
    first = group.pid("a")
    os.kill(first, signal.SIGKILL)
    await until(lambda: said.count(("a", "up")) == 2)
    assert group.pid("a") != first
    assert any("starting it again" in line for _name, line in said)


async def test_one_that_was_told_wrong_things_is_not_started_again(group, said):
    group.start(python("a", "import sys; sys.exit(2)"))
    async with asyncio.timeout(20):
        await group.failed.wait()
    assert group.exit_code == 2
    assert not said


async def test_stopping_ends_all_and_starts_none_again(group, said):
    for name in "abc":
        group.start(python(name, SLEEPER))
    await until(lambda: len(said) == 3)
    pids = [group.pid(name) for name in "abc"]
    assert await group.stop(within=20)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_child_whose_lines_cannot_be_taken_is_not_left_alone():
    pids = []

    def broken(_name, line):
        pids.append(int(line))
        raise ZeroDivisionError

    group = Children(broken)
    group.start(python("a", "import os, time; print(os.getpid(), flush=True); time.sleep(60)", lasting=False))
    await until(lambda: pids)
    await group.stop(within=5)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_one_that_does_not_end_is_killed_with_what_it_started(group, said):
    stubborn = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
    group.start(python("a", stubborn))
    await until(lambda: said)
    grandchild = int(said[0][1])
    assert not await group.stop(within=0.1)
    await until(lambda: not alive(grandchild))


SUPERVISOR = """
import asyncio, os, signal, sys
from workers.children import Child, Children

CHILD = "import os; from workers.process import run\\n"
CHILD += "async def main(stop):\\n    print(os.getpid(), flush=True)\\n    await stop.wait()\\n    return 0\\nrun(main)"

async def main():
    def say(name, line):
        print(line.decode(), flush=True)
    Children(say).start(Child(name="a", argv=(sys.executable, "-c", CHILD)))
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_child_does_not_outlive_a_supervisor_that_was_killed():
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, text=True)
    child = int(await asyncio.to_thread(supervisor.stdout.readline))
    supervisor.kill()
    supervisor.communicate()
    await until(lambda: not alive(child))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_printed_lines_name_their_child(capsys):
    LinePrinter(["a", "long"], sys.stdout)("a", b"caf\xc3\xa9 \xff")
    assert capsys.readouterr().out.endswith("a    | café \ufffd\n")


def test_a_command_without_a_script_is_started_through_its_module():
    assert command_line("no-such-script", "workers.member")[:2] == (sys.executable, "-P")
