import asyncio
import gc
import threading
import warnings

from lattice.integrations.anthropic import AnthropicClient
from lattice.integrations.anthropic import pool as pool_module
from lattice.integrations.anthropic.pool import borrow_client
from lattice.testing.server import MessagesApiServer


async def test_clients_of_one_endpoint_share_their_connections(ask):
    async with MessagesApiServer(lambda _body: "ok") as server:
        for _ in range(4):
            await ask(server, client=AnthropicClient("key", server.base_url))
        assert server.connections == 1


async def test_endpoints_differ_by_key_address_and_headers():
    endpoints = [("a", "http://x", ()), ("b", "http://x", ()), ("a", "http://y", ()), ("a", "http://x", (("h", "1"),))]
    clients = set()
    for endpoint in [*endpoints, *endpoints]:
        async with borrow_client(endpoint) as shared:
            clients.add(shared)
    assert len(clients) == 4


async def test_an_idle_client_is_closed_and_made_anew_when_needed(ask, monkeypatch):
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.0)
    async with MessagesApiServer(lambda _body: "ok") as server:
        await ask(server)
        async with asyncio.timeout(10):
            while server.open_connections:
                await asyncio.sleep(0.001)
        await ask(server)
        assert server.connections == 2


async def test_closing_a_client_closes_its_idle_connections(ask):
    async with MessagesApiServer(lambda _body: "ok") as server:
        client = AnthropicClient("key", server.base_url)
        await ask(server, client=client)
        await client.close()
        async with asyncio.timeout(10):
            while server.open_connections:
                await asyncio.sleep(0.001)


def test_the_end_of_a_loop_closes_everything_and_leaves_no_task(ask):
    tasks = []

    async def main(server):
        await ask(server)
        tasks.extend(task for task in asyncio.all_tasks() if task is not asyncio.current_task())

    with MessagesApiServer(lambda _body: "ok") as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            asyncio.run(main(server))
            gc.collect()
    assert tasks == []


def test_loops_in_several_threads_do_not_share_clients(ask):
    failures = []

    def work(server):
        try:
            asyncio.run(ask(server))
        except BaseException as error:
            failures.append(error)

    with MessagesApiServer(lambda _body: "ok") as server:
        threads = [threading.Thread(target=work, args=(server,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert server.connections == 4
    assert failures == []
