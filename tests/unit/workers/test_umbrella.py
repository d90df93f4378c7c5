"""The umbrella command starts fast: it loads a command when it is asked for."""

import subprocess
import sys

HEAVY = ("anthropic", "mcp", "redis", "rq", "opentelemetry", "pydantic", "structlog", "rich")


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)


def test_help_lists_every_command_and_loads_none():
    code = f"""
import sys
from workers.umbrella import COMMANDS, lattice
sys.argv = ["lattice", "--help"]
lattice.main(standalone_mode=False)
print("loaded:", [name for name in {HEAVY} if name in sys.modules])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "loaded: []" in done.stdout
    for name in ("up", "demo", "runs", "show", "inbox", "cancel", "dead"):
        assert f"  {name} " in done.stdout


def test_every_command_can_be_loaded_and_none_loads_a_model_client():
    code = """
import sys
from workers.umbrella import COMMANDS, lattice
for name in COMMANDS:
    assert lattice.get_command(None, name).name == name
print("loaded:", [name for name in ("anthropic", "mcp") if name in sys.modules])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "loaded: []" in done.stdout


def test_an_unknown_command_is_a_usage_error():
    done = python("import sys; sys.argv = ['lattice', 'fly']; from workers.umbrella import main; main()")
    assert done.returncode == 2
    assert "fly" in done.stderr
