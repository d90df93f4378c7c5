"""Edit: replaces a text in a file, and refuses to guess which one is meant."""

from pydantic import BaseModel, Field

from lattice.errors import LatticeError
from lattice.tools.builtin.define import builtin_tool, writable
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.paths import display_path, real_path
from lattice.workspace.workspace import Workspace

__all__ = ["make"]


class EditInput(BaseModel):
    """What is replaced by what."""

    file_path: str = Field(description="Path of the file, absolute or relative to the workspace.")
    old_string: str = Field(description="The text to replace, exactly as it stands in the file.")
    new_string: str = Field(description="The text that takes its place, literally.")
    replace_all: bool = Field(default=False, description="Replace every occurrence; else there must be exactly one.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Edit tool of a workspace."""
    description = (
        "Replace a text in an existing file. old_string must occur exactly once; add the lines around it to make it"
        " unique, or set replace_all."
    )
    return builtin_tool("Edit", description, EditInput, _edit, workspace)


def _edit(workspace: Workspace, asked: EditInput, context: ToolContext) -> str:
    path = writable(asked.file_path, "Edit", workspace, context)
    target = real_path(path)
    try:
        text = target.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise LatticeError(f"{asked.file_path} is not UTF-8 text, so Edit leaves it alone. Use Bash.") from error
    old, new = _match_line_ends(text, asked)
    _check(text, old, asked)
    target.write_bytes(text.replace(old, new, -1 if asked.replace_all else 1).encode("utf-8", "replace"))
    return f"Edited {display_path(path, workspace.cwd)}"


def _match_line_ends(text: str, asked: EditInput) -> tuple[str, str]:
    """Models write LF; in a file with CRLF their text is meant with CRLF."""
    old, new = asked.old_string, asked.new_string
    if old in text or "\r\n" not in text or "\r" in old:
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")


def _check(text: str, old: str, asked: EditInput) -> None:
    if not old:
        if text:
            raise LatticeError("old_string is empty, which matches everywhere. Name the text that new_string replaces.")
        return
    count = text.count(old)
    if count == 0:
        raise LatticeError(f"old_string was not found in {asked.file_path}")
    if count > 1 and not asked.replace_all:
        raise LatticeError(
            f"old_string occurs {count} times in {asked.file_path}. Add the lines around it until it is unique, or set"
            " replace_all."
        )
