"""One job from sender to handler to stored report: lattice beside Python's Redis queues and the bare floor.

    python -m bench.queues throughput | dispatch | backlog [--rounds N] [--jobs N] [--only NAME ...]

throughput  jobs/s of one worker on a filled mailbox, between the 10 % and the 90 % job
dispatch    idle: milliseconds from the sender's call to the handler's start, one job every 20 ms, median
backlog     jobs/s over the first 1,000 jobs of 1,000 and of 100,000 pending: what a claim costs at depth
"""

import argparse
import subprocess

from bench import harness

FLOOR = "raw"
PEERS = (FLOOR, "rq", "taskiq", "dramatiq", "saq", "lattice", "lattice-agent")


class Bench:
    """One peer on a Redis of its own."""

    def __init__(self, peer, server, log, group):
        self.python, self.peer, self.server, self.log, self.group = harness.python_of(peer), peer, server, log, group
        self.environment = {"BENCH_URL": server.url, "BENCH_LOG": str(log.path)}

    def start(self, operation, *arguments):
        command = [self.python, "-m", "bench.peers", self.peer, operation, *map(str, arguments)]
        return self.group.start(command, **self.environment)

    def run(self, operation, *arguments):
        process = self.start(operation, *arguments)
        if process.wait() != 0:
            raise subprocess.CalledProcessError(process.returncode, process.args)


def throughput(bench, jobs):
    """Jobs per second between the first and the last tenth, so that neither start-up nor tail counts."""
    bench.run("fill", jobs)
    bench.start("work")
    harness.wait_until(lambda: len(bench.log) >= jobs, f"{bench.peer}: {jobs} jobs handled")
    handled = sorted(at for _, at in bench.log.records())
    first, last = jobs // 10, jobs - jobs // 10 - 1
    return (last - first) / ((handled[last] - handled[first]) / 1e9)


def dispatch(bench, jobs):
    """Median milliseconds from send to start with an idle worker."""
    bench.start("work")
    bench.run("fill", 20)
    harness.wait_until(lambda: len(bench.log) >= 20, f"{bench.peer}: worker is warm")
    bench.log.clear()
    bench.run("pace", jobs, 0.02)
    harness.wait_until(lambda: len(bench.log) >= jobs, f"{bench.peer}: {jobs} jobs handled")
    return harness.percentile([(at - sent) / 1e6 for sent, at in bench.log.records()], 50)


def depth(pending):
    def measure(bench, _):
        bench.run("fill", pending)
        bench.start("work")
        harness.wait_until(lambda: len(bench.log) >= 1000, f"{bench.peer}: 1,000 of {pending} jobs handled")
        handled = sorted(at for _, at in bench.log.records())[:1000]
        return 800 / ((handled[900] - handled[100]) / 1e9)

    return measure


def one_round(measure, peers, jobs):
    figures = {}
    for peer in peers:
        with harness.PrivateRedis() as server, harness.Log() as log, harness.Group() as group:
            figures[peer] = measure(Bench(peer, server, log, group), jobs)
    return figures


def report(name, title, unit, measure, options):
    peers = [FLOOR, *(peer for peer in options.only or PEERS if peer != FLOOR)]
    rounds = [one_round(measure, peers, options.jobs) for _ in range(options.rounds)]
    figures = harness.compare(rounds, FLOOR)
    harness.show(title, unit, figures)
    harness.save(name, figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("throughput", "dispatch", "backlog"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, help="default: 5,000 for throughput, 300 for dispatch")
    parser.add_argument("--only", nargs="+", choices=PEERS)
    options = parser.parse_args()
    if options.part == "throughput":
        options.jobs = options.jobs or 5000
        report("throughput", "Jobs per second, one worker", "jobs/s", throughput, options)
    elif options.part == "dispatch":
        options.jobs = options.jobs or 300
        report("dispatch", "Idle dispatch, median", "ms", dispatch, options)
    else:
        for pending in (1_000, 100_000):
            title = f"Jobs per second over the first 1,000 of {pending:,} pending"
            report(f"backlog-{pending}", title, "jobs/s", depth(pending), options)


if __name__ == "__main__":
    main()
