"""What the Agent loop costs per turn, beside a bare loop and the agent loops of others, in one run.

    python -m bench.loop [--rounds N] [--only NAME ...]

A model that answers in no time asks for one call of an async tool per turn. Each subject runs in a process of its own;
the rounds go through all subjects in turn, and ratios are taken within a round. Nothing here waits for anything, so the
measure is processor time, which a busy machine changes least; only imports are timed by the clock. ``floor`` and
``lattice-wire`` encode every request and parse every answer: compare these two. The models of the peers and of
``lattice`` answer with ready objects: compare those.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench import harness

SUBJECTS = {
    "floor": "floor",
    "lattice": "lattice",
    "lattice-wire": "lattice",
    "agno": "agno",
    "smolagents": "smolagents",
    "pydantic-ai": "pydantic_ai",
    "openai-agents": "openai_agents",
}
QUIET = {
    "AGNO_TELEMETRY": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONWARNINGS": "ignore",
}
IMPORT = """
import sys, time
began = time.perf_counter()
exec(sys.argv[1], {})
print(time.perf_counter() - began)
"""
COLUMNS = {
    "us_10": "us/turn N=10",
    "us_50": "N=50",
    "us_200": "N=200",
    "together": "100 conv. turns/s",
    "import_s": "import s",
    "idle_kib": "KiB/idle agent",
}
BEST = {"together": max}


def python_of(name):
    """The interpreter of a subject: ours for the floor and lattice, else the peers' environment."""
    if name in {"floor", "lattice", "lattice-wire"}:
        return sys.executable
    home = Path(os.environ.get("BENCH_LOOPS_VENV") or harness.BENCH / "loop_peers" / ".venv")
    if not (home / "bin" / "python").exists():
        sys.exit(f"no environment for the peers in {home}; bench/README.md says how to make it")
    return str(home / "bin" / "python")


def run_python(name, *arguments):
    env = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")} | QUIET
    done = subprocess.run(
        [python_of(name), *arguments],
        cwd=harness.ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip().splitlines()[-1]


def measure(name):
    """One round of one subject: its figures, with the import from a bare interpreter."""
    told = json.loads(run_python(name, "-m", "bench.loop_peers", SUBJECTS[name], name))
    seconds = float(run_python(name, "-c", IMPORT, told["imports"]))
    return told["figures"] | {"import_s": seconds}, told["versions"]


def summary(rounds):
    """Per subject and column: the best round, and the median over rounds of the ratio to the floor."""
    return {
        name: {
            column: {
                "best": BEST.get(column, min)(one[name][column] for one in rounds),
                "ratio": statistics.median(one[name][column] / max(one["floor"][column], 1e-9) for one in rounds),
            }
            for column in COLUMNS
        }
        for name in rounds[0]
    }


def show(figures):
    print(f"\n| {'':14} | " + " | ".join(COLUMNS.values()) + " | x floor, N=50 |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for name, columns in figures.items():
        cells = [f"{columns[column]['best']:,.3g}" for column in COLUMNS]
        print(f"| {name:14} | " + " | ".join(cells) + f" | {columns['us_50']['ratio']:.1f} |")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), help="the floor always runs")
    options = parser.parse_args()
    names = [name for name in SUBJECTS if name in {"floor", *options.only}]
    rounds, versions = [], {}
    for _ in range(options.rounds):
        one = {}
        for name in names:
            one[name], versions[name] = measure(name)
        rounds.append(one)
    figures = summary(rounds)
    show(figures)
    print("\nversions:", json.dumps(versions))
    harness.save("loop", {"rounds": rounds, "summary": figures, "versions": versions})


if __name__ == "__main__":
    main()
