import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("server_main.py")
ODD = Path(__file__).with_name("odd_programs.py")


class ServerLog:
    """What a server has written since this was made."""

    def __init__(self, path):
        self.path = path
        self.begin = path.stat().st_size if path.exists() else 0

    def lines(self):
        return self.path.read_bytes()[self.begin :].decode().splitlines() if self.path.exists() else []

    async def shows(self, line):
        async with asyncio.timeout(20):
            while line not in self.lines():
                await asyncio.sleep(0.005)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class HttpServer:
    """The test server behind a URL; ``stop()`` kills it, ``start()`` brings it back on the same port."""

    def __init__(self, log_path, kind="http"):
        self.log_path = log_path
        self.kind = kind
        self.port = free_port()
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), self.kind, str(self.port)],
            stdout=subprocess.PIPE,
            env={**os.environ, "SERVER_LOG": str(self.log_path)},
        )
        assert int(self.process.stdout.readline()) == self.port

    def stop(self):
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def server_log(tmp_path):
    return ServerLog(tmp_path / "server.log")


@pytest.fixture(scope="session")
def running_servers(tmp_path_factory):
    """Servers that many tests share, by kind: a start takes a second."""
    folder = tmp_path_factory.mktemp("servers")
    servers = {}

    def get(kind):
        if kind not in servers:
            servers[kind] = HttpServer(folder / f"{kind}.log", kind)
            servers[kind].start()
        return servers[kind]

    yield get
    for server in servers.values():
        server.stop()


@pytest.fixture(params=["http"])
def http_server(running_servers, request):
    """A server that no test stops; ``http_server.log`` is what it writes during the test."""
    server = running_servers(request.param)
    server.log = ServerLog(server.log_path)
    return server


@pytest.fixture
def own_server(tmp_path):
    """A server that the test may stop and start."""
    server = HttpServer(tmp_path / "own.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def stdio_server(server_log):
    """The ``server`` argument that starts the test server, or another program of that file."""

    def make(kind="stdio"):
        program = SERVER if kind == "stdio" else ODD
        return {"command": sys.executable, "args": [str(program), kind], "env": {"SERVER_LOG": str(server_log.path)}}

    return make


@pytest.fixture
def call():
    """Calls a tool of a list as the loop does."""

    async def run(tools, name, arguments=None, context=None):
        from lattice.tools.tool import ToolContext

        definition = next(definition for definition in tools if definition.name == name)
        return await definition.handler(definition.parse(arguments or {}), context or ToolContext())

    return run
