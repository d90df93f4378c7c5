"""All scripts: composed, self-contained, loadable."""

import hashlib
import re

from lattice.redis.scripts import load_scripts


def test_what_a_script_includes_is_in_its_text():
    settle = load_scripts()["settle"].source.decode()
    names = re.findall(r"^-- include: (\w+)$", settle, re.MULTILINE)
    assert {"clock", "fence", "close"} <= set(names)
    for function in ("clock", "fence", "close"):
        assert settle.count(f"local function {function}(") == 1
    assert "shared" not in load_scripts()


def test_a_script_is_known_by_the_digest_of_its_text():
    for script in load_scripts().values():
        assert script.sha.decode() == hashlib.sha1(script.source).hexdigest()


async def test_the_server_compiles_every_script(redis_client):
    for script in load_scripts().values():
        assert (await redis_client.script_load(script.source)).encode() == script.sha


def test_a_script_binds_its_keys_and_arguments_before_its_first_command():
    for script in load_scripts().values():
        lines = script.source.decode().splitlines()
        body = [line for line in lines if not line.startswith("--")]
        start = next(number for number, line in enumerate(body) if "redis." in line)
        assert not any(re.search(r"\bKEYS\[|\bARGV\[\d", line) for line in body[start:]), script.name


def test_a_script_stays_readable():
    for script in load_scripts().values():
        assert max(map(len, script.source.decode().splitlines())) <= 120, script.name
