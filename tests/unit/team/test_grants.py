import json
import time

import pytest

from lattice import create_agent, create_team_runner, delegate_tool
from lattice.errors import ToolPermissionDeniedError
from lattice.team.grants import authorize_grants
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import handoff, model_of, results, said, spec, team_of


def permissions(*roots, **more):
    return {"workspace_grants": [{"root": str(root), **more} for root in roots]}


def now():
    return time.time() * 1000


async def test_a_grant_reaches_the_member_its_message_and_its_receipt(tmp_path):
    """team:GRT-01 team:GRT-07 team:PRM-02 team:PRM-05 team:GRT-12"""
    member = spec("a", ["ok"])
    root = str(tmp_path / "shared")
    team = team_of([turn(handoff("a", workspaceGrants=[{"root": root, "reason": "report"}])), "done"], {"a": member})
    events = [e async for e in team.query("go", permissions=permissions(tmp_path), stream=False)]
    request = model_of(member).requests[0]
    assert f"- grant 1: {root}\n  access: write\n  reason: report" in said(request)
    assert "Runtime workspace access for this task:" in request.system_prompt
    assert "Read-only tools may inspect any path" in request.system_prompt
    (grant,) = team.mailbox.inbox("squad::a", "all")[0].metadata["workspaceGrants"]
    assert (grant["kind"], grant["root"], grant["access"], grant["reason"]) == ("workspace", root, ["write"], "report")
    assert grant["grantor"]["mailbox"] == "manager"
    assert grant["grantee"]["member"] == "a"
    receipt = json.loads(next(e for e in events if e.type == "user").tool_use_result)
    assert receipt["workspaceGrants"] == [{"root": root, "access": ["write"], "reason": "report"}]


async def test_the_member_may_write_there_and_nowhere_else(tmp_path):
    """team:GRT-08 team:GRT-10"""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    writer = create_agent(
        model="m",
        workspace=str(own),
        model_client=ScriptedModel(
            [
                turn(
                    tool_use("Write", {"file_path": str(shared / "in.txt"), "content": "x"}),
                    tool_use("Write", {"file_path": str(tmp_path / "out.txt"), "content": "x"}),
                ),
                lambda request: results(request)[1],
            ]
        ),
    )
    grant = {"root": str(shared)}
    team = team_of([turn(handoff("a", workspaceGrants=[grant])), said], {"a": writer})
    result = await team.prompt("go", permissions=permissions(tmp_path))
    assert (shared / "in.txt").read_text() == "x"
    assert not (tmp_path / "out.txt").exists()
    assert '"status": "permission_denied"' in result.result


@pytest.mark.parametrize("case", ["outside", "no permissions", "symlink", "parent"])
async def test_what_the_caller_may_not_write_it_may_not_grant(tmp_path, case):
    """team:GRT-02 team:GRT-03 team:GRT-04 team:GRT-11 team:EVT-19 team:W-25"""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(tmp_path, target_is_directory=True)
    root = {"outside": tmp_path / "other", "no permissions": allowed, "symlink": allowed / "link", "parent": tmp_path}[
        case
    ]
    given = {} if case == "no permissions" else {"permissions": permissions(allowed)}
    member = spec("a", ["never"])
    team = team_of(
        [turn(handoff("a", workspaceGrants=[{"root": str(root)}])), lambda request: results(request)[0]], {"a": member}
    )
    result = await team.prompt("go", **given)
    body = json.loads(result.result)
    assert list(body) == ["status", "tool", "requestedPath", "reason", "allowedWriteRoots", "suggestedNextStep"]
    assert (body["status"], body["tool"], body["requestedPath"]) == ("permission_denied", "a", str(root))
    assert model_of(member).calls == 0
    assert team.mailbox.inbox("squad::a", "all") == []


def test_a_grant_never_outlives_the_one_that_it_comes_from(tmp_path):
    """team:W-25 team:GRT-09"""
    parent_end = now() + 60_000
    own = permissions(tmp_path, expires_at=parent_end)
    (short,) = authorize_grants([{"root": str(tmp_path), "expires_at": parent_end - 1}], own, "t")
    (cut,) = authorize_grants([{"root": str(tmp_path), "expires_at": parent_end + 1}], own, "t")
    (open_ended,) = authorize_grants([{"root": str(tmp_path)}], own, "t")
    assert short.expires_at == parent_end - 1
    assert cut.expires_at == open_ended.expires_at == parent_end


def test_expired_grants_count_for_nothing(tmp_path):
    """team:GRT-09 team:W-25"""
    with pytest.raises(ToolPermissionDeniedError):
        authorize_grants([{"root": str(tmp_path)}], permissions(tmp_path, expires_at=now() - 1), "t")
    with pytest.raises(ToolPermissionDeniedError):
        authorize_grants([{"root": str(tmp_path), "expires_at": now() - 1}], permissions(tmp_path), "t")


def test_every_access_must_be_covered(tmp_path):
    """team:W-25 team:GRT-05 team:GRT-06"""
    own = permissions(tmp_path, access=["write"])
    with pytest.raises(ToolPermissionDeniedError):
        authorize_grants([{"root": str(tmp_path), "access": ["execute"]}], own, "t")
    both = permissions(tmp_path, access=["execute", "read", "execute"])
    (grant,) = authorize_grants([{"root": str(tmp_path), "access": ["execute", "read"]}], both, "t")
    assert grant.access == ("read", "execute")


async def test_a_member_does_not_inherit_what_its_caller_may(tmp_path):
    """team:GRT-08"""
    member = spec("a", ["ok"])
    team = team_of([turn(handoff("a")), "done"], {"a": member})
    await team.prompt("go", permissions=permissions(tmp_path))
    assert "workspace access" not in (model_of(member).requests[0].system_prompt or "")
    assert "Workspace access" not in said(model_of(member).requests[0])


async def test_grants_of_a_delegate_tool_go_with_every_task(tmp_path):
    """team:DLG-08"""
    member = spec("a", ["ok"])
    tool = delegate_tool("a", "Work.", member, workspace_grants=[{"root": str(tmp_path), "access": ["read", "write"]}])
    root = spec("root", [tool_use("a", {"task": "x"}), "done"], tools=[tool])
    runner = create_team_runner(root=root)
    await runner.prompt("go", permissions=permissions(tmp_path, access=["read", "write"]))
    assert "access: read, write" in said(model_of(member).requests[0])
