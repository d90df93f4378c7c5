"""Rules that answer in place of a model: they call the same tools, and report what the tools really returned."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath

from lattice.testing import ScriptedModel, text, tool_use, turn

MEMBERS = {
    "surveyor": "Survey the folder: count its files and say how it is laid out.",
    "risk_reviewer": "Look for risky code in the folder and name file and line.",
    "test_auditor": "Find out which code of the folder is tested and which is not.",
}
HEADINGS = {"surveyor": "## Survey", "risk_reviewer": "## Risks", "test_auditor": "## Tests"}

CODE = {
    ".py", ".js", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".c", ".h", ".cc", ".cpp", ".cs",
    ".swift", ".scala", ".sh", ".lua",
}  # fmt: skip
CODE_FILES = "*.{" + ",".join(sorted(kind[1:] for kind in CODE)) + "}"
DOORS = ("README.md", "README.rst", "README.txt", "README", "pyproject.toml", "package.json", "Cargo.toml", "go.mod")

RISKS = {
    "code from a string": r"\b(?:eval|exec)\s*\(",
    "a shell command": r"shell\s*=\s*True|\bos\.system\s*\(",
    "unpickling or unsafe YAML": r"\bpickle\.loads?\s*\(|\byaml\.load\s*\(",
    "a secret in the source": r"(?i:password|secret|api_?key|token)\s*[=:]\s*[\"'][^\"']{6,}[\"']",
    "certificates unchecked": r"verify\s*=\s*False|rejectUnauthorized\s*:\s*false",
    "HTML from a string": r"\.innerHTML\s*=|dangerouslySetInnerHTML",
    "swallowed errors": r"except\s*:|except\s+BaseException\b|catch\s*(?:\(\s*\w*\s*\))?\s*\{\s*\}",
    "open work": r"\b(?:TODO|FIXME|XXX)\b",
}
"""From the worst to the least."""

TEST_START = r"^\s*(?:async\s+)?def test_\w+|\b(?:it|test)\s*\(\s*[\"'`]|\bfunc Test\w+\(|#\[test\]|@Test\b"
CHECK = r"\bassert\w*\b|\bexpect\s*\(|\bshould\b|\bt\.(?:Error|Fatal)|\braises\b"


@dataclass(frozen=True)
class Call:
    """A tool call that has been answered."""

    name: str
    input: dict
    result: str
    failed: bool


def scripted(rules):
    """Make a model of ``rules(prompt, calls)``; they see the task and every call answered so far, and keep nothing."""
    return ScriptedModel(lambda request: rules(prompt_of(request.messages), calls_of(request.messages)))


def plain(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or () if block.get("type") == "text")


def prompt_of(messages):
    """The newest message that is a text, not tool results."""
    for message in reversed(messages):
        said = plain(message["content"])
        if message["role"] == "user" and said:
            return said
    return ""


def calls_of(messages):
    asked, answered = {}, []
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                asked[block["id"]] = block
            elif block["type"] == "tool_result" and block["tool_use_id"] in asked:
                use = asked[block["tool_use_id"]]
                failed = bool(block.get("is_error"))
                answered.append(Call(use["name"], use["input"], plain(block["content"]), failed))
    return answered


# --- the lead ---------------------------------------------------------------------------------------------------------


def lead_rules(prompt, calls):
    if not calls:
        task = prompt.strip()
        return turn(
            "I hand the folder to the surveyor, the risk reviewer and the test auditor.",
            *(tool_use(name, {"mode": "handoff", "task": f"{job}\n{task}"}) for name, job in MEMBERS.items()),
        )
    sections = {name: section(prompt, heading) for name, heading in HEADINGS.items()}
    lines = ["# Code review", ""]
    for name, found in sections.items():
        lines += [*(found or [HEADINGS[name], f"The {name} did not report."]), ""]
    return text("\n".join([*lines, "## First", *first_steps(sections)]))


def section(prompt, heading):
    """The lines of a report, from its heading to its closing line."""
    lines = [line.strip() for line in prompt.splitlines()]
    if heading not in lines:
        return None
    found = lines[lines.index(heading) :]
    end = next((at for at, line in enumerate(found) if line.startswith("Summary: ")), len(found) - 1)
    return found[: end + 1]


def first_steps(sections):
    risks = [line[2:] for line in sections["risk_reviewer"] or () if line.startswith("- ") and ":" in line][:3]
    untested = [line[2:] for line in sections["test_auditor"] or () if line.startswith("- ")][:2]
    steps = [f"Look at {risk}" for risk in risks] + [f"Write a test for {name}" for name in untested]
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)] or ["Nothing stands out."]


# --- the surveyor -----------------------------------------------------------------------------------------------------


def surveyor_rules(_prompt, calls):
    if not calls:
        return turn(tool_use("LS", {"path": "."}), tool_use("Glob", {"pattern": "**/*"}))
    top, everything = calls[:2]
    more = [tool_use("Read", {"file_path": name, "limit": 12}) for name in listed(top) if name in DOORS][:3]
    if unlisted(everything):  # too many to be listed at once: count the common kinds one by one
        more += [tool_use("Glob", {"pattern": f"**/*{kind}"}) for kind, _count in kinds_of(everything) if kind][:8]
    if len(calls) == 2 and more:
        return turn(*more)
    return text("\n".join(survey(top, everything, calls[2:])))


def kinds_of(everything):
    return Counter(PurePosixPath(name).suffix for name in listed(everything)).most_common()


def survey(top, everything, rest):
    files, total = listed(everything), counted(everything)
    counts = dict(kinds_of(everything)[:8])
    counts |= {call.input["pattern"].removeprefix("**/*"): counted(call) for call in rest if call.name == "Glob"}
    kinds = ", ".join(f"{kind or 'no suffix'} {count:,}" for kind, count in counts.items())
    homes = Counter(name.split("/", 1)[0] + "/" if "/" in name else "top level" for name in files)
    lines = [
        HEADINGS["surveyor"],
        *failures([top, everything, *rest]),
        f"Files: {total:,}; folders at the top: {sum(name.endswith('/') for name in listed(top))}.",
        f"Kinds: {kinds or 'none'}.",
        *(f"- {home}: {count:,} files" for home, count in homes.most_common(5)),
    ]
    if total > len(files):
        lines.append(f"The folders were counted in the first {len(files):,} files.")
    lines += [f"{call.input['file_path']} says: {opening(call)}" for call in rest if call.name == "Read"]
    code = sum(count for kind, count in counts.items() if kind.lower() in CODE)
    return [*lines, f"Summary: {total:,} files, {code:,} of them code of the kinds above."]


def opening(call):
    said = (line.strip("#=-*[] \t") for line in lines_of(call))
    return next(filter(None, said), "nothing")[:100]


# --- the risk reviewer ------------------------------------------------------------------------------------------------


def reviewer_rules(_prompt, calls):
    if not calls:
        pattern = "|".join(f"(?:{pattern})" for pattern in RISKS.values())
        return turn(tool_use("Grep", {"pattern": pattern, "include": CODE_FILES}))
    found = risky(calls[0])
    if len(calls) == 1 and found:
        return turn(*(look_at(path, number) for path, number, _line, _risk in found[:3]))
    return text("\n".join(risks(calls[0], found, calls[1:])))


def look_at(path, number):
    return tool_use("Read", {"file_path": path, "offset": max(1, number - 1), "limit": 3})


def risky(call):
    """Findings, the worst first and those in tests last: path, line number, line, risk."""
    found = []
    for path, number, line in hits(call):
        risk = next((name for name, pattern in RISKS.items() if re.search(pattern, line)), None)
        if risk is not None:
            found.append((path, number, line, risk))
    order = list(RISKS)
    return sorted(found, key=lambda one: (in_tests(one[0]), order.index(one[3]), one[0], one[1]))


def risks(call, found, seen):
    counts = Counter(risk for *_rest, risk in found)
    files = {path for path, *_rest in found}
    lines = [HEADINGS["risk_reviewer"], *failures([call, *seen])]
    lines.append("Found: " + (", ".join(f"{risk} {counts[risk]}" for risk in RISKS if counts[risk]) or "nothing") + ".")
    lines += [f"- {path}:{number} {risk}: {line.strip()[:100]}" for path, number, line, risk in found[:8]]
    if broken_off(call):
        lines.append("There is more: the search was broken off.")
    return [*lines, f"Summary: {len(found):,} findings in {len(files):,} files; read {len(seen)} places again."]


# --- the test auditor -------------------------------------------------------------------------------------------------


def auditor_rules(_prompt, calls):
    if not calls:
        return turn(
            tool_use("Glob", {"pattern": f"**/{CODE_FILES}"}),
            tool_use("Glob", {"pattern": "**/{test_*,*[._]test.*,*[._]tests.*,*[._]spec.*,__tests__/**}"}),
            tool_use("Grep", {"pattern": TEST_START, "include": CODE_FILES}),
            tool_use("Grep", {"pattern": CHECK, "include": "*{test,Test,spec}*"}),
        )
    return text("\n".join(audit(*calls[:4])))


def audit(everything, named, starts, checks):
    code = listed(everything)
    tests = {name for name in listed(named) if is_test(name)}
    begun = [path for path, _number, _line in hits(starts) if path in tests]
    checked = {path for path, _number, _line in hits(checks)}
    about = {subject(name) for name in tests} | {"__init__"}
    untested = [name for name in code if name not in tests and PurePosixPath(name).stem not in about]
    empty = [] if broken_off(checks) else sorted(set(begun) - checked)
    lines = [
        HEADINGS["test_auditor"],
        *failures([everything, named, starts, checks]),
        f"Test files: {len(tests):,} with {len(begun):,} tests; code files: {counted(everything) - len(tests):,}.",
        f"Code files without a test file of their name: {len(untested):,}.",
        *(f"- {name}" for name in untested[:6]),
    ]
    if empty:
        lines.append(f"Test files that check nothing: {len(empty)}, for instance {empty[0]}.")
    if broken_off(starts):
        lines.append("There are more tests: the search was broken off.")
    if unlisted(everything):
        lines.append(f"Names were compared for the first {len(code):,} code files.")
    return [*lines, f"Summary: {len(begun):,} tests; {len(untested):,} code files have no test of their name."]


def is_test(name):
    path = PurePosixPath(name)
    if path.suffix.lower() not in CODE:
        return False
    stem = path.name.lower()
    return stem.startswith("test_") or bool(re.search(r"[._](?:test|spec)s?\.\w+$", stem)) or "__tests__" in path.parts


def in_tests(name):
    return is_test(name) or any(part.lower() in ("test", "tests") for part in PurePosixPath(name).parts)


def subject(name):
    return re.sub(r"^test_|[._](?:test|spec)s?$", "", PurePosixPath(name).stem, flags=re.IGNORECASE)


# --- reading what the tools say ---------------------------------------------------------------------------------------

NOTE = re.compile(r"\[(?:\.\.\. |stopped after|too large|\d+ directories)|\((?:no file matches|no line matches|empty )")
MORE = re.compile(r"\[\.\.\. (\d+) more ")


def lines_of(call):
    return [] if call.failed else [line for line in call.result.splitlines() if line]


def listed(call):
    """The lines that a tool found, without those in which it says something about them."""
    return [line for line in lines_of(call) if not NOTE.match(line)]


def unlisted(call):
    """How many entries a tool left out, by its own words."""
    return sum(int(found[1]) for found in map(MORE.match, lines_of(call)) if found)


def counted(call):
    return len(listed(call)) + unlisted(call)


def broken_off(call):
    return any(line.startswith("[... ") for line in lines_of(call))


def hits(call):
    for line in listed(call):
        match = re.match(r"(.+?):(\d+):(.*)", line)
        if match:
            yield match[1], int(match[2]), match[3]


def failures(calls):
    return [f"{call.name} failed: {(call.result.splitlines() or [''])[0]}" for call in calls if call.failed]
