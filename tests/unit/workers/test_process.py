"""Signals, exit codes and the one event loop of a process."""

import signal
import subprocess
import sys

import click
import pytest

from lattice.errors import AppError, LatticeError, OptionError
from workers.process import invoke, new_process_id

PROGRAM = """
import asyncio, sys, time
from workers.process import run

async def main(stop):
    print(type(asyncio.get_running_loop()).__module__, flush=True)
    {body}

sys.exit(run(main))
"""
WAIT = "await stop.wait(); print('draining', flush=True);"


def start(body):
    code = PROGRAM.format(body=body)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip().startswith("uvloop")
    return process


def finish(process):
    try:
        process.communicate(timeout=20)
    finally:
        process.kill()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_main_coroutine_finish(number):
    process = start(WAIT + "return 5")
    process.send_signal(number)
    assert process.stdout.readline() == "draining\n"
    assert finish(process) == 5


@pytest.mark.parametrize(
    "stuck", ["await asyncio.sleep(60)", "time.sleep(60)", "await asyncio.to_thread(time.sleep, 60)"]
)
def test_the_second_signal_stops_at_once_whatever_hangs(stuck):
    process = start(WAIT + stuck)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "draining\n"
    process.send_signal(signal.SIGTERM)
    assert finish(process) == 128 + signal.SIGTERM


def test_a_thread_that_never_ends_does_not_hold_the_process():
    process = start("asyncio.get_running_loop().run_in_executor(None, time.sleep, 60); return 3")
    assert finish(process) == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [(OptionError("no such option"), 2), (AppError("no app"), 2), (LatticeError("broke"), 1), (None, 0), (7, 7)],
)
def test_known_errors_become_a_message_and_an_exit_code(error, code, capsys, monkeypatch):
    @click.command("thing")
    def command():
        if isinstance(error, Exception):
            raise error
        return error

    monkeypatch.setattr("sys.argv", ["thing"])
    assert invoke(command) == code
    said = capsys.readouterr().err
    assert said == (f"thing: {error.message}\n" if isinstance(error, LatticeError) else "")


def test_an_unknown_flag_is_a_usage_error(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["thing", "--nope"])
    assert invoke(click.Command("thing")) == 2
    assert "--nope" in capsys.readouterr().err


def test_no_two_processes_share_an_id():
    ids = {new_process_id("worker") for _ in range(100)}
    assert len(ids) == 100
    assert all(one.startswith("worker-") for one in ids)
