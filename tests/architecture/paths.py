"""Where things are in the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATTICE = ROOT / "lattice"
WORKERS = ROOT / "workers"
LUA = LATTICE / "redis" / "lua"
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
BEHAVIOURS = TESTS / "behaviours"


def data_lines(path):
    """The lines of a list file without comments and blank lines."""
    lines = (line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]
