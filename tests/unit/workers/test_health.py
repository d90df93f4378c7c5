"""Health checks say whether work is done."""

import asyncio
import json

import pytest

from lattice.errors import OptionError
from workers.health import serve_health


async def get(port, path, method="GET"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


async def test_alive_and_ready_are_asked_each_time():
    wrong = None
    async with serve_health(0, alive=lambda: None, ready=lambda: wrong) as port:
        assert await get(port, "/livez") == (200, {"status": "ok"})
        assert await get(port, "/readyz") == (200, {"status": "ok"})
        wrong = "nothing was claimed for 60 s"
        assert await get(port, "/readyz?probe=1") == (503, {"status": "unavailable", "reason": wrong})
        assert (await get(port, "/other"))[0] == 404
        assert (await get(port, "/livez", "POST"))[0] == 404


async def test_a_port_that_is_taken_is_named():
    async with serve_health(0, alive=lambda: None, ready=lambda: None) as port:
        with pytest.raises(OptionError, match=f"port {port}"):
            async with serve_health(port, alive=lambda: None, ready=lambda: None):
                pass


async def test_without_a_port_nothing_is_served():
    async with serve_health(None, alive=lambda: None, ready=lambda: None) as port:
        assert port is None


async def test_somebody_who_says_nothing_does_no_harm():
    async with serve_health(0, alive=lambda: None, ready=lambda: None) as port:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        assert (await get(port, "/livez"))[0] == 200
