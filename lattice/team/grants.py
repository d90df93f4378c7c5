"""Workspace grants that travel with a task: authorised against the caller's own, never wider or longer than those."""

import time
from collections.abc import Sequence
from typing import Any

from lattice.errors import OptionError, ToolPermissionDeniedError
from lattice.mailbox import TeamMessage
from lattice.workspace.denial import PermissionDenial
from lattice.workspace.grants import WorkspaceGrant, active_grants, normalise_grants
from lattice.workspace.paths import is_within

__all__ = ["authorize_grants", "grant_records", "granted_permissions"]

_FIELDS = ("root", "access", "reason", "expiresAt", "grantedBy", "workItemId")


def authorize_grants(requested: Any, permissions: Any, tool: str) -> list[WorkspaceGrant]:
    """Return the grants that a caller may pass on, cut to the lifetime of those that they come from.

    Raises:
        ToolPermissionDeniedError: one of them is not covered by the caller's own active grants.
        OptionError: something is not a grant.
    """
    wanted = normalise_grants(requested)
    own = active_grants(permissions) if wanted else []
    return [_authorize(grant, own, tool) for grant in wanted]


def _authorize(grant: WorkspaceGrant, own: Sequence[WorkspaceGrant], tool: str) -> WorkspaceGrant:
    expires: list[float] = [] if grant.expires_at is None else [grant.expires_at]
    if expires and expires[0] <= time.time() * 1000:
        raise _denied(grant, own, "write", tool, "the requested grant has expired already", "expired_grant")
    for access in grant.access:
        covering = [parent for parent in own if access in parent.access and is_within(grant.root, [parent.root])]
        if not covering:
            reason = f"{grant.root} is outside the roots that you may delegate; ask for a shared workspace grant first."
            raise _denied(grant, own, access, tool, reason, "grant_not_authorized")
        ends = [parent.expires_at for parent in covering]
        if None not in ends:
            expires.append(max(end for end in ends if end is not None))
    return WorkspaceGrant(grant.root, grant.access, grant.reason, min(expires) if expires else None)


def _denied(
    grant: WorkspaceGrant, own: Sequence[WorkspaceGrant], operation: str, tool: str, reason: str, code: str
) -> ToolPermissionDeniedError:
    roots = tuple(str(parent.root) for parent in own if operation in parent.access)
    return ToolPermissionDeniedError(
        PermissionDenial(
            tool=tool,
            operation=operation,
            requested_path=str(grant.root),
            reason=reason,
            allowed_roots=roots,
            reason_code=code,
        )
    )


def grant_records(
    grants: Sequence[WorkspaceGrant], *, grantor: dict[str, Any], grantee: dict[str, Any], work_item_id: str
) -> list[dict[str, Any]]:
    """Return grants as they stand in the metadata of a delegation."""
    return [
        {
            "kind": "workspace",
            **grant.to_dict(),
            "grantor": grantor,
            "grantee": grantee,
            "grantedBy": str(grantor.get("name") or grantor.get("mailbox") or ""),
            **({"workItemId": work_item_id} if work_item_id else {}),
        }
        for grant in grants
    ]


def granted_permissions(message: TeamMessage) -> dict[str, Any] | None:
    """Return the permissions that a delegation carries; None if it grants nothing."""
    records = (message.metadata or {}).get("workspaceGrants")
    if not isinstance(records, list) or not records:
        return None
    try:
        known = [{key: record[key] for key in _FIELDS if record.get(key) is not None} for record in records]
        return {"workspace_grants": [grant.to_dict() for grant in normalise_grants(known)]}
    except (OptionError, AttributeError):
        return None
