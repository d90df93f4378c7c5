"""Where Redis is."""

import pytest

from lattice.errors import OptionError, StoreError
from workers import connections as module
from workers.connections import check_redis, redis_url_of, store_of, store_options
from workers.settings import Settings


def test_a_configured_url_wins(monkeypatch):
    monkeypatch.setattr(module, "running_url", lambda _folder: "unix:///running")
    assert redis_url_of(Settings(redis_url="redis://h:1/0")) == "redis://h:1/0"


def test_else_it_is_the_server_of_this_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(module, "running_url", lambda folder: asked.append(folder) or "unix:///running")
    assert redis_url_of(Settings()) == "unix:///running"
    assert asked == [tmp_path / ".lattice"]


def test_without_either_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError) as refused:
        redis_url_of(Settings())
    for way in ("--redis-url", "LATTICE_REDIS_URL", "lattice up"):
        assert way in refused.value.message


@pytest.mark.parametrize("open_it", [check_redis, None])
async def test_a_server_that_is_not_there(open_it):
    url = "redis://user:hunter2@127.0.0.1:9/0"
    with pytest.raises(StoreError) as refused:
        if open_it is not None:
            await open_it(url)
        else:
            async with store_of(Settings(redis_url=url), "t"):
                pass
    assert "127.0.0.1:9" in refused.value.message
    assert "hunter2" not in refused.value.message


def test_the_limits_of_the_store_are_the_settings():
    options = store_options(Settings(max_attempts=5, retention=60.0, max_message_bytes=10))
    assert (options.max_attempts, options.retention_ms, options.max_message_bytes) == (5, 60_000, 10)
