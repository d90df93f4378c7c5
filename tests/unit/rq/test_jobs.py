import asyncio

import pytest

from lattice.errors import LatticeError
from lattice.rq.jobs import RunCancelledError, RunFailedError, context_of, drive_run
from lattice.rq.queue import JOB_FUNCTION


class Engine:
    def __init__(self, status, error=None):
        self.outcome = {"run_id": "r", "status": status, "result": "done", "usage": None, "error": error}

    async def drive(self, run_id, *, again=False):
        assert run_id == "r"
        return self.outcome


async def drive(engine):
    return await asyncio.create_task(drive_run("r"), context=context_of(engine))


async def test_the_outcome_of_a_run_that_succeeded_is_returned():
    assert (await drive(Engine("succeeded")))["result"] == "done"


async def test_a_failed_run_raises_its_error():
    error = {"name": "APIError", "code": "overloaded", "message": "too busy"}
    with pytest.raises(RunFailedError, match="overloaded: too busy") as caught:
        await drive(Engine("failed", error))
    assert caught.value.outcome["error"] == error


async def test_a_cancelled_run_raises_that_it_was():
    with pytest.raises(RunCancelledError, match="cancelled"):
        await drive(Engine("cancelled"))


async def test_without_a_coordinator_the_error_says_what_to_start():
    with pytest.raises(LatticeError, match="start lattice-coordinator"):
        await drive_run("r")


def test_queued_jobs_find_their_function_by_the_name_they_remember():
    assert JOB_FUNCTION == f"{drive_run.__module__}.{drive_run.__qualname__}" == "lattice.rq.jobs.drive_run"
