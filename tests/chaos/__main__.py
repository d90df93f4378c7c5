"""``python -m tests.chaos --seconds 120 --seed N``: the fault suite; exit code 1 if a promise was broken."""

import argparse
import asyncio
import json
import logging
import sys
import tempfile

from tests.chaos.storm import Plan, Storm


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long things go wrong (default 120)")
    parser.add_argument("--seed", type=int, default=1, help="what goes wrong, and when (default 1)")
    parser.add_argument("--in-flight", type=int, default=200, help="runs under way all the time (default 200)")
    parser.add_argument("--folder", help="where logs and data go; kept (default: a temporary folder, kept on failure)")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # that Redis is away now and then is the point
    folder = given.folder or tempfile.mkdtemp(prefix="lattice-chaos-")
    plan = Plan(seconds=given.seconds, seed=given.seed, in_flight=given.in_flight)
    outcome = asyncio.run(Storm(plan, folder).run())
    print(json.dumps(outcome.figures, indent=2))
    for promise, text in outcome.problems[:50]:
        print(f"BROKEN {promise}: {text}")
    print(f"{len(outcome.problems)} problems; logs in {folder}")
    sys.exit(1 if outcome.problems else 0)


if __name__ == "__main__":
    main()
