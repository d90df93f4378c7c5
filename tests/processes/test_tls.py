"""A team over an encrypted connection: the commands take a ``rediss://`` URL, and certificates are checked."""

import json
import socket
import subprocess

import pytest
import redis

from tests.processes.commands import Commands, until
from workers.embedded_redis import find_redis_server

pytestmark = [pytest.mark.processes, pytest.mark.redis]


def make_certificate(folder):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl to make a certificate")
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def server(tmp_path):
    """The port of a server that speaks TLS only, and its certificate."""
    certificate, key = make_certificate(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"port": 0, "tls-port": port, "tls-cert-file": certificate, "tls-key-file": key}
    options |= {"tls-ca-cert-file": certificate, "tls-auth-clients": "no", "save": "", "dir": tmp_path}
    words = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    with (tmp_path / "redis.log").open("wb") as log:
        process = subprocess.Popen([find_redis_server(), *words], stdout=log, stderr=log)
    client = redis.Redis(host="localhost", port=port, ssl=True, ssl_ca_certs=str(certificate))

    def answers():
        if process.poll() is not None:
            pytest.skip("this redis-server was built without TLS")
        try:
            return client.ping()
        except redis.ConnectionError:
            return False

    until(answers, "Redis answers")
    client.close()
    yield port, certificate
    process.terminate()
    process.wait(15)


def test_a_team_works_over_tls(server, tmp_path):
    port, certificate = server
    url = f"rediss://localhost:{port}/0?ssl_ca_certs={certificate}"
    env = {"LATTICE_REDIS_URL": url, "LATTICE_APP": "tests.apps.three_members:team"}
    commands = Commands(tmp_path / "here", env, warm=True)
    try:
        commands.start("lattice-coordinator")
        for member in ("alpha", "beta", "gamma"):
            commands.start("lattice-worker", "--member", member)
        outcome = json.loads(commands.run("lattice-submit", "count", "--wait", "--json"))
        assert outcome["status"] == "succeeded"
        assert json.loads(commands.run("lattice", "doctor", "--json"))["ok"] is True
        stranger = commands.start("lattice", "runs", LATTICE_REDIS_URL=f"rediss://localhost:{port}/0")
        stranger.ends(2)
        assert "cannot be reached" in stranger.err
        assert "certificate" in stranger.err.lower()
    finally:
        commands.close()
