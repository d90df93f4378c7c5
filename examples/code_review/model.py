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
    top, everything = calls[0], calls[1]
    doors = [name for name in listed(top) if name in DOORS]
    if len(calls) == 2 and doors:
        return turn(*(tool_use("Read", {"file_path": name, "offset": 1, "limit": 12}) for name in doors[:3]))
    return text("\n".join(survey(everything, [name for name in listed(top) if name.endswith("/")], calls[2:])))


def survey(everything, folders, read):
    files = listed(everything)
    total = len(files) + unlisted(everything)
    kinds = Counter(PurePosixPath(name).suffix.lower() or "no suffix" for name in files)
    homes = Counter(name.split("/", 1)[0] + "/" if "/" in name else "top level" for name in files)
    common = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common(6)) or "none"
    lines = [
        HEADINGS["surveyor"],
        *failures([everything, *read]),
        f"Files: {total:,}; folders at the top: {len(folders)}.",
        f"Kinds{' (of the files that were listed)' if total > len(files) else ''}: {common}.",
    ]
    lines += [f"- {home}: {count:,} files" for home, count in homes.most_common(5)]
    lines += [f"{call.input['file_path']} says: {opening(call.result)}" for call in read if not call.failed]
    code = sum(count for kind, count in kinds.items() if kind in CODE)
    return [*lines, f"Summary: {total:,} files, {code:,} of them code."]


def opening(content):
    said = next((line.strip("#=-*[] \t") for line in content.splitlines() if line.strip("#=-*[] \t")), "nothing")
    return said[:100]


# --- the risk reviewer ------------------------------------------------------------------------------------------------


def reviewer_rules(_prompt, calls):
    if not calls:
        return turn(tool_use("Grep", {"pattern": "|".join(f"(?:{pattern})" for pattern in RISKS.values())}))
    found = risky(calls[0])
    if len(calls) == 1 and found:
        return turn(*(look_at(path, number) for path, number, _line, _risk in found[:3]))
    return text("\n".join(risks(calls[0], found, calls[1:])))


def look_at(path, number):
    return tool_use("Read", {"file_path": path, "offset": max(1, number - 1), "limit": 3})


def risky(call):
    """Findings in code files, the worst first: path, line number, line, risk."""
    found = []
    for path, number, line in hits(call):
        risk = next((name for name, pattern in RISKS.items() if re.search(pattern, line)), None)
        if risk is not None and PurePosixPath(path).suffix.lower() in CODE:
            found.append((path, number, line, risk))
    order = list(RISKS)
    return sorted(found, key=lambda one: (order.index(one[3]), one[0], one[1]))


def risks(call, found, seen):
    counts = Counter(risk for *_rest, risk in found)
    files = {path for path, *_rest in found}
    lines = [HEADINGS["risk_reviewer"], *failures([call, *seen])]
    lines.append("Found: " + (", ".join(f"{risk} {counts[risk]}" for risk in RISKS if counts[risk]) or "nothing") + ".")
    lines += [f"- {path}:{number} {risk}: {line.strip()[:100]}" for path, number, line, risk in found[:8]]
    if unlisted(call):
        lines.append(f"{unlisted(call):,} more matching lines were not shown.")
    return [*lines, f"Summary: {len(found):,} findings in {len(files):,} files; read {len(seen)} places again."]


# --- the test auditor -------------------------------------------------------------------------------------------------


def auditor_rules(_prompt, calls):
    if not calls:
        return turn(
            tool_use("Glob", {"pattern": "**/*"}),
            tool_use("Grep", {"pattern": TEST_START}),
            tool_use("Grep", {"pattern": CHECK, "include": "**/*test*"}),
        )
    return text("\n".join(audit(*calls[:3])))


def audit(everything, starts, checks):
    code = [name for name in listed(everything) if PurePosixPath(name).suffix.lower() in CODE]
    tests = {name for name in code if is_test(name)}
    begun = [path for path, _number, _line in hits(starts) if path in tests]
    checked = {path for path, _number, _line in hits(checks)}
    about = {subject(name) for name in tests}
    untested = [name for name in code if name not in tests and PurePosixPath(name).stem not in about | {"__init__"}]
    empty = sorted(set(begun) - checked)
    lines = [
        HEADINGS["test_auditor"],
        *failures([everything, starts, checks]),
        f"Test files: {len(tests):,} with {len(begun):,} tests; code files: {len(code) - len(tests):,}.",
        f"Code files without a test file of their name: {len(untested):,}.",
        *(f"- {name}" for name in untested[:6]),
    ]
    if empty:
        lines.append(f"Test files that check nothing: {len(empty)}, for instance {empty[0]}.")
    if any(map(unlisted, (everything, starts))):
        lines.append("The folder is larger than what was listed; the counts are of what was seen.")
    return [*lines, f"Summary: {len(begun):,} tests; {len(untested):,} code files have no test of their name."]


def is_test(name):
    path = PurePosixPath(name)
    stem = path.name.lower()
    return stem.startswith("test_") or bool(re.search(r"[._](?:test|spec)s?\.\w+$", stem)) or "__tests__" in path.parts


def subject(name):
    return re.sub(r"^test_|[._](?:test|spec)s?$", "", PurePosixPath(name).stem, flags=re.IGNORECASE)


# --- reading what the tools say ---------------------------------------------------------------------------------------

NOTE = re.compile(r"^\W*([\d,]+) (?:more|further)\b|\b([\d,]+) (?:more|further) \w+.*not (?:shown|listed)")


def lines_of(call):
    return [] if call.failed else [line for line in call.result.splitlines() if line and line != "(no output)"]


def listed(call):
    return [line for line in lines_of(call) if not NOTE.search(line)]


def unlisted(call):
    """How many entries a tool left out, by its own last line."""
    found = [NOTE.search(line) for line in lines_of(call)[-2:]]
    return sum(int((match[1] or match[2]).replace(",", "")) for match in found if match)


def hits(call):
    for line in listed(call):
        match = re.match(r"(.+?):(\d+):(.*)", line)
        if match:
            yield match[1], int(match[2]), match[3]


def failures(calls):
    return [
        f"{call.name} failed: {call.result.splitlines()[0] if call.result else ''}" for call in calls if call.failed
    ]
