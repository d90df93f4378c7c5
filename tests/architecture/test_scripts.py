"""One Lua file per atomic step: its header tells the truth, and one contract method stands behind it."""

import ast
import re

import pytest

from lattice.redis.scripts import load_scripts
from lattice.run_store import RunStore
from tests.architecture.paths import LATTICE, LUA, TESTS

SCRIPTS = sorted(LUA.glob("*.lua"))


def contract_methods():
    return {name for name in vars(RunStore) if not name.startswith("_")}


def header_and_body(path):
    """Split a script at the end of its opening comment."""
    lines = load_scripts()[path.stem].source.decode().splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:end]), "\n".join(line.split("--", 1)[0] for line in lines[end:])


def numbers(kind, text):
    """The positions of KEYS or ARGV that a text mentions, ranges (``KEYS[2..4]``) spelled out."""
    found = set()
    for first, last in re.findall(rf"\b{kind}\[(\d+)(?:\.\.(\d+))?\]", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_there_are_scripts():
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_named_after_a_method_of_the_contract(path):
    assert path.stem in contract_methods()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_header_names_the_keys_and_arguments_that_are_used(path):
    header, body = header_and_body(path)
    assert header, "a script opens with a comment: purpose, KEYS, ARGV, reply"
    for kind in ("KEYS", "ARGV"):
        used = numbers(kind, body)
        assert numbers(kind, header) >= used, f"{kind} used but not in the header"
        if not re.search(rf"\b{kind}\b(?!\[\d)", body):
            assert numbers(kind, header) == used, f"{kind} in the header but never used"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_header_says_what_comes_back(path):
    header, _ = header_and_body(path)
    assert re.search(r"^--\s*(Reply|Returns?)\b", header, re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_has_its_test_file(path):
    assert (TESTS / "redis" / "lua" / f"test_{path.stem}.py").is_file()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_store_calls_each_script(path):
    sources = "\n".join(file.read_text(encoding="utf-8") for file in (LATTICE / "redis").glob("*.py"))
    assert re.search(rf"""["']{path.stem}["']""", sources)


def test_what_scripts_share_is_shared_by_two_at_least_and_says_what_it_is():
    shared = {path.stem: path.read_text(encoding="utf-8") for path in (LUA / "shared").glob("*.lua")}
    included = [name for path in SCRIPTS for name in re.findall(r"^-- include: (\w+)$", path.read_text(), re.MULTILINE)]
    assert {name for name in shared if included.count(name) > 1} == set(shared) == set(included)
    for name, text in shared.items():
        assert re.match(r"-- \w+\(.*?\):? ", text), f"{name}.lua opens with the functions that it gives"
        assert "-- include:" not in text, f"{name}.lua includes others: one level only"


def test_keys_are_put_together_in_one_module_only():
    """No other Python file spells the key prefix."""
    guilty = []
    for path in sorted(LATTICE.rglob("*.py")):
        if path == LATTICE / "redis" / "keys.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
            if is_text and node.value.startswith("lattice:{"):
                guilty.append(f"{path.relative_to(LATTICE)}:{node.lineno}")
    assert guilty == []


def _has_docstring(node):
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
