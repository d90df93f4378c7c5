from pathlib import Path

import pytest

from lattice.errors import OptionError
from lattice.workspace.grants import WorkspaceGrant, active_grants, grants_section, normalise_grants, write_roots

NOW = 1_000_000.0


def test_a_grant_is_read_in_either_spelling():
    """agent:GRANT-01 agent:GRANT-02"""
    snake, camel = normalise_grants(
        [
            {"root": "/a", "access": ["execute", "read"], "expires_at": 5, "work_item_id": "w"},
            {"root": "/a", "access": ["execute", "read"], "expiresAt": 5, "workItemId": "w"},
        ]
    )
    assert snake == camel == WorkspaceGrant(Path("/a"), ("read", "execute"), None, 5, None, "w")
    assert normalise_grants(None) == []
    assert normalise_grants([snake]) == [snake]


def test_defaults_of_a_grant():
    """agent:GRANT-02"""
    (grant,) = normalise_grants([{"root": "rel", "access": []}])
    assert grant.root == Path.cwd() / "rel"
    assert grant.access == ("write",)
    assert grant.to_dict() == {"root": str(Path.cwd() / "rel"), "access": ["write"]}


@pytest.mark.parametrize(
    "grants",
    [
        "/a",
        {"root": "/a"},
        [{}],
        [{"root": ""}],
        ["/a"],
        [{"root": "/a", "acess": ["write"]}],
        [{"root": "/a", "access": ["delete"]}],
        [{"root": "/a", "expires_at": "soon"}],
    ],
)
def test_what_is_no_grant_is_refused(grants):
    with pytest.raises(OptionError, match="grant"):
        normalise_grants(grants)


def test_a_grant_ends_when_its_time_has_come():
    """agent:GRANT-02 agent:GRANT-10"""
    permissions = {"workspace_grants": [{"root": "/a", "expires_at": NOW}, {"root": "/b", "expires_at": NOW + 1}]}
    assert [grant.root for grant in active_grants(permissions, NOW)] == [Path("/b")]
    assert active_grants(None) == []


def test_write_roots_are_the_configured_then_the_granted():
    """agent:GRANT-03 agent:GRANT-04"""
    permissions = {
        "workspaceGrants": [
            {"root": "/b"},
            {"root": "/read", "access": ["read"]},
            {"root": "/a", "access": ["write"]},
            {"root": "/old", "expires_at": NOW - 1},
        ]
    }
    assert write_roots([Path("/a")], permissions, NOW) == [Path("/a"), Path("/b")]


def test_the_prompt_lists_what_is_granted():
    """agent:GRANT-09"""
    assert grants_section([]) == ""
    grants = [
        WorkspaceGrant(Path("/a"), reason="shared docs", granted_by="lead", work_item_id="w1"),
        WorkspaceGrant(Path("/b")),
    ]
    text = grants_section(grants)
    assert text.startswith("Runtime workspace access for this task:\n1. /a\n")
    for line in ("access: write", "reason: shared docs", "granted_by: lead", "work_item: w1", "2. /b"):
        assert line in text
    assert "Read-only tools may inspect any path" in text
