"""Doing something thousands of times, and seeing that nothing of it stays in memory."""

import gc
import os
import sys

TIMES = int(os.environ.get("LATTICE_TEST_SOAK", "500"))
"""How often; LATTICE_TEST_SOAK=10000 is what the promise says."""

_WARM_UP = 400
"""More than what is remembered on purpose: the last 256 runs, as parents of those that follow."""
_FEW = 300
_ROUNDS = 3
"""A leak shows in every round; what else goes on in the interpreter, or a cache that fills, does not."""


async def leaves_nothing(once, settle=None, times=TIMES):
    """Run ``await once()`` often; the number of memory blocks that the interpreter holds must not grow with it.

    ``settle()`` waits for what goes on in the background.
    """

    async def run(count):
        for number in range(count):
            await once()
            if settle is not None and number % 100 == 99:
                await settle()
        if settle is not None:
            await settle()
        for _ in range(3):
            gc.collect()
        return sys.getallocatedblocks()

    held = await run(_WARM_UP)
    grown = []
    for _ in range(_ROUNDS):
        before, held = held, await run(times)
        grown.append(held - before)
        if grown[-1] < _FEW + times // 20:
            return
    raise AssertionError(f"{grown} blocks more after {times} times each")
