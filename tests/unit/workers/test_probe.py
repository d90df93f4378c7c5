"""The probe of a container says what the health port says."""

import asyncio
import socket

from workers.health import serve_health
from workers.probe import main


async def probe(*arguments):
    return await asyncio.to_thread(main, list(arguments))


async def test_the_exit_code_is_the_answer(monkeypatch, capsys):
    wrong = None
    async with serve_health(0, alive=lambda: wrong, ready=lambda: "not yet") as port:
        monkeypatch.setenv("LATTICE_HEALTH_PORT", str(port))
        assert await probe() == 0
        assert await probe("/readyz") == 1
        assert "not yet" in capsys.readouterr().out
        wrong = "no claim was answered for 60 s"
        assert await probe("/livez") == 1


async def test_nobody_there_is_unhealthy(monkeypatch, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("LATTICE_HEALTH_PORT", str(free.getsockname()[1]))
        assert await probe() == 1
    assert "nobody answers" in capsys.readouterr().err


async def test_without_a_port_it_says_so(monkeypatch, capsys):
    monkeypatch.delenv("LATTICE_HEALTH_PORT", raising=False)
    assert await probe() == 1
    assert "LATTICE_HEALTH_PORT" in capsys.readouterr().err
