"""All scripts: self-contained, loadable, alike where they share text."""

import hashlib
import re

from lattice.redis.scripts import load_scripts


def shared_blocks():
    for script in load_scripts().values():
        for name, body in re.findall(
            r"^-- shared: (\w+)\n(.*?)^-- end shared$", script.source.decode(), re.DOTALL | re.MULTILINE
        ):
            yield script.name, name, body


def test_what_scripts_share_is_the_same_text_in_each():
    texts = {}
    for script, name, body in shared_blocks():
        texts.setdefault(name, {}).setdefault(body, []).append(script)
    assert len(texts) >= 8
    for name, variants in texts.items():
        assert len(variants) == 1, f"block {name!r} differs between {list(variants.values())}"
        assert len(next(iter(variants.values()))) > 1, f"block {name!r} is shared by nobody"


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
