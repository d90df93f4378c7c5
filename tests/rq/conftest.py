import socket
import subprocess
import time

import pytest
import redis as blocking

from tests.rq.house import House


@pytest.fixture(scope="session")
def rq_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redis-rq")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    client = blocking.Redis(port=port)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            client.ping()
            break
        except blocking.ConnectionError:
            pass
    yield f"redis://127.0.0.1:{port}/0"
    client.close()
    process.terminate()
    process.wait()


@pytest.fixture
def redis_url(rq_server):
    client = blocking.Redis.from_url(rq_server)
    client.flushall()
    client.close()
    return rq_server


@pytest.fixture
async def house(redis_url):
    house = House(redis_url)
    yield house
    await house.close()


@pytest.fixture
def engine(house):
    return house.engine
