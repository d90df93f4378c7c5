"""Judges single commands of a shell text: what they write, what they run, where they go."""

import abc
import glob
import itertools
import os.path
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lattice.workspace.shell.commands import PLAIN_OPTIONS, WRAPPERS, XARGS_VALUES, Arguments, parse_arguments, written
from lattice.workspace.shell.words import Values, Words

__all__ = ["Budget", "Cwds", "Judge", "ShellWrite", "TooMuchError", "union"]

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash"}
_HARMLESS = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|zero|full|fd/\d+)")
Cwds = frozenset[str] | None
"""Where a shell may stand; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class ShellWrite:
    """One thing that would be written: ``by`` what, as it is spelled, and where; None if that cannot be known."""

    by: str
    text: str
    path: Path | None


class TooMuchError(Exception):
    """The text has more steps than anybody would look at."""


class Budget:
    """How many commands are still judged: loops in loops and functions in functions multiply."""

    __slots__ = ("_left",)

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self) -> None:
        """Take one step.

        Raises:
            TooMuchError: none is left.
        """
        self._left -= 1
        if self._left < 0:
            raise TooMuchError


class Judge(abc.ABC):
    """What is known while one shell text is read, and the writes that were found."""

    def __init__(self, words: Words, functions: dict[str, Any], budget: Budget) -> None:
        self.words = words
        self.functions = functions
        self.budget = budget
        self.writes: list[ShellWrite] = []
        self.calling: set[str] = set()
        self.made: set[str] = set()
        self.piped: Values = None
        self.sure = False
        self.doubtful = False

    @property
    def cwds(self) -> Cwds:
        """Where the shell may stand."""
        return self.words.cwds

    @cwds.setter
    def cwds(self, cwds: Cwds) -> None:
        self.words.cwds = cwds

    @abc.abstractmethod
    def walk(self, node: Any) -> None:
        """Read a piece of syntax."""

    @abc.abstractmethod
    def read_text(self, text: str) -> None:
        """Read a text that another shell would run."""

    def unknown(self, by: str, text: str) -> None:
        """Note that something may be written, and nobody can say what."""
        self.writes.append(ShellWrite(by, text, None))

    def run_command(self, name: str, arguments: Arguments, text: str) -> None:
        """Judge one command; ``text`` is how it is spelled."""
        self.budget.spend()
        base = Path(name).name
        if base in WRAPPERS:
            self.run_wrapped(base, arguments, text)
        elif name in self.functions:
            self.call_function(name)
        elif base == "alias":
            self.unknown("alias", text)
        elif base in {"cd", "pushd", "popd"}:
            self.change_directory(base, arguments)
        elif base in _SHELLS or base in {"eval", "trap", "su", "watch"}:
            self.run_text(base, arguments, text)
        elif base == "find":
            self.run_find(arguments, text)
        elif base in {"xargs", "parallel"}:
            self.run_xargs(base, arguments, text)
        else:
            for target in written(base, arguments):
                self.write(base, target, text)

    def run_wrapped(self, base: str, arguments: Arguments, text: str) -> None:
        """Skip a wrapper's own options and operands, and ``NAME=value``; then judge what it runs."""
        own, with_value = WRAPPERS[base]
        rest = list(arguments)
        while rest:
            word = rest[0][0] if rest[0] else None
            if word is None:
                self.unknown(base, text)
                return
            if _is_unclear(base, word, with_value):
                self.unknown(f"{base} {word}", text)
                return
            if word in with_value:
                del rest[:2]
            elif (word.startswith("-") and word != "-") or re.match(r"\w+=", word):
                del rest[:1]
            elif own:
                own -= 1
                del rest[:1]
            else:
                break
        if rest and rest[0]:
            before = self.cwds
            for name in rest[0]:
                self.run_command(name, rest[1:], text)
            if base not in {"command", "builtin", "time"}:
                self.cwds = before

    def call_function(self, name: str) -> None:
        """Read the body of a function where it is called."""
        if name in self.calling:
            self.cwds = None
            return
        self.calling.add(name)
        self.walk(self.functions[name])
        self.calling.discard(name)

    def change_directory(self, base: str, arguments: Arguments) -> None:
        """Follow ``cd``, ``pushd`` and ``popd`` as far as their target is known."""
        operands = parse_arguments(arguments).operands
        target: Values = operands[0] if operands else self.words.variable("HOME")
        hidden = base == "popd" or target == ["-"] or self.words.is_assigned("CDPATH")
        if hidden or target is None or self.cwds is None:
            self.cwds = None
            return
        new = frozenset(str(Path(cwd, value)) for cwd in self.cwds for value in target)
        if len(new) > 50:
            self.cwds = None
            return
        exists = all(os.path.normpath(place) in self.made or Path(place).is_dir() for place in new)
        self.doubtful = self.doubtful or not exists
        self.cwds = new if exists or self.sure else union(self.cwds, new)

    def run_text(self, base: str, arguments: Arguments, text: str) -> None:
        """Judge a command given as text; a script file is an interpreter's business and not looked into."""
        if base in {"eval", "watch"}:
            texts: Values = [""]
            for argument in arguments:
                texts = None if texts is None or argument is None else [f"{a} {b}" for a in texts for b in argument]
        elif base == "trap":
            texts = arguments[0] if arguments else [""]
        else:
            at = next((i for i, a in enumerate(arguments) if a and re.fullmatch(r"-[a-z]*c|--command", a[0])), None)
            if at is None or at + 1 >= len(arguments):
                return
            texts = arguments[at + 1]
        if texts is None:
            self.unknown(base, text)
            return
        for inner in texts:
            self.read_text(inner)
        if base == "eval" and any("cd" in inner for inner in texts):
            self.cwds = None

    def run_find(self, arguments: Arguments, text: str) -> None:
        """Judge what ``find`` deletes, prints into files and runs."""
        starts: Arguments = []
        for argument in arguments:
            if argument is not None and argument[0][:1] in {"-", "(", "!"}:
                break
            starts.append(argument)
        starts = starts or [["."]]
        rest = [argument[0] if argument else "" for argument in arguments]
        for index, word in enumerate(rest):
            if word == "-delete":
                for start in starts:
                    self.write("find -delete", start, text)
            elif word in {"-fprint", "-fprint0", "-fls", "-fprintf"}:
                self.write(f"find {word}", arguments[index + 1] if index + 1 < len(rest) else None, text)
            elif word in {"-exec", "-execdir", "-ok", "-okdir"}:
                ends = [i for i in range(index, len(rest)) if rest[i] in {";", "+"}]
                inner = arguments[index + 1 : ends[0] if ends else len(rest)]
                self.run_found(inner, starts, text)

    def run_found(self, inner: Arguments, starts: Arguments, text: str) -> None:
        """Judge a command that ``find`` runs, once for each place where it starts."""
        for start in starts:
            filled = [
                None if a is None or (start is None and "{}" in a[0]) else [a[0].replace("{}", (start or [""])[0])]
                for a in inner
            ]
            if filled and filled[0]:
                before = self.cwds
                self.run_command(filled[0][0], filled[1:], text)
                self.cwds = before

    def run_xargs(self, base: str, arguments: Arguments, text: str) -> None:
        """Judge a command whose arguments come from a pipe; they are known if the pipe carries file names."""
        rest = list(arguments)
        placeholder: str | None = None
        while rest and rest[0] and rest[0][0].startswith("-"):
            flag = rest.pop(0)
            assert flag is not None
            if flag[0].startswith("--") and "=" not in flag[0] and flag[0] not in PLAIN_OPTIONS | XARGS_VALUES:
                self.unknown(f"{base} {flag[0]}", text)
                return
            if flag[0] in XARGS_VALUES and rest:
                value = rest.pop(0)
                placeholder = value[0] if flag[0] == "-I" and value else placeholder
            elif flag[0].startswith("-I"):
                placeholder = flag[0][2:]
        if not rest or not rest[0]:
            if rest:
                self.unknown(base, text)
            return
        if placeholder is None:
            inner: Arguments = [*rest[1:], self.piped]
        else:
            inner = [self.filled(argument, placeholder) for argument in rest[1:]]
        before = self.cwds
        self.run_command(rest[0][0], inner, text)
        self.cwds = before

    def filled(self, argument: Values, placeholder: str) -> Values:
        """Return an argument with what the pipe carries put in."""
        if argument is None or not any(placeholder in text for text in argument):
            return argument
        if self.piped is None:
            return None
        return [text.replace(placeholder, path) for text in argument for path in self.piped]

    def write(self, by: str, values: Values, text: str) -> None:
        """Note that ``by`` writes one of ``values``."""
        if values is None:
            self.unknown(by, text)
            return
        for value in values:
            remote = by in {"rsync", "scp"} and re.match(r"[\w.@-]+:", value)
            if value not in {"", "-"} and not remote:
                self.write_path(by, value, text)

    def write_path(self, by: str, value: str, text: str) -> None:
        """Note a write to ``value``, wherever the shell may stand."""
        if _HARMLESS.fullmatch(os.path.normpath(value)):
            return
        if self.cwds is None and not Path(value).is_absolute():
            self.unknown(by, text)
            return
        for cwd in self.cwds or {"/"}:
            path = Path(cwd, value)
            self.writes.append(ShellWrite(by, value, path))
            if by == "mkdir":
                self.made.add(os.path.normpath(path))
            if glob.has_magic(value):
                matches = itertools.islice(glob.iglob(str(path)), 1000)  # noqa: PTH207 - an absolute pattern
                self.writes += [ShellWrite(by, value, Path(match)) for match in matches]


def _is_unclear(base: str, word: str, with_value: tuple[str, ...]) -> bool:
    """Whether an option of a wrapper changes where or what it runs, or may take the next word as its value."""
    if base in {"env", "sudo", "doas"} and re.match("-[CDSR]|--(chdir|split-string|chroot)", word):
        return True
    if (base == "flock" and word.startswith(("-c", "--c"))) or (base == "time" and word.startswith(("-o", "--o"))):
        return True
    return word.startswith("--") and "=" not in word and word not in {"--", *with_value, *PLAIN_OPTIONS}


def union(a: Cwds, b: Cwds) -> Cwds:
    """Return both sets of places."""
    return None if a is None or b is None else a | b
