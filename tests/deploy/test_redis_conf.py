"""The shipped Redis configuration starts a server that keeps queues over a restart and never evicts."""

from pathlib import Path

import pytest
import redis

from tests.deploy.servers import redis_server

CONF = Path(__file__).resolve().parents[2] / "deploy" / "redis.conf"

pytestmark = pytest.mark.redis


def test_the_configuration_is_accepted_and_means_what_it_says(tmp_path):
    acl = tmp_path / "redis.acl"
    acl.write_text("user default on nopass ~* &* +@all\n")
    here = tmp_path / "redis.conf"
    here.write_text(CONF.read_text().replace("/etc/lattice/redis.acl", str(acl)).replace("/data", str(tmp_path)))
    with redis_server(here, "--bind", "127.0.0.1") as socket:
        client = redis.Redis(unix_socket_path=str(socket), decode_responses=True)
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("timeout") == {"timeout": "0"}
        client.close()


def test_the_configuration_names_the_folders_of_the_container():
    text = CONF.read_text()
    assert "\naclfile /etc/lattice/redis.acl\n" in text
    assert "\ndir /data\n" in text
