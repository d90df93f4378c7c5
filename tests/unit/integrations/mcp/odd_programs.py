"""Programs that are no MCP servers: ``odd_programs.py deaf`` or ``nonsense``."""

import contextlib
import sys
import time

if sys.argv[1] == "deaf":
    time.sleep(3600)
with contextlib.suppress(KeyboardInterrupt):
    while sys.stdin.readline():
        print("hello, I am not an MCP server", flush=True)
