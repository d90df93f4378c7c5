"""Makes built-in tools; their schemas are worked out once for all agents of a process."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lattice.tools.schema import make_parser, schema_to_json
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.denial import check_inside
from lattice.workspace.grants import active_grants, write_roots
from lattice.workspace.paths import resolve_path
from lattice.workspace.workspace import Workspace

__all__ = ["builtin_tool", "readable", "roots_for_writing", "writable"]


def builtin_tool(
    name: str,
    description: str,
    model: type[BaseModel],
    function: Callable[..., Any],
    workspace: Workspace,
    *,
    reads_only: bool = False,
) -> ToolDefinition:
    """Return the tool whose handler is ``function(workspace, input, context)``.

    Tools that only read may overlap and are simply run again after a crash.
    """
    handler = functools.partial(function, workspace)
    return _template(name, description, model, function, reads_only).with_handler(handler)


def readable(path: str, tool: str, workspace: Workspace, context: ToolContext) -> Path:
    """Return the absolute path to read.

    Raises:
        ToolPermissionDeniedError: reads are confined and it lies outside.
    """
    absolute = resolve_path(path, workspace.cwd)
    if workspace.confine_reads:
        granted = [grant.root for grant in active_grants(context.permissions)]
        roots = dict.fromkeys([workspace.cwd, *workspace.allowed_directories, *granted])
        check_inside(absolute, list(roots), tool=tool, operation="read")
    return absolute


def writable(path: str, tool: str, workspace: Workspace, context: ToolContext) -> Path:
    """Return the absolute path to write.

    Raises:
        ToolPermissionDeniedError: it really lies outside the write roots.
    """
    absolute = resolve_path(path, workspace.cwd)
    check_inside(absolute, roots_for_writing(workspace, context), tool=tool)
    return absolute


def roots_for_writing(workspace: Workspace, context: ToolContext) -> list[Path]:
    """Return the write roots of this call: the workspace's, then those of active grants."""
    return write_roots(workspace.allowed_directories, context.permissions)


@functools.cache
def _template(
    name: str, description: str, model: type[BaseModel], function: Callable[..., Any], reads_only: bool
) -> ToolDefinition:
    """Work out once what all agents of a process share; its handler lacks the workspace."""
    return ToolDefinition(
        name=name,
        description=description,
        input_schema=model,
        json_schema=schema_to_json(model),
        parse=make_parser(model),
        handler=functools.partial(function, None),
        is_concurrency_safe=_yes if reads_only else None,
        on_recovery="rerun" if reads_only else "unknown",
    )


def _yes(_input: Any) -> bool:
    return True
