"""LS: the entries of a directory."""

import os

from pydantic import BaseModel, Field

from lattice.tools.builtin.define import builtin_tool, readable
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.workspace import Workspace

__all__ = ["make"]

_MOST_ENTRIES = 2000


class LsInput(BaseModel):
    """Which directory."""

    path: str = Field(default=".", description="The directory, absolute or relative to the workspace.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the LS tool of a workspace."""
    description = "List a directory, one entry per line, hidden ones included; directories end with a slash."
    return builtin_tool("LS", description, LsInput, _ls, workspace, reads_only=True)


def _ls(workspace: Workspace, asked: LsInput, context: ToolContext) -> str:
    path = readable(asked.path, "LS", workspace, context)
    with os.scandir(path) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
    if not names:
        return "(empty directory)"
    more = [f"[... {len(names) - _MOST_ENTRIES} more entries]"] if len(names) > _MOST_ENTRIES else []
    return "\n".join([*names[:_MOST_ENTRIES], *more])
