"""``lattice-worker``: drains one member's mailbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import click

from lattice.model import provider_gate
from lattice.team.definition import TeamMemberDefinition, conversation_policy
from lattice.team.host import Host
from lattice.team.team import Team
from lattice.team.worker import MemberWorker
from workers.apps import load_app
from workers.connections import redis_url_of, store_of, unchecked_store
from workers.health import not_claiming, not_taking, serve_health
from workers.local_team import find_member
from workers.logs import configure_logs, get_logger
from workers.options import LOGGING, TEAM, WORK, with_settings
from workers.presence import announced, this_process
from workers.process import EXIT_OK, StopRequest, main_of, new_process_id, run
from workers.settings import Settings
from workers.telemetry import INSTANCE, watching

__all__ = ["main", "worker"]

CONCURRENCY = 10
"""Conversations at once in one process, unless they are all one and the same."""


@click.command("lattice-worker", context_settings={"help_option_names": ["-h", "--help"]})
@with_settings("member", *TEAM, *WORK, *LOGGING)
def worker(settings: Settings) -> int:
    """Work for one member of a team: claim what is in its mailbox, run the member's agent, report.

    Any number of these may drain one mailbox. SIGTERM lets running work finish within the drain timeout and hands back
    the rest; a second signal stops at once.
    """
    team = load_app(settings.app).team
    member = find_member(team, settings.member)
    redis_url_of(settings)
    process_id = new_process_id("worker")
    configure_logs(settings, team=team.key, role="worker", member=member.key, worker=process_id)
    return run(partial(_main, team, member, settings, process_id))


async def _main(
    team: Team, member: TeamMemberDefinition, settings: Settings, process_id: str, stop: StopRequest
) -> int:
    log = get_logger("lattice.worker")
    async with _at_work(team, member, settings, process_id, stop) as working:
        log.info("working", concurrency=working.slots.free)
        await _work(working, settings, stop)
        log.info("stopped", settled=working.settled)
    return EXIT_OK


@asynccontextmanager
async def _at_work(
    team: Team, member: TeamMemberDefinition, settings: Settings, process_id: str, stop: StopRequest
) -> AsyncIterator[MemberWorker]:
    """Put the process together; everything is taken apart in reverse."""
    concurrency = settings.concurrency or (1 if conversation_policy(member) == "member" else CONCURRENCY)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(store_of(settings, team.key))
        provider_gate.set(store)
        watch = await stack.enter_async_context(
            watching(
                settings,
                "worker",
                team.key,
                store,
                [member.key],
                **{"lattice.member": member.key, INSTANCE: process_id},
            )
        )
        store = watch.store(store)
        host = Host(
            store,
            process_id=process_id,
            lease_ms=settings.lease_ms,
            # The thread that renews leases has an event loop of its own, and so a connection of its own.
            open_store=partial(unchecked_store, settings, team.key),
            open_team=lambda space: watch.store(unchecked_store(settings, space), space),
            instruments=watch.instruments,
            tracer=team.tracer,
        )
        await host.start()
        stack.push_async_callback(host.stop)
        working = MemberWorker(host, team, member.key, concurrency=concurrency)
        info = this_process(process_id, "worker", member=member.key, concurrency=concurrency)
        presence = await stack.enter_async_context(announced(store, info, lambda: working.busy))
        alive = partial(not_claiming, lambda: working.silent_for)
        ready = partial(not_taking, stop, presence.fault)
        await stack.enter_async_context(serve_health(settings.health_port, alive=alive, ready=ready))
        yield working


async def _work(working: MemberWorker, settings: Settings, stop: StopRequest) -> None:
    """Work until nothing is left (burst) or a signal comes; then drain."""
    claiming = asyncio.create_task(working.run(burst=settings.burst))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((claiming, stopping), return_when=asyncio.FIRST_COMPLETED)
        if stop.requested:
            get_logger("lattice.worker").info("draining", busy=working.busy, seconds=settings.drain_timeout)
            await working.drain(settings.drain_timeout)
        await claiming
    except asyncio.CancelledError:
        await working.stop()
        raise
    finally:
        for task in (claiming, stopping):
            task.cancel()
        await asyncio.gather(claiming, stopping, return_exceptions=True)


main = main_of(worker)
