"""What the benchmarks share: a private Redis, processes that end with it, rounds and ratios, tables."""

import json
import os
import platform
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
RECORD = struct.Struct("<qq")  # sent at, handled at: time.monotonic_ns(), one clock for all processes of a machine


def python_of(peer):
    """The interpreter of a peer: its own environment, or ours for the raw floor and lattice."""
    if peer.startswith(("raw", "lattice")):
        return sys.executable
    home = Path(os.environ.get("BENCH_VENV") or BENCH / ".venv")
    if not (home / "bin" / "python").exists():
        sys.exit(f"no environment for the peers in {home}; bench/README.md says how to make it")
    return str(home / "bin" / "python")


class PrivateRedis:
    """A redis-server of our own on a free port of the loopback interface, without persistence."""

    def __init__(self):
        binary = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
        if not binary:
            sys.exit("no redis-server on PATH; install one or set REDIS_SERVER")
        self.folder = tempfile.mkdtemp(prefix="bench-redis-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([binary, *options, "--dir", self.folder], stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port)
        wait_until(self._answers, "redis-server answers")

    def _answers(self):
        try:
            return self.client.ping()
        except redis.ConnectionError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Group:
    """Processes that are all ended, with their children, when the block ends."""

    def __init__(self):
        self.processes = []

    def start(self, arguments, **environment):
        stderr = None if os.environ.get("BENCH_DEBUG") else subprocess.DEVNULL
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Log:
    """The file to which every handler appends when it was sent its job and when it started on it."""

    def __init__(self):
        handle, name = tempfile.mkstemp(prefix="bench-log-")
        os.close(handle)
        self.path = Path(name)

    def __len__(self):
        return self.path.stat().st_size // RECORD.size

    def records(self):
        return list(RECORD.iter_unpack(self.path.read_bytes()))

    def clear(self):
        os.truncate(self.path, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.path.unlink()


def wait_until(condition, what, seconds=120.0):
    """Poll a condition; a benchmark that hangs says what it waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"gave up after {seconds:g} s: {what}")
        time.sleep(0.005)


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def compare(rounds, floor):
    """Per name: median value, and the median over rounds of its ratio to the floor of the same round."""
    names = list(rounds[0])
    return {
        name: {
            "value": statistics.median(one[name] for one in rounds),
            "ratio": statistics.median(one[name] / one[floor] for one in rounds),
            "rounds": [one[name] for one in rounds],
        }
        for name in names
    }


def show(title, unit, figures):
    print(f"\n{title}\n")
    print(f"| {'':24} | {unit:>12} | {'x floor':>8} |\n|{'-' * 26}|{'-' * 13}:|{'-' * 9}:|")
    for name, figure in figures.items():
        print(f"| {name:24} | {figure['value']:12,.2f} | {figure['ratio']:8.2f} |")
    sys.stdout.flush()


def save(name, figures):
    """Write results/NAME.json with the machine and the versions beside the figures."""
    folder = BENCH / "results"
    folder.mkdir(exist_ok=True)
    with PrivateRedis() as server:
        version = server.client.info("server")["redis_version"]
    machine = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "system": platform.system(),
        "redis": version,
    }
    text = json.dumps({"machine": machine, "figures": figures}, indent=1, sort_keys=True)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
