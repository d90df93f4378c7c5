"""Pipelines that print file names: where the names lie can be known although the names cannot."""

from collections.abc import Callable
from typing import Any

__all__ = ["listed_paths", "stages_of"]

Values = list[str] | None
_FILTERS = {"grep", "egrep", "fgrep", "head", "tail", "sort", "uniq"}
_PRINTS_OTHER_TEXT = {"-printf", "-fprintf", "-exec", "-execdir", "-ok", "-okdir", "-ls"}


def stages_of(node: Any) -> list[Any]:
    """Return the commands of a pipeline in order, their redirections left aside."""
    parts = node.named_children if node.type == "pipeline" else [node]
    return [part.child_by_field_name("body") or part if part.type == "redirected_statement" else part for part in parts]


def listed_paths(stages: list[Any], expand: Callable[[Any], Values]) -> Values:
    """Return directories below which every printed name lies; None if other text is printed, or it cannot be known."""
    if not stages or any(stage.type != "command" for stage in stages):
        return None
    names = [_name(stage) for stage in stages]
    if not _FILTERS.issuperset(names[1:]):
        return None
    arguments = [expand(argument) for argument in stages[0].children_by_field_name("argument")]
    words: list[str] = []
    for values in arguments:
        if values is None:
            return None
        words.extend(values)
    starts = _starts(names[0], words)
    if starts is None:
        return None
    return [path for start in starts for path in (start, f"{start}/x")]


def _starts(name: str, words: list[str]) -> Values:
    operands = [word for word in words if not word.startswith("-")]
    if name == "find":
        if _PRINTS_OTHER_TEXT.intersection(words):
            return None
        flags = [index for index, word in enumerate(words) if word[:1] in {"-", "(", "!"}]
        return words[: flags[0] if flags else None] or ["."]
    if name in {"grep", "egrep", "fgrep", "rg"}:
        short = [word for word in words if word.startswith("-") and not word.startswith("--")]
        lists = any("l" in word or "L" in word for word in short) or "--files-with-matches" in words
        # The expression counts as a path as well: that is simpler, and errs on the safe side.
        return [*operands, "."] if lists else None
    if name == "ls":
        return [*operands, "."]
    if name == "git" and words[:1] == ["ls-files"]:
        return [*operands[1:], "."]
    if name == "echo":
        return [part for word in operands for part in word.split()] or ["."]
    return None


def _name(stage: Any) -> str:
    name = stage.child_by_field_name("name")
    return "" if name is None else str(name.text.decode("utf-8", "surrogateescape"))
