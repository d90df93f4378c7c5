"""``python -m tests.chaos --seconds 120 --seed N``: the fault suite; exit code 1 if a promise was broken."""

import argparse
import asyncio
import json
import logging
import signal
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
    try:
        outcome = asyncio.run(_until_told(Storm(plan, folder)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print(f"broken off, nothing is left running; logs in {folder}", file=sys.stderr)
        sys.exit(130)
    print(json.dumps(outcome.figures, indent=2))
    for promise, text in outcome.problems[:50]:
        print(f"BROKEN {promise}: {text}")
    print(f"{len(outcome.problems)} problems; logs in {folder}")
    sys.exit(1 if outcome.problems else 0)


async def _until_told(storm):
    """Run a storm; SIGTERM and SIGHUP break it off as Ctrl-C does, so that its processes end with it."""
    loop = asyncio.get_running_loop()
    storming = loop.create_task(storm.run())

    def break_off():
        if not storming.cancelling():  # a second signal must not disturb the cleaning up
            storming.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, break_off)
    return await storming


if __name__ == "__main__":
    main()
