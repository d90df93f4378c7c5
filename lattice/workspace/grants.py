"""Write grants: directories that a host opens to an agent for a while, and the roots that follow from them."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lattice.errors import OptionError

__all__ = ["WorkspaceGrant", "active_grants", "grants_section", "normalise_grants", "write_roots"]

_ACCESS = ("read", "write", "execute")
_FIELDS = {
    "root": "root",
    "access": "access",
    "reason": "reason",
    "expires_at": "expires_at",
    "expiresAt": "expires_at",
    "granted_by": "granted_by",
    "grantedBy": "granted_by",
    "work_item_id": "work_item_id",
    "workItemId": "work_item_id",
}


@dataclass(frozen=True, slots=True)
class WorkspaceGrant:
    """One directory that may be used besides the workspace.

    Only ``write`` is enforced: read-only tools are not bound to grants. ``expires_at`` is in milliseconds since 1970.
    """

    root: Path
    access: tuple[str, ...] = ("write",)
    reason: str | None = None
    expires_at: float | None = None
    granted_by: str | None = None
    work_item_id: str | None = None

    def is_active(self, now_ms: float) -> bool:
        """Whether the grant still holds at ``now_ms``."""
        return self.expires_at is None or self.expires_at > now_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; what is not known is absent."""
        wire: dict[str, Any] = {"root": str(self.root), "access": list(self.access)}
        pairs = (
            ("reason", self.reason),
            ("expiresAt", self.expires_at),
            ("grantedBy", self.granted_by),
            ("workItemId", self.work_item_id),
        )
        wire.update({key: value for key, value in pairs if value is not None})
        return wire


def normalise_grants(grants: Any) -> list[WorkspaceGrant]:
    """Read a list of grants: dicts in either spelling, or ``WorkspaceGrant`` objects; None is an empty list.

    Raises:
        OptionError: something in it is not a grant.
    """
    if grants is None:
        return []
    if isinstance(grants, (str, bytes, dict)) or not isinstance(grants, Iterable):
        raise OptionError(f"workspace_grants must be a list of grants, not {grants!r}")
    return [_normalise(grant) for grant in grants]


def active_grants(permissions: Any, now_ms: float | None = None) -> list[WorkspaceGrant]:
    """Return the grants of a query's ``permissions`` that hold now."""
    if permissions is None:
        return []
    now = time.time() * 1000 if now_ms is None else now_ms
    return [grant for grant in normalise_grants(_grants_of(permissions)) if grant.is_active(now)]


def write_roots(configured: Sequence[Path], permissions: Any = None, now_ms: float | None = None) -> list[Path]:
    """Return every directory that may be written: the configured ones, then those of active grants; no doubles."""
    granted = [grant.root for grant in active_grants(permissions, now_ms) if "write" in grant.access]
    return list(dict.fromkeys([*configured, *granted]))


def grants_section(grants: Sequence[WorkspaceGrant]) -> str:
    """Return what the system prompt says about the grants of this task; empty without any."""
    if not grants:
        return ""
    lines = ["Runtime workspace access for this task:"]
    for number, grant in enumerate(grants, 1):
        lines.append(f"{number}. {grant.root}")
        lines.append(f"   access: {', '.join(grant.access)}")
        for label, value in (
            ("reason", grant.reason),
            ("granted_by", grant.granted_by),
            ("work_item", grant.work_item_id),
        ):
            if value:
                lines.append(f"   {label}: {value}")
    lines.append("Write only in your workspace and in these directories. Read-only tools may inspect any path.")
    return "\n".join(lines)


def _grants_of(permissions: Any) -> Any:
    if isinstance(permissions, dict):
        return permissions.get("workspace_grants", permissions.get("workspaceGrants"))
    return getattr(permissions, "workspace_grants", None)


def _normalise(grant: Any) -> WorkspaceGrant:
    if isinstance(grant, WorkspaceGrant):
        fields: dict[str, Any] = {name: getattr(grant, name) for name in set(_FIELDS.values())}
    elif isinstance(grant, dict):
        fields = {}
        for key, value in grant.items():
            if key not in _FIELDS:
                raise OptionError(f'workspace grant: unknown key "{key}"; known keys are {", ".join(_FIELDS)}')
            fields[_FIELDS[key]] = value
    else:
        raise OptionError(f"a workspace grant must be a dict with a root, not {grant!r}")
    root, expires_at = fields.get("root"), fields.get("expires_at")
    if not isinstance(root, (str, Path)) or not str(root):
        raise OptionError(f"workspace grant: root must be a directory path, not {root!r}")
    if expires_at is not None and (isinstance(expires_at, bool) or not isinstance(expires_at, (int, float))):
        raise OptionError(f"workspace grant: expires_at must be milliseconds since 1970, not {expires_at!r}")
    fields["root"] = Path(root).expanduser().absolute()
    fields["access"] = _normalise_access(fields.get("access"))
    return WorkspaceGrant(**fields)


def _normalise_access(access: Any) -> tuple[str, ...]:
    if not access:
        return ("write",)
    wanted = [access] if isinstance(access, str) else list(access)
    for item in wanted:
        if item not in _ACCESS:
            raise OptionError(f"workspace grant: access must be of {', '.join(_ACCESS)}, not {item!r}")
    return tuple(item for item in _ACCESS if item in wanted)
