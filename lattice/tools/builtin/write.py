"""Write: a whole file, its directories created."""

from pydantic import BaseModel, Field

from lattice.tools.builtin.define import builtin_tool, writable
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.paths import display_path, real_path
from lattice.workspace.workspace import Workspace

__all__ = ["make"]


class WriteInput(BaseModel):
    """What goes where."""

    file_path: str = Field(description="Path of the file, absolute or relative to the workspace.")
    content: str = Field(description="The whole text of the file; what was there before is replaced.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Write tool of a workspace."""
    description = "Write a text file. Directories are created, an existing file is replaced."
    return builtin_tool("Write", description, WriteInput, _write, workspace)


def _write(workspace: Workspace, asked: WriteInput, context: ToolContext) -> str:
    path = writable(asked.file_path, "Write", workspace, context)
    target = real_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(asked.content.encode("utf-8", "replace"))
    return f"Wrote {display_path(path, workspace.cwd)}"
