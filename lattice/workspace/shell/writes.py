"""Finds what a shell command would write, by walking its syntax tree; nothing is run.

The walk knows redirections, the usual file commands, ``cd``, variables, wrappers such as ``sudo`` and ``env``, nested
``sh -c`` texts, functions, ``find -exec`` and ``xargs``. It does not know what other programs do by themselves: an
interpreter, a compiler or a script that writes elsewhere is not noticed. It is a guard against mistakes, no sandbox.
"""

import functools
import glob
import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lattice.workspace.shell.commands import WRAPPERS, Arguments, parse_arguments, written
from lattice.workspace.shell.words import Values, Words

__all__ = ["ShellWrite", "find_writes"]

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash"}
_HARMLESS = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|zero|full|fd/\d+)")
_DEEPEST = 8
_Cwds = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class ShellWrite:
    """One thing that would be written: ``by`` what, as it is spelled, and where; None if that cannot be known."""

    by: str
    text: str
    path: Path | None


def find_writes(command: str, cwd: Path, env: Mapping[str, str]) -> list[ShellWrite]:
    """Return what ``command`` would write if it ran in ``cwd`` with ``env``.

    A command that cannot be parsed is one write that cannot be known.
    """
    return _Walk(command, frozenset([str(cwd)]), env, 0, {}).run()


