"""Finds what a shell command would write, by walking its syntax tree; nothing is run.

The walk knows redirections, the usual file commands, ``cd``, variables, wrappers such as ``sudo`` and ``env``, nested
``sh -c`` texts, functions, ``find -exec`` and ``xargs``. It does not know what other programs do by themselves: an
interpreter, a compiler or a script that writes elsewhere is not noticed. It is a guard against mistakes, no sandbox.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lattice.workspace.shell.listing import listed_paths, stages_of
from lattice.workspace.shell.runs import Budget, Cwds, Judge, ShellWrite, TooMuchError, union
from lattice.workspace.shell.words import Words

__all__ = ["ShellWrite", "find_writes"]

_DEEPEST = 8
_MOST_STEPS = 3000


def find_writes(command: str, cwd: Path, env: Mapping[str, str]) -> list[ShellWrite]:
    """Return what ``command`` would write if it ran in ``cwd`` with ``env``.

    A command that cannot be parsed is one write that cannot be known.
    """
    walk = _Walk(command, frozenset([str(cwd)]), env, _Nesting(Budget(_MOST_STEPS), 0, {}))
    try:
        return walk.run()
    except (TooMuchError, RecursionError):
        return [*walk.writes, ShellWrite("the shell", command, None)]


@functools.cache
def _language() -> Any:
    import tree_sitter  # noqa: PLC0415 - only hosts that run shell commands pay for it
    import tree_sitter_bash  # noqa: PLC0415 - see above

    return tree_sitter.Language(tree_sitter_bash.language())


def _parse(command: str) -> Any:
    import tree_sitter  # noqa: PLC0415 - see above

    # A parser of its own: commands are judged in threads, several at once.
    return tree_sitter.Parser(_language()).parse(command.encode("utf-8", "surrogateescape")).root_node


class _Nesting(NamedTuple):
    """What a text inside another one shares with it."""

    budget: Budget
    depth: int
    functions: dict[str, Any]


class _Walk(Judge):
    """One pass over one command text; ``cwds`` is where the shell may stand, None if that is unknown."""

    def __init__(self, command: str, cwds: Cwds, env: Mapping[str, str], nesting: "_Nesting") -> None:
        self.command = command
        self.depth = nesting.depth
        self.root = _parse(command)
        super().__init__(Words(self.root, env, cwds), nesting.functions, nesting.budget)

    def run(self) -> list[ShellWrite]:
        if self.root.has_error or self.depth > _DEEPEST:
            self.unknown("the shell", self.command)
        else:
            self.walk(self.root)
        return self.writes

    def read_text(self, text: str) -> None:
        """Judge a text that a shell inside this one runs; it gets what is exported, at most."""
        nesting = _Nesting(self.budget, self.depth + 1, dict(self.functions))
        inner = _Walk(text, self.cwds, self.words.inherited, nesting)
        self.writes += inner.run()

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
            self.cwds = union(before, self.cwds)
        self.walk_with_redirects(right, redirects)
        if not both or (self.doubtful and not sure):
            self.cwds = union(before, self.cwds)
        self.doubtful = self.doubtful or doubtful

    def walk_pipeline(self, node: Any) -> None:
        stages = stages_of(node)
        for index, child in enumerate(node.named_children):
            self.piped = listed_paths(stages[:index], self.words.expand)
            self.walk_apart(child)
        self.piped = None

    def walk_branches(self, node: Any) -> None:
        before = self.cwds
        for child in node.children:
            self.walk(child)
            self.cwds = union(before, self.cwds)

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


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "surrogateescape"))


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
