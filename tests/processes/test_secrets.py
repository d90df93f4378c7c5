"""A key in the environment and a password in a URL stand in no log line, event, trace, report of a failure or output."""

import pytest
import redis

from tests.processes.commands import Commands
from tests.processes.servers import RedisServer

pytestmark = [pytest.mark.processes, pytest.mark.redis]

KEY, PASSWORD = "sk-fake-0123456789abcdef", "hunter2-hunter2"


def test_secrets_stay_inside(tmp_path):
    server = RedisServer(tmp_path / "redis")
    server.start()
    traces = tmp_path / "traces"
    commands = Commands(
        tmp_path / "here",
        {
            "LATTICE_REDIS_URL": f"redis://default:{PASSWORD}@127.0.0.1:{server.port}/0",
            "LATTICE_APP": "tests.apps.leaky:team",
            "LATTICE_TEST_TRACES": str(traces),
            "FAKE_PROVIDER_API_KEY": KEY,
            "LATTICE_LOG_LEVEL": "debug",
        },
    )
    try:
        commands.start("lattice-coordinator")
        commands.start("lattice-worker", "--member", "leaky")
        run_id = commands.run("lattice-submit", "tell").strip()
        commands.run("lattice-submit", "--run", run_id, "--follow")
        commands.run("lattice", "show", run_id)
        commands.run("lattice", "doctor", run_id)
        for command in commands.started[:2]:
            command.process.terminate()
            command.ends()
        told = {command.name: command.out + command.err for command in commands.started}
        client = redis.Redis(port=server.port)
        for key in client.keys(f"*{run_id}:events"):
            told["events"] = str(client.xrange(key))
        told["failures"] = "".join(str(client.hmget(key, "content", "metadata")) for key in client.keys("*message:*"))
        client.close()
        told["traces"] = "".join(path.read_text() for path in traces.rglob("*") if path.is_file())
        assert "I know ***" in told["events"]
        assert "I know ***" in told["traces"]
        assert "the key is ***" in told["lattice-worker"]
        assert "refused for ***" in told["failures"]
        assert {name for name, text in told.items() if KEY in text or PASSWORD in text} == set()
    finally:
        commands.close()
        server.stop()
