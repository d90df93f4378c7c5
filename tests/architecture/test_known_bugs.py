"""Every reported fault that the project knows of names tests that exist."""

import re

from tests.architecture.paths import ROOT

INDEX = ROOT / "tests/behaviours/known_bugs.txt"
NUMBERS = {1, 2, 4, 5, 7, 9, 11, 12, 14, 16, 17, 19, 20, 21, 23, 25, 27, 29, 30, 31, 33, 34, 36, 39}


def read_index():
    found, name = {}, None
    for line in INDEX.read_text("utf-8").splitlines():
        if line.startswith("  "):
            found[name].append(line.strip())
        elif line and not line.startswith("#"):
            name = line.partition(":")[0]
            found[name] = []
    return found


def test_every_report_has_a_test():
    index = read_index()
    assert {int(name) for name in index if name.isdigit()} == NUMBERS
    assert [name for name, tests in index.items() if not tests] == []


def test_every_test_that_is_named_exists():
    missing = []
    for test in (test for tests in read_index().values() for test in tests):
        path, _, name = test.partition("::")
        file = ROOT / path
        if not file.is_file() or not re.search(rf"^(async )?def {name}\(", file.read_text("utf-8"), re.MULTILINE):
            missing.append(test)
    assert missing == []
