"""What a shell word can expand to, as far as that can be known without running anything."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lattice.workspace.shell.listing import listed_paths, stages_of

__all__ = ["Values", "Words", "collect_assignments"]

Values = list[str] | None
"""Everything a word may expand to; None if that cannot be known."""

_MOST_VALUES = 200
_NUMBERS = {"?", "#", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID"}
_PLAIN_OUTPUT = {"date", "seq", "whoami", "hostname", "nproc", "uname", "id"}
_ASSIGNING = {"read", "mapfile", "readarray", "getopts", "printf", "let"}
_OPAQUE = {"eval", "source", "."}
_BRACES = re.compile(r"\{([^{}]*)\}")


def collect_assignments(root: Any) -> tuple[dict[str, list[Any]], bool]:
    """Return every node assigned to each variable anywhere (None: something unknown), and whether code is hidden.

    The order of assignments is ignored: a variable may hold any of its values at any time, which is what makes loops
    and branches safe to judge.
    """
    found: dict[str, list[Any]] = {}
    opaque = False
    for node in _descendants(root):
        if node.type == "variable_assignment":
            _collect_assignment(node, found)
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = node.children_by_field_name("value")
            if name is not None:
                found.setdefault(_text(name), []).extend(values or [None])
        elif node.type == "expansion" and any(child.type in {":=", "="} for child in node.children):
            for child in node.named_children[:1]:
                found.setdefault(_text(child), []).append(None)
        elif node.type == "command":
            opaque = _collect_command(node, found) or opaque
        elif node.type == "declaration_command":
            # declare "X=1" assigns just as well, and hides the name.
            opaque = opaque or any(child.type in {"string", "raw_string", "concatenation"} for child in node.children)
    return found, opaque


class Words:
    """Expands the words of one command line; ``cwds`` is where it may stand, None if that is unknown."""

    __slots__ = ("_assigned", "_env", "_opaque", "_visiting", "cwds")

    def __init__(self, root: Any, env: Mapping[str, str], cwds: frozenset[str] | None) -> None:
        self._assigned, self._opaque = collect_assignments(root)
        self._env = env
        self._visiting: set[str] = set()
        self.cwds = cwds

    @property
    def inherited(self) -> dict[str, str]:
        """What a shell started by this one surely gets: the environment but for what is assigned here."""
        if self._opaque:
            return {}
        return {name: value for name, value in self._env.items() if name not in self._assigned}

    def variable(self, name: str) -> Values:
        """Return every value that a variable may have, None if it cannot be known."""
        return self._variable(name)

    def is_assigned(self, name: str) -> bool:
        """Whether the command line itself sets the variable, or may."""
        return self._opaque or name in self._assigned

    def argument(self, node: Any) -> Values:
        """Return everything that an argument may expand to; what is not quoted may also fall into words."""
        values = self.expand(node)
        if values is None or node.type in {"string", "raw_string", "ansi_c_string", "word", "number"}:
            return values
        if "IFS" in self._assigned:
            return None
        return list(dict.fromkeys(part for value in values for part in (value, *value.split())))

    def expand(self, node: Any) -> Values:
        """Return everything that ``node`` may expand to, None if it cannot be known."""
        values = self._expand(node)
        if values is None:
            return None
        expanded: dict[str, None] = {}
        for value in values:
            texts = _with_braces(value)
            if texts is None or len(expanded) > _MOST_VALUES:
                return None
            expanded.update(dict.fromkeys(texts))
        return list(expanded)

    def _expand(self, node: Any) -> Values:
        kind = node.type
        if kind in {"word", "number", "test_operator", "regex", "extglob_pattern", "variable_name"}:
            return self._tilde(_text(node), re.sub(r"\\(.)", r"\1", _text(node).replace("\\\n", "")))
        if kind == "raw_string":
            return [_text(node)[1:-1]]
        if kind == "ansi_c_string":
            return None if "\\" in _text(node) else [_text(node)[2:-1]]
        if kind in {"string", "translated_string"}:
            return self._string(node if kind == "string" else node.named_children[0])
        if kind in {"concatenation", "command_name"}:
            return _product([self._expand(child) for child in node.children])
        if kind in {"brace_expression", "{", "}", ",", "..", "[", "]"}:
            return [_text(node)]
        return self._expansion(node)

    def _expansion(self, node: Any) -> Values:
        kind = node.type
        if kind == "simple_expansion":
            return self._variable(_text(node)[1:])
        if kind == "expansion":
            inner = _text(node)[2:-1]
            if inner.startswith("#"):
                return ["0"]
            return self._variable(inner) if re.fullmatch(r"\w+|[?#$!@*-]", inner) else None
        if kind == "arithmetic_expansion":
            return ["0"]
        if kind == "process_substitution":
            return ["/dev/fd/0"]
        if kind == "command_substitution":
            return self._output(node)
        return None

    def _tilde(self, raw: str, text: str) -> Values:
        if not raw.startswith("~"):
            return [text]
        home = self._variable("HOME")
        if home is None or not (text == "~" or text.startswith("~/")):
            return None
        return [value + text[1:] for value in home]

    def _string(self, node: Any) -> Values:
        source, start = node.text, node.start_byte
        parts: list[Values] = []
        position = start + 1
        for child in node.children[1:-1]:
            parts.append([_unescape(source[position - start : child.start_byte - start])])
            position = child.end_byte
            if child.type == "string_content":
                parts.append([_unescape(child.text)])
            else:
                parts.append(self._expand(child))
        parts.append([_unescape(source[position - start : -1])])
        return _product(parts)

    def _variable(self, name: str) -> Values:
        if self._opaque or name in self._visiting:
            return None
        assigned = self._assigned.get(name)
        if assigned is None:
            return self._given(name)
        values: list[str] = [self._env[name]] if name in self._env else []
        self._visiting.add(name)
        try:
            for node in assigned:
                more = None if node is None else [""] if node == "" else self.expand(node)
                if more is None:
                    return None
                values.extend(more)
        finally:
            self._visiting.discard(name)
        return values

    def _given(self, name: str) -> Values:
        if name in _NUMBERS:
            return ["0"]
        if name == "PWD":
            return None if self.cwds is None else sorted(self.cwds)
        return [self._env[name]] if name in self._env else None

    def _output(self, node: Any) -> Values:
        commands = node.named_children
        if len(commands) != 1:
            return None
        listed = listed_paths(stages_of(commands[0]), self.expand)
        if listed is not None or commands[0].type != "command":
            return listed
        words = [_text(child) for child in commands[0].named_children]
        if words == ["pwd"]:
            return None if self.cwds is None else sorted(self.cwds)
        plain = (
            words[:1]
            and words[0] in _PLAIN_OUTPUT
            and not any("/" in word or ".." in word or "$" in word for word in words)
        )
        return ["0"] if plain and "%D" not in _text(node) else None


def _collect_assignment(node: Any, found: dict[str, list[Any]]) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    key = _text(name).split("[")[0] if name is not None else ""
    if key == "IFS" and node.parent is not None and node.parent.type == "command":
        return  # IFS= read: it holds for that command alone
    appended = any(child.type == "+=" for child in node.children)
    if appended or (name is not None and name.type != "variable_name") or (value is not None and value.type == "array"):
        found.setdefault(key, []).append(None)
    else:
        found.setdefault(key, []).append("" if value is None else value)


def _collect_command(node: Any, found: dict[str, list[Any]]) -> bool:
    """Note what ``read`` and its like assign; returns whether the command runs code that is not in sight."""
    name = node.child_by_field_name("name")
    words = [_text(argument) for argument in node.children_by_field_name("argument")]
    if name is not None:
        words.insert(0, _text(name))
    while words and words[0] in {"builtin", "command"}:
        words.pop(0)
    if words and words[0] in _ASSIGNING:
        for word in words[1:]:
            found.setdefault(word, []).append(None)
    return bool(words) and words[0] in _OPAQUE


def _descendants(node: Any) -> Iterator[Any]:
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(current.children)


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "surrogateescape"))


def _unescape(text: bytes) -> str:
    return re.sub(r'\\([\\"$`\n])', r"\1", text.decode("utf-8", "surrogateescape"))


def _product(parts: list[Values]) -> Values:
    known: list[list[str]] = []
    count = 1
    for part in parts:
        if part is None:
            return None
        count *= len(part)
        known.append(part)
    if count > _MOST_VALUES:
        return None
    return ["".join(choice) for choice in itertools.product(*known)]


def _with_braces(text: str) -> Values:
    """Return the text as a plain shell reads it, and as one with brace expansion does; None if that is too much."""
    found: list[str] = []
    pending = [text]
    while pending:
        current = pending.pop()
        found.append(current)
        match = next((m for m in _BRACES.finditer(current) if "," in m[1] or ".." in m[1]), None)
        if match is not None:
            choices = match[1].split(",") if "," in match[1] else match[1].split("..")[:2]
            pending.extend(current[: match.start()] + choice + current[match.end() :] for choice in choices)
        if len(found) + len(pending) > _MOST_VALUES:
            return None
    return found
