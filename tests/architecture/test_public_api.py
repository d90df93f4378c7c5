"""What `lattice` exports is what it says it exports, and all that the documentation promises."""

import types
from typing import Any

import lattice
from tests.architecture.paths import TESTS, data_lines

DOCUMENTED = data_lines(TESTS / "architecture" / "documented_exports.txt")


def test_all_names_in_dunder_all_can_be_imported():
    missing = [name for name in lattice.__all__ if not hasattr(lattice, name)]
    assert missing == []


def test_nothing_public_is_missing_in_dunder_all():
    public = {
        name
        for name, value in vars(lattice).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and value is not Any
    }
    assert public - set(lattice.__all__) == set()


def test_dunder_all_names_each_export_once():
    assert len(lattice.__all__) == len(set(lattice.__all__))


def test_every_documented_export_is_exported():
    assert [name for name in DOCUMENTED if name not in lattice.__all__] == []


def test_dir_shows_the_exports():
    assert set(lattice.__all__) <= set(dir(lattice))
