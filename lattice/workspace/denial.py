"""A refused access as data: what the model reads, what the host catches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lattice.encoding import clean_text, pretty_json
from lattice.errors import ToolPermissionDeniedError
from lattice.workspace.paths import is_within

__all__ = ["PermissionDenial", "check_inside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDenial:
    """Why a built-in tool was refused a path."""

    tool: str
    operation: str
    requested_path: str
    reason: str
    allowed_roots: tuple[str, ...]
    reason_code: str = "outside_allowed_roots"
    status: str = "permission_denied"

    @property
    def suggested_next_step(self) -> str:
        """What the model can do instead."""
        if self.allowed_roots:
            return (
                f"Use a path inside an allowed {self.operation} root, or ask the manager to grant access to this one."
            )
        return f"Ask the manager for a grant: there is no allowed {self.operation} root."

    def to_dict(self) -> dict[str, Any]:
        """Return the whole record in wire spelling."""
        return {
            "status": self.status,
            "tool": self.tool,
            "operation": self.operation,
            "requestedPath": self.requested_path,
            "reasonCode": self.reason_code,
            "reason": self.reason,
            "allowedRoots": list(self.allowed_roots),
            "suggestedNextStep": self.suggested_next_step,
        }

    def to_model(self) -> str:
        """Return the JSON that the model reads."""
        roots = "allowedWriteRoots" if self.operation == "write" else "allowedReadRoots"
        body = {
            "status": self.status,
            "tool": self.tool,
            "requestedPath": self.requested_path,
            "reason": self.reason,
            roots: list(self.allowed_roots),
            "suggestedNextStep": self.suggested_next_step,
        }
        return clean_text(pretty_json(body))


def check_inside(path: Path, roots: Sequence[Path], *, tool: str, operation: str = "write") -> None:
    """Refuse a path that really lies outside ``roots``.

    Raises:
        ToolPermissionDeniedError: it does.
    """
    if is_within(path, roots):
        return
    raise ToolPermissionDeniedError(
        PermissionDenial(
            tool=tool,
            operation=operation,
            requested_path=str(path),
            reason=f"Path {path} is outside allowed {operation} roots.",
            allowed_roots=tuple(map(str, roots)),
        )
    )
