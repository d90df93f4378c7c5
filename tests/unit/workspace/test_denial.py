import json
from pathlib import Path

import pytest

from lattice.errors import ToolPermissionDeniedError
from lattice.workspace.denial import check_inside


def test_a_refusal_says_everything(tmp_path):
    """agent:GRANT-06 agent:GRANT-07 agent:GRANT-08 agent:ERR-03"""
    with pytest.raises(ToolPermissionDeniedError) as caught:
        check_inside(Path("/etc/x"), [tmp_path], tool="Write")
    denial = caught.value.denial
    assert caught.value.message == "Path /etc/x is outside allowed write roots."
    assert denial.to_dict() == {
        "status": "permission_denied",
        "tool": "Write",
        "operation": "write",
        "requestedPath": "/etc/x",
        "reasonCode": "outside_allowed_roots",
        "reason": "Path /etc/x is outside allowed write roots.",
        "allowedRoots": [str(tmp_path)],
        "suggestedNextStep": denial.suggested_next_step,
    }
    shown = json.loads(denial.to_model())
    assert list(shown) == ["status", "tool", "requestedPath", "reason", "allowedWriteRoots", "suggestedNextStep"]
    assert "grant" in shown["suggestedNextStep"]


def test_without_any_root_only_a_grant_helps():
    """agent:GRANT-08"""
    with pytest.raises(ToolPermissionDeniedError) as caught:
        check_inside(Path("/etc/x"), [], tool="Write")
    assert caught.value.denial.suggested_next_step.startswith("Ask the manager for a grant")


def test_inside_is_silent(tmp_path):
    check_inside(tmp_path / "a", [Path("/nowhere"), tmp_path], tool="Write")
