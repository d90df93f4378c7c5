"""What the listing commands print: plain tables for people, JSON for programs."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lattice.encoding import pretty_json

__all__ = ["age", "one_line", "print_facts", "print_json", "print_table"]

WIDE = 240
"""Columns where nobody looks at a terminal, so that ids are never cut."""


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(pretty_json(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows below the names of their columns, or what ``empty`` says."""
    rows = list(rows)
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # Only the last column gives way: ids and states are there to be copied.
        last = number == len(columns) - 1
        table.add_column(column, no_wrap=True, overflow="ellipsis" if last else "ignore", min_width=None)
    for row in rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    _console().print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Print names and values, one pair a line; what is None is left out."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if value is not None:
            click.echo(f"{name.ljust(width)}  {_shown(value)}")


def one_line(value: Any, limit: int = 100) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(str(value).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def age(milliseconds: int | None, now: float | None = None) -> str:
    """Say how long ago an instant (epoch milliseconds) was: ``12s``, ``3m``, ``5h``, ``2d``."""
    if not milliseconds:
        return "-"
    seconds = max(0, (time.time() if now is None else now) - milliseconds / 1000)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _shown(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)
