"""The server is away for longer than a lease: who lives keeps what it holds, and only what the dead held is freed."""

import time

import pytest

from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.runs import Lease
from lattice.team.host import Host
from lattice.team.upkeep import LeaseWatch
from tests.contracts.work import DONE, handed_off, item, step
from tests.processes.commands import eventually
from tests.processes.servers import RedisServer
from tests.redis.conftest import TEAM

SHORT = 1_000


@pytest.fixture
def server(tmp_path):
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.thaw()
    server.stop()


def frozen(server):
    server.freeze()
    return server.thaw


def restarted(server):
    server.stop()
    return server.start


@pytest.mark.parametrize("take_away", [frozen, restarted])
async def test_an_outage_that_is_longer_than_the_lease_takes_nothing_away_from_the_living(server, take_away):
    redis, others = open_redis(server.url), open_redis(server.url)
    holders, watcher = RedisRunStore(redis, TEAM), RedisRunStore(others, TEAM)
    run, _ = await handed_off(holders, item(content="of the living"), item(content="of the dead"))
    living, dead = await holders.claim("backend", "worker-1", SHORT, count=2)
    await holders.renew([Lease(run.kind, run.id, run.owner, run.token, SHORT)], SHORT)
    watch = LeaseWatch(watcher, "worker-2", SHORT, runs=True)
    assert await watch.look() == []

    come_back = take_away(server)
    gone = time.time() + 2 * SHORT / 1000
    await eventually(lambda: time.time() > gone)
    come_back()
    assert await watch.look() == [], "whoever comes first frees nothing"

    host = Host(holders, process_id="worker-1", lease_ms=SHORT)
    held = [host.hold(lease) for lease in (living.lease, run)]
    await host.start()
    found = []

    async def look():
        found.extend(await watch.look())
        return found

    await eventually(look)
    assert [(lost.kind, lost.id) for lost in found] == [("message", dead.lease.id)]
    assert not any(one.lost for one in held)
    assert (await holders.settle(living.lease, DONE, step(living.item.conversation))).word == "settled"
    (again,) = await watcher.claim("backend", "worker-2", SHORT, count=5)
    assert (again.item.message.content, again.attempt) == ("of the dead", 2)
    await host.stop()
    for store, client in ((holders, redis), (watcher, others)):
        await store.close()
        await client.aclose()
