"""The directory that an agent calls its own: found from the options, created as a step of its own."""

import hashlib
import os.path
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lattice.errors import OptionError

__all__ = [
    "DEFAULT_BASH_TIMEOUT_MS",
    "OUTPUT_DIRECTORY",
    "Workspace",
    "resolve_workspace",
    "workspace_from_options",
    "workspace_segment",
]

DEFAULT_BASH_TIMEOUT_MS = 30_000
OUTPUT_DIRECTORY = ".tool-output"
"""Where outputs that are too long for the model are kept, below the workspace."""

_KEYS = {
    "cwd": "cwd",
    "allowed_directories": "allowed_directories",
    "allowedDirectories": "allowed_directories",
    "bash_timeout_ms": "bash_timeout_ms",
    "bashTimeoutMs": "bash_timeout_ms",
    "bash_env": "bash_env",
    "confine_reads": "confine_reads",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where the built-in tools of one agent work.

    ``cwd`` is where relative paths start; ``allowed_directories`` are the write roots; ``bash_timeout_ms`` bounds a
    shell command that names no timeout, in milliseconds; ``bash_env`` is added to its environment. ``confine_reads``
    binds the reading tools to ``cwd``, the write roots and the grants.
    """

    cwd: Path
    allowed_directories: tuple[Path, ...]
    bash_timeout_ms: int = DEFAULT_BASH_TIMEOUT_MS
    bash_env: Mapping[str, str] = field(default_factory=dict)
    confine_reads: bool = False

    def create(self) -> None:
        """Create the directory and its parents.

        Raises:
            OptionError: it cannot be created.
        """
        try:
            self.cwd.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"workspace: cannot create {self.cwd}: {error}", cause=error) from error

    @property
    def output_dir(self) -> Path:
        """Where outputs that are too long for the model are kept."""
        return self.cwd / OUTPUT_DIRECTORY

    def prompt_section(self) -> str:
        """Return what the system prompt says about the workspace."""
        return "\n".join(
            (
                "Workspace:",
                f"Your private workspace is: {self.cwd}",
                "Use the workspace tools for files that should last: code, reports, logs, test evidence.",
                "Keep changes inside your workspace unless another tool that you were given allows otherwise.",
                "Reply in natural language with the important workspace paths and how you verified the work.",
                "Do not hand structured artifact reference objects to other agents in place of such a reply.",
            )
        )


def resolve_workspace(
    option: Any = None, *, name: str | None = None, session_id: str, spawned: bool = False, home: Path | None = None
) -> Workspace | None:
    """Read the ``workspace`` option; nothing is created yet.

    Args:
        option: None or True for the default directory, False for none at all, a path, or a dict with ``cwd``,
            ``allowed_directories``, ``bash_timeout_ms``, ``bash_env`` and ``confine_reads``.
        name: the agent's name; blank counts as none.
        session_id: the agent's session, for agents without a name.
        spawned: the agent is one of many of its name, so the default directory carries the session too.
        home: where ``.agent/workspaces`` lies; the user's home by default.

    Raises:
        OptionError: the option cannot be used.
    """
    if option is False:
        return None
    default = (home or Path.home()) / ".agent" / "workspaces" / workspace_segment(name, session_id, spawned=spawned)
    if option is None or option is True or option == "":
        return Workspace(cwd=default, allowed_directories=(default,))
    if isinstance(option, Workspace):
        return option
    if isinstance(option, (str, Path)):
        cwd = _absolute(option, Path.cwd(), "workspace")
        return Workspace(cwd=cwd, allowed_directories=(cwd,))
    if isinstance(option, Mapping):
        return workspace_from_options(_known(option), default)
    raise OptionError(f"AgentOptions.workspace must be a path, a dict or False, not {option!r}")


def workspace_from_options(options: Mapping[str, Any], default: Path) -> Workspace:
    """Make a workspace of checked keys; ``default`` is its directory if ``cwd`` is not given.

    Raises:
        OptionError: a value cannot be used.
    """
    given = options.get("cwd")
    cwd = default if given is None or given == "" else _absolute(given, Path.cwd(), "workspace.cwd")
    allowed = options.get("allowed_directories") or ()
    if isinstance(allowed, (str, Path)):
        raise OptionError(f"workspace.allowed_directories must be a list of paths, not {allowed!r}")
    roots = tuple(_absolute(entry, cwd, "workspace.allowed_directories") for entry in allowed) or (cwd,)
    return Workspace(
        cwd=cwd,
        allowed_directories=roots,
        bash_timeout_ms=_timeout(options.get("bash_timeout_ms")),
        bash_env=_env(options.get("bash_env")),
        confine_reads=bool(options.get("confine_reads")),
    )


def workspace_segment(name: str | None, session_id: str, *, spawned: bool = False) -> str:
    """Return the directory name of an agent: one path segment, the same for the same name.

    Letters and digits of any script are kept. A name that has none, or is very long, gets a hash, so that two such
    names never share a directory.
    """
    if name is None or not name.strip():
        return f"agent-{session_id}"
    normal = unicodedata.normalize("NFC", name)
    segment = re.sub(r"_+", "_", re.sub(r"[^\w.-]", "_", normal))
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    if not any(character.isalnum() for character in segment):
        segment = f"agent-{digest}"
    elif len(segment.encode()) > 120:
        segment = f"{segment[:30]}-{digest}"
    return f"{segment}-{session_id}" if spawned else segment


def _known(option: Mapping[str, Any]) -> dict[str, Any]:
    known = {}
    for key, value in option.items():
        if key not in _KEYS:
            raise OptionError(f'workspace: unknown option "{key}"; known options are {", ".join(_KEYS)}')
        known[_KEYS[key]] = value
    return known


def _absolute(path: Any, base: Path, label: str) -> Path:
    if not isinstance(path, (str, Path)) or not str(path) or "\0" in str(path):
        raise OptionError(f"{label} must be a path, not {path!r}")
    return Path(os.path.normpath(base / Path(path).expanduser()))


def _timeout(value: Any) -> int:
    if value is None or value == 0:
        return DEFAULT_BASH_TIMEOUT_MS
    if type(value) is not int or value < 0:
        raise OptionError(f"workspace.bash_timeout_ms must be a positive integer of milliseconds, not {value!r}")
    return value


def _env(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    ):
        raise OptionError("workspace.bash_env must be a dict of texts")
    return dict(value)
