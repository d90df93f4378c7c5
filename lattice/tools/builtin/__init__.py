"""The built-in tools of a workspace: one file each, named as the tool."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from lattice.tools.tool import ToolDefinition
from lattice.workspace.workspace import Workspace, workspace_from_options

__all__ = ["BUILTIN_TOOL_NAMES", "create_agent_workspace_tools", "create_builtin_tools", "workspace_tools"]

BUILTIN_TOOL_NAMES = ("Read", "Write", "Edit", "LS", "Glob", "Grep", "Bash")


def create_builtin_tools(
    *,
    cwd: str | PathLike[str] | None = None,
    allowed_directories: Sequence[str | PathLike[str]] | None = None,
    bash_timeout_ms: int | None = None,
    bash_env: Mapping[str, str] | None = None,
    confine_reads: bool = False,
) -> list[ToolDefinition]:
    """Return Read, Write, Edit, LS, Glob, Grep and Bash for one directory; nothing is created.

    Args:
        cwd: where relative paths start; the process's current directory by default.
        allowed_directories: where Write, Edit and visible shell writes may go; ``cwd`` by default.
        bash_timeout_ms: how long a command may run that names no timeout; 30,000 by default.
        bash_env: variables that commands get besides the harmless ones of this process.
        confine_reads: bind the reading tools to ``cwd``, the write roots and the grants, too.

    Raises:
        OptionError: an option cannot be used.
    """
    options = {
        "cwd": cwd,
        "allowed_directories": allowed_directories,
        "bash_timeout_ms": bash_timeout_ms,
        "bash_env": bash_env,
        "confine_reads": confine_reads,
    }
    return workspace_tools(workspace_from_options(options, Path.cwd()))


create_agent_workspace_tools = create_builtin_tools


def workspace_tools(workspace: Workspace) -> list[ToolDefinition]:
    """Return the built-in tools that work in ``workspace``."""
    from lattice.tools.builtin import bash, edit, glob, grep, ls, read, write  # noqa: PLC0415 - loads pydantic

    modules = (read, write, edit, ls, glob, grep, bash)
    return [module.make(workspace) for module in modules]
