"""Glob: the files whose path matches a pattern."""

from pydantic import BaseModel, Field

from lattice.tools.builtin.define import builtin_tool, readable
from lattice.tools.builtin.walk import Found, glob_matcher, walk_files
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.workspace import Workspace

__all__ = ["make"]

_MOST_PATHS = 2000


class GlobInput(BaseModel):
    """Which files, and where."""

    pattern: str = Field(
        description="For example **/*.py or src/**/*.{ts,tsx}; matched against the whole path below path."
    )
    path: str = Field(default=".", description="Where to search, absolute or relative to the workspace.")
    include_ignored: bool = Field(default=False, description="Also list what .gitignore files leave out.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Glob tool of a workspace."""
    description = (
        "Find files by a pattern: * and ? stay within a directory, ** is any number of directories, {a,b} and [a-z]"
        " are choices. Returns paths relative to path, sorted."
    )
    return builtin_tool("Glob", description, GlobInput, _glob, workspace, reads_only=True)


def _glob(workspace: Workspace, asked: GlobInput, context: ToolContext) -> str:
    base = readable(asked.path, "Glob", workspace, context)
    matches = glob_matcher(asked.pattern)
    if base.is_file():
        found = Found([base.name])
    else:
        base.stat()  # a missing directory is told in the system's words
        signal = context.signal
        found = walk_files(base, include_ignored=asked.include_ignored, stopped=lambda: signal.aborted)
    paths = [path for path in found.files if matches(path)]
    lines = paths[:_MOST_PATHS]
    if len(paths) > _MOST_PATHS:
        lines.append(f"[... {len(paths) - _MOST_PATHS} more files match: narrow the pattern]")
    return "\n".join([*(lines or ["(no file matches)"]), *found.notes()])
