"""What really happened, written outside Redis: one line for each start and end of a model call or a tool call."""

import json
import os
from pathlib import Path
from time import time as wall_clock
from time import time_ns


class Record:
    """Appends to a file of this process; a line is one ``write``, so a killed process leaves no half of one."""

    def __init__(self, folder):
        path = Path(folder) / "record" / f"{os.getpid()}-{time_ns()}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what, **facts):
        line = json.dumps({"what": what, "at": wall_clock(), "pid": os.getpid(), **facts})
        os.write(self._file, line.encode() + b"\n")


def read_record(folder):
    """Return everything that was recorded, by time."""
    lines = []
    for path in (Path(folder) / "record").glob("*.jsonl"):
        lines += [json.loads(line) for line in path.read_bytes().splitlines()]
    return sorted(lines, key=lambda line: line["at"])
