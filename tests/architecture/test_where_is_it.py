"""The "Where is it?" table of ARCHITECTURE.md points at things that exist."""

import ast
import re

import pytest

from tests.architecture.paths import ROOT

_CELL = re.compile(r"`([\w./-]+\.(?:py|lua|toml|md|conf|acl|txt))(?:: ?([\w.]+))?`")


def entries():
    """(file, symbol or '') of every pointer in the table."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.split("## Where is it?", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return sorted({found for row in rows for found in _CELL.findall(row)})


def has_symbol(path, dotted):
    """Whether a Python file defines a function, class, method or constant of that (dotted) name."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for name in dotted.split("."):
        node = next((node for node in body if name in _names(node)), None)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


def _names(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def test_the_table_answers_a_fair_number_of_questions():
    assert len(entries()) >= 25


@pytest.mark.parametrize(("file", "symbol"), entries(), ids=lambda value: value or "-")
def test_what_the_table_names_exists(file, symbol):
    path = ROOT / file
    assert path.is_file(), f"ARCHITECTURE.md names {file}, which does not exist"
    if symbol:
        assert path.suffix == ".py"
        assert has_symbol(path, symbol), f"{file} defines no {symbol}"