@functools.cache
def _parser() -> Any:
    import tree_sitter  # noqa: PLC0415 - only hosts that run shell commands pay for it
    import tree_sitter_bash  # noqa: PLC0415 - see above

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Walk:
    """One pass over one command text; ``cwds`` is where the shell may stand, None if that is unknown."""

    def __init__(
        self, command: str, cwds: _Cwds, env: Mapping[str, str], depth: int, functions: dict[str, Any]
    ) -> None:
        self.command = command
        self.env = env
        self.depth = depth
        self.functions = functions
        self.writes: list[ShellWrite] = []
        self.calling: set[str] = set()
        self.made: set[str] = set()
        self.sure = False
        self.doubtful = False
        self.root = _parser().parse(command.encode("utf-8", "surrogateescape")).root_node
        self.words = Words(self.root, env, cwds)

    @property
    def cwds(self) -> _Cwds:
        return self.words.cwds

    @cwds.setter
    def cwds(self, cwds: _Cwds) -> None:
        self.words.cwds = cwds

    def run(self) -> list[ShellWrite]:
        if self.root.has_error or self.depth > _DEEPEST:
            self.unknown("the shell", self.command)
        else:
            self.walk(self.root)
        return self.writes

    def unknown(self, by: str, text: str) -> None:
        self.writes.append(ShellWrite(by, text, None))

    def walk(self, node: Any) -> None:
        step: Callable[[Any], None] | None = _STEPS.get(node.type)
        if step is not None:
            step(self, node)  # type: ignore[call-arg]
        else:
            self.walk_children(node)

    def walk_children(self, node: Any) -> None:
        children = node.children
        for index, child in enumerate(children):
            if index + 1 < len(children) and children[index + 1].type == "&":
                self.walk_apart(child)
            else:
                self.walk(child)

    def walk_apart(self, node: Any) -> None:
        """Walk what runs in a shell of its own: its ``cd`` stays there."""
        before = self.cwds
        self.walk_children(node) if node.type in _APART else self.walk(node)
        self.cwds = before

    def walk_list(self, node: Any, redirects: Sequence[Any] = ()) -> None:
        """Walk ``left && right`` or ``left || right``; ``redirects`` belong to the right."""
        left, right = node.named_children[0], node.named_children[-1]
        before, sure, doubtful = self.cwds, self.sure, self.doubtful
        both = any(child.type == "&&" for child in node.children)
        self.sure, self.doubtful = sure or both, False
        self.walk(left)
        self.sure = sure
        if not both:
            self.cwds = _union(before, self.cwds)
        self.walk_with_redirects(right, redirects)
        if not both or (self.doubtful and not sure):
            self.cwds = _union(before, self.cwds)
        self.doubtful = self.doubtful or doubtful

    def walk_pipeline(self, node: Any) -> None:
        for child in node.children:
            self.walk_apart(child)

    def walk_branches(self, node: Any) -> None:
        before = self.cwds
        for child in node.children:
            self.walk(child)
            self.cwds = _union(before, self.cwds)

    def walk_loop(self, node: Any) -> None:
        for _ in range(4):
            before = self.cwds
            self.walk_branches(node)
            if self.cwds == before:
                return
        self.cwds = None
        self.walk_branches(node)

    def walk_function(self, node: Any) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        self.functions[_text(name)] = body
        before = self.cwds
        self.walk(body)
        self.cwds = before

    def walk_redirected(self, node: Any) -> None:
        redirects = node.children_by_field_name("redirect")
        rest = [child for child in node.children if child not in redirects]
        if not rest:
            self.walk_with_redirects(None, redirects)
        for child in rest:
            self.walk_with_redirects(child, redirects)

    def walk_with_redirects(self, node: Any, redirects: Sequence[Any]) -> None:
        # The grammar hangs the redirections of `cd a && b > c` on the whole list; the shell gives them to `b`.
        if node is not None and node.type == "list":
            self.walk_list(node, redirects)
            return
        for redirect in redirects:
            self.walk(redirect)
        if node is not None:
            self.walk(node)

    def walk_redirect(self, node: Any) -> None:
        operator = next((child.type for child in node.children if set(child.type) & set("<>")), "")
        destinations = node.children_by_field_name("destination")
        for destination in destinations:
            number = operator in {">&", "<&"} and re.fullmatch(r"\d+-?|-", _text(destination))
            if ">" in operator and not number:
                self.write(operator, self.words.expand(destination), _text(destination))
        self.walk_children(node)

    def walk_command(self, node: Any) -> None:
        self.walk_children(node)
        name = node.child_by_field_name("name")
        if name is None:
            return
        values = self.words.expand(name)
        arguments = [self.words.argument(argument) for argument in node.children_by_field_name("argument")]
        if values is None:
            self.unknown("a command whose name is not known", _text(node))
            return
        for value in values:
            first, *more = value.split() or [""]
            self.run_command(first, [*([word] for word in more), *arguments], _text(node))

    def run_command(self, name: str, arguments: Arguments, text: str) -> None:
        base = Path(name).name
        if base in WRAPPERS:
            self.run_wrapped(base, arguments, text)
        elif name in self.functions:
            self.call_function(name)
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
            if word in {"-C", "--chdir", "-D", "-S", "--split-string"} and base in {"env", "sudo"}:
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
        if name in self.calling:
            self.cwds = None
            return
        self.calling.add(name)
        self.walk(self.functions[name])
        self.calling.discard(name)

    def change_directory(self, base: str, arguments: Arguments) -> None:
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
        self.cwds = new if exists or self.sure else _union(self.cwds, new)

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
            self.writes += _Walk(inner, self.cwds, self.words.inherited, self.depth + 1, dict(self.functions)).run()
        if base == "eval" and any("cd" in inner for inner in texts):
            self.cwds = None

    def run_find(self, arguments: Arguments, text: str) -> None:
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
        """The arguments come from a pipe, so they cannot be known; commands that write none of them may run."""
        rest = list(arguments)
        placeholder: str | None = None
        while rest and rest[0] and rest[0][0].startswith("-"):
            flag = rest.pop(0)
            assert flag is not None
            if flag[0] in {"-n", "-P", "-L", "-d", "-s", "-a", "-E", "-I", "-j"} and rest:
                value = rest.pop(0)
                placeholder = value[0] if flag[0] == "-I" and value else placeholder
            elif flag[0].startswith("-I"):
                placeholder = flag[0][2:]
        if not rest or not rest[0]:
            if rest:
                self.unknown(base, text)
            return
        if placeholder is None:
            inner: Arguments = [*rest[1:], None]
        else:
            inner = [None if a is None or placeholder in a[0] else a for a in rest[1:]]
        before = self.cwds
        self.run_command(rest[0][0], inner, text)
        self.cwds = before

    def write(self, by: str, values: Values, text: str) -> None:
        if values is None:
            self.unknown(by, text)
            return
        for value in values:
            remote = by in {"rsync", "scp"} and re.match(r"[\w.@-]+:", value)
            if value not in {"", "-"} and not remote:
                self.write_path(by, value, text)

    def write_path(self, by: str, value: str, text: str) -> None:
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
                matches = glob.glob(str(path))[:1000]  # noqa: PTH207 - an absolute pattern
                self.writes += [ShellWrite(by, value, Path(match)) for match in matches]


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "surrogateescape"))


def _union(a: _Cwds, b: _Cwds) -> _Cwds:
    return None if a is None or b is None else a | b


_APART = {"subshell", "command_substitution", "process_substitution"}
_STEPS: dict[str, Any] = {
    "list": _Walk.walk_list,
    "pipeline": _Walk.walk_pipeline,
    "subshell": _Walk.walk_apart,
    "command_substitution": _Walk.walk_apart,
    "process_substitution": _Walk.walk_apart,
    "if_statement": _Walk.walk_branches,
    "case_statement": _Walk.walk_branches,
    "while_statement": _Walk.walk_loop,
    "for_statement": _Walk.walk_loop,
    "c_style_for_statement": _Walk.walk_loop,
    "function_definition": _Walk.walk_function,
    "redirected_statement": _Walk.walk_redirected,
    "file_redirect": _Walk.walk_redirect,
    "command": _Walk.walk_command,
}
