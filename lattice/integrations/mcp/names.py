"""Names of MCP tools as a model provider takes them: cleaned, short enough, never two alike."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["model_names"]

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"_+")
_DIGEST_LENGTH = 8


def model_names(originals: Iterable[str], *, prefix: str | None = None, limit: int = 64) -> dict[str, str]:
    """Return original name -> name for the model, for all tools of one server.

    A name does not depend on the order of the tools. A name that is too long, or that another tool would get as well,
    ends in a digest of the original; a tool whose name needed no cleaning keeps it.
    """
    front = "" if prefix is None else f"{_clean(prefix)}_"
    cleaned = {original: f"{front}{_clean(original)}" for original in dict.fromkeys(originals)}
    taken = Counter(cleaned.values())
    unchanged = {name for original, name in cleaned.items() if name == f"{front}{original}"}
    names = {}
    for original, name in cleaned.items():
        rival = taken[name] > 1 and not (name in unchanged and name == f"{front}{original}")
        names[original] = _with_digest(name, original, limit) if rival or len(name) > limit else name
    return names


def _clean(name: str) -> str:
    return _UNDERSCORES.sub("_", _FORBIDDEN.sub("_", name)) or "mcp_tool"


def _with_digest(name: str, original: str, limit: int) -> str:
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: limit - _DIGEST_LENGTH - 1]}_{digest}"
