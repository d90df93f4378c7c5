"""``python -m bench.peers NAME OPERATION [ARGUMENTS]``: one process of one peer."""

import importlib
import os
import sys


def main():
    name, operation, *arguments = sys.argv[1:]
    module, _, variant = name.partition("-")
    peer = getattr(importlib.import_module(f"bench.peers.{module}_peer"), f"{variant.capitalize()}Peer")()
    peer.open()
    if operation == "work":
        peer.work()
    elif operation == "fill":
        peer.fill(int(arguments[0]))
    elif operation == "pace":
        peer.pace(int(arguments[0]), float(arguments[1]))
    else:
        sys.exit(f"unknown operation {operation!r}; known: work, fill, pace")
    sys.stdout.flush()
    os._exit(0)  # some clients keep threads alive


main()
