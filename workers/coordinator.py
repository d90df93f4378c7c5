"""``lattice-coordinator``: takes a team's runs from its RQ queue and drives their lead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import click

from lattice.model import provider_gate
from lattice.redis.connection import open_blocking_redis, open_redis
from lattice.rq.engine import TeamEngine
from lattice.rq.service import RunService, ServiceOptions, run_service
from lattice.team.coordinator import Coordinator
from lattice.team.host import Host
from lattice.team.team import Team
from workers.apps import load_app
from workers.connections import redis_url_of, store_of, unchecked_store
from workers.health import not_claiming, not_taking, serve_health
from workers.logs import configure_logs, get_logger
from workers.options import LOGGING, TEAM, WORK, with_settings
from workers.presence import announced, this_process
from workers.process import EXIT_OK, StopRequest, main_of, new_process_id, run
from workers.settings import Settings
from workers.telemetry import INSTANCE, watching

__all__ = ["coordinator", "main"]

CONCURRENCY = 100
"""Runs at once in one process; one that waits for its members costs a few kilobytes."""


@click.command("lattice-coordinator", context_settings={"help_option_names": ["-h", "--help"]})
@with_settings(*TEAM, *WORK, *LOGGING)
def coordinator(settings: Settings) -> int:
    """Drive the team's runs: take them from the RQ queue, let the lead work, resume it when reports arrive.

    SIGTERM lets the leads finish what they are doing within the drain time and hands the runs over to other
    coordinators; a second signal stops at once.
    """
    team = load_app(settings.app).team
    process_id = new_process_id("coordinator")
    configure_logs(settings, team=team.key, role="coordinator", worker=process_id)
    return run(partial(_main, team, settings, process_id))


@dataclass(frozen=True, slots=True)
class _Parts:
    service: RunService
    coordinator: Coordinator


async def _main(team: Team, settings: Settings, process_id: str, stop: StopRequest) -> int:
    log = get_logger("lattice.coordinator")
    url = redis_url_of(settings)
    async with _open_parts(team, settings, url, process_id, stop) as parts:
        log.info("ready", concurrency=parts.service.worker.concurrency)
        await _serve(parts, settings, stop)
        log.info("stopped")
    return EXIT_OK


@asynccontextmanager
async def _open_parts(
    team: Team, settings: Settings, url: str, process_id: str, stop: StopRequest
) -> AsyncIterator[_Parts]:
    """Put the process together; everything is taken apart in reverse."""
    concurrency = settings.concurrency or CONCURRENCY
    options = ServiceOptions(
        process_id=process_id,
        concurrency=concurrency,
        lease_ms=settings.lease_ms,
        keep=max(1, int(settings.retention)),
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(store_of(settings, team.key))
        provider_gate.set(store)
        members = [member.key for member in team.members]
        watch = await stack.enter_async_context(
            watching(settings, "coordinator", team.key, store, members, **{INSTANCE: process_id})
        )
        store = watch.store(store)
        redis, blocking = open_redis(url), open_blocking_redis(url)
        stack.callback(blocking.close)
        stack.push_async_callback(redis.aclose)
        # The thread that renews leases has an event loop of its own, and so a connection of its own.
        opener = partial(unchecked_store, settings, team.key)
        host = Host(
            store,
            process_id=process_id,
            lease_ms=settings.lease_ms,
            open_store=opener,
            instruments=watch.instruments,
            tracer=team.tracer,
        )
        await host.start()
        stack.push_async_callback(host.stop)
        driver = Coordinator(host, team)
        engine = TeamEngine(store, driver)
        service = await stack.enter_async_context(run_service(redis, blocking, team.key, store, engine, options))
        info = this_process(process_id, "coordinator", concurrency=concurrency)
        presence = await stack.enter_async_context(announced(store, info, lambda: driver.busy))
        alive = partial(not_claiming, lambda: service.worker.silent_for)
        ready = partial(not_taking, stop, presence.fault)
        await stack.enter_async_context(serve_health(settings.health_port, alive=alive, ready=ready))
        yield _Parts(service, driver)


async def _serve(parts: _Parts, settings: Settings, stop: StopRequest) -> None:
    serving = asyncio.create_task(parts.service.serve(burst=settings.burst))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await _drain(parts, settings.drain_timeout)
        await serving
    finally:
        for task in (serving, stopping):
            task.cancel()
        await asyncio.gather(serving, stopping, return_exceptions=True)


async def _drain(parts: _Parts, within: float) -> None:
    """Let leads finish their legs, then hand all runs over: others go on with them at once."""
    get_logger("lattice.coordinator").info("draining", runs=parts.coordinator.busy)
    await parts.service.stop_taking()
    await parts.service.legs_ended(within)
    await parts.coordinator.hand_over()
    await parts.service.drained()


main = main_of(coordinator)
