"""Which catalogued behaviours the tests prove, which we do differently, and which nobody has covered yet.

``python -m tests.behaviours.citations`` takes the covered ids off ``uncited.txt``; it never adds one.
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UNCITED = HERE / "uncited.txt"
DIFFERENCES = ROOT / "docs" / "differences.md"
CATALOGUES = ("agent", "team")

_CITATION = re.compile(r"\b(?:agent|team):[A-Z]+-\d+[a-z]?\b")
_NOT_EVIDENCE = ("behaviours", "architecture")


def catalogue():
    """Every id of both catalogues, with its prefix, in their order."""
    return [f"{name}:{line}" for name in CATALOGUES for line in (HERE / f"{name}.txt").read_text().split()]


def further():
    """Ids that a test may cite and none has to: weaknesses that lattice does not share, and later additions."""
    return (HERE / "further.txt").read_text().split()


def cited():
    """id -> the test files that cite it."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        place = path.relative_to(ROOT / "tests")
        if place.parts[0] not in _NOT_EVIDENCE:
            for citation in _CITATION.findall(path.read_text(encoding="utf-8")):
                found.setdefault(citation, set()).add(str(place))
    return found


def differences():
    """id -> the reason, from the table of docs/differences.md."""
    rows = [
        line.strip().strip("|").split("|")
        for line in DIFFERENCES.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    return {row[0].strip().strip("`"): row[1].strip() for row in rows if _CITATION.search(row[0])}


def uncited():
    """The ids that are not covered yet."""
    return [line for line in UNCITED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def shrink():
    """Take what is covered by now off the list; returns how many ids left it."""
    covered = set(cited()) | set(differences())
    before = UNCITED.read_text(encoding="utf-8").splitlines()
    after = [line for line in before if line not in covered]
    UNCITED.write_text("\n".join(after) + "\n", encoding="utf-8")
    return len(before) - len(after)


if __name__ == "__main__":
    print(f"{shrink()} ids left the list, {len(uncited())} remain")
