"""Skills: instructions that are put before a conversation when a prompt calls for them."""

import asyncio
import os.path
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lattice.agent.checks import check_known
from lattice.errors import OptionError

__all__ = ["SkillDefinition", "load_skill", "matching_skills", "read_skills", "skill", "skills_message"]

_ESCAPES = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})
_WORD = re.compile(r"[^\W_]+")
_SPACELESS = re.compile("[぀-ヿ㐀-鿿가-힯฀-๿]")
_ENGLISH = (
    "a about above after all also an and any are as at be been before being both but by can come could"
    " did do does done each every for from get give given had has have help her here him his how if in"
    " into is it its just like made make many may me more most much must my need new no not now of off on"
    " one only onto or other our out over per put same see set she should so some such than that the their"
    " them then there these they this those through to too two under up upon use used user user's users"
    " uses using very via was way we well were what when where which while who whom whose why will with"
    " within without work works would you your"
)
_COMMON = frozenset(_ENGLISH.split())


@dataclass(frozen=True, slots=True)
class SkillDefinition:
    """A bundle of instructions; ``path`` is the folder that it was loaded from."""

    name: str
    description: str
    instructions: str
    path: str | None = None


def skill(
    definition: Mapping[str, Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    instructions: str | None = None,
    path: str | None = None,
) -> SkillDefinition:
    """Make a skill.

    Raises:
        OptionError: the name, the description or the instructions are missing or blank.
    """
    values = {"name": name, "description": description, "instructions": instructions, "path": path}
    if definition is not None:
        check_known("skill()", definition, values)
        values.update(definition)
    for key, verb in (("name", "is"), ("description", "is"), ("instructions", "are")):
        value = values[key]
        if not isinstance(value, str) or not value.strip():
            raise OptionError(f"Skill {key} {verb} required")
    return SkillDefinition(**values)  # type: ignore[arg-type]


async def load_skill(path: str | Path) -> SkillDefinition:
    """Load a skill from a folder that holds a ``SKILL.md``: front matter with name and description, then instructions.

    Raises:
        OptionError: the description or the instructions are missing.
        OSError: the file cannot be read.
    """
    folder = Path(path)
    source = await asyncio.to_thread((folder / "SKILL.md").read_text, encoding="utf-8")
    head, body = _front_matter(source)
    name = head.get("name") or _base_name(path)
    return skill(name=name, description=head.get("description"), instructions=body.strip(), path=str(path))


def read_skills(value: Any) -> tuple[SkillDefinition, ...]:
    """Return the skills of an option.

    Raises:
        OptionError: an entry is no skill.
    """
    if value is None:
        return ()
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise OptionError(f"AgentOptions.skills must be a list of skills, not {value!r}")
    found = []
    for entry in value:
        if isinstance(entry, Mapping):
            found.append(skill(entry))
        elif isinstance(entry, SkillDefinition):
            found.append(entry)
        else:
            raise OptionError(f"AgentOptions.skills: {entry!r} is not a skill; make one with skill() or load_skill()")
    return tuple(found)


def matching_skills(skills: Iterable[SkillDefinition], prompt: str) -> list[SkillDefinition]:
    """Return the skills whose name or description shares a telling word with the prompt, in their order.

    A word tells something if it has at least three letters and is no everyday word; singular and plural, and a verb and
    its forms, count as the same. Scripts without spaces are compared by pairs of characters.
    """
    said = _telling(prompt)
    return [entry for entry in skills if said & _telling(f"{entry.name} {entry.description}")]


def skills_message(skills: list[SkillDefinition]) -> dict[str, Any] | None:
    """Return the message that carries the instructions of skills; None if there are none."""
    if not skills:
        return None
    parts = []
    for entry in skills:
        name = entry.name.translate(_ESCAPES)
        parts.append(f'<skill name="{name}">\nDescription: {entry.description}\n\n{entry.instructions}\n</skill>')
    intro = "These skills are relevant to the request. Follow their instructions where they apply."
    return {"role": "user", "content": intro + "\n\n\n\n" + "\n\n".join(parts)}


@lru_cache(maxsize=512)
def _telling(text: str) -> frozenset[str]:
    words: set[str] = set()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if _SPACELESS.search(word):
            words.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        elif len(word) >= 3 and word not in _COMMON:
            words.add(_stem(word))
    return frozenset(words)


def _stem(word: str) -> str:
    for ending, kept in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending) + kept
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _base_name(path: str | Path) -> str:
    return os.path.basename(os.path.abspath(path))  # noqa: PTH100, PTH119 - the name is wanted, symlinks unresolved


def _front_matter(source: str) -> tuple[dict[str, str], str]:
    lines = source.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        return {}, "\n".join(lines)
    end = lines.index("---", 1)
    head = {}
    for line in lines[1:end]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, _, value = line.partition(":")
        head[key.strip()] = _unquoted(value.strip())
    return head, "\n".join(lines[end + 1 :])


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value
