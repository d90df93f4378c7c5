"""What a tool asks of a team runtime when it delegates, and what it gets back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lattice.errors import LatticeError, OptionError
from lattice.mailbox import TeamMessage
from lattice.team.failures import AgentRuntimeFailure
from lattice.tools.tool import UNSET

__all__ = ["DelegateRequest", "DelegateResult", "never_ends"]

_CAMEL = {
    "targetMailboxId": "target_mailbox_id",
    "workspaceGrants": "workspace_grants",
    "toolUseId": "tool_use_id",
    "timeoutMs": "timeout_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateRequest:
    """Work for another agent.

    ``name`` is the tool's name, ``agent`` the target behind it. ``wait`` is ``"result"`` (an ask) or ``"accepted"`` (a
    handoff). ``tool_use_id`` makes the request the same one when the call is repeated after a crash. ``timeout_ms`` is
    how long an answer is waited for.
    """

    name: str
    agent: Any
    task: str
    description: str | None = None
    wait: str = "result"
    target_mailbox_id: str | None = None
    workspace_grants: Any = None
    tool_use_id: str = ""
    timeout_ms: int | None = None

    @classmethod
    def read(cls, request: "DelegateRequest | Mapping[str, Any]") -> "DelegateRequest":
        """Take a request, or a dict in either spelling.

        Raises:
            OptionError: a key is unknown or missing, or a value cannot be used.
        """
        if isinstance(request, cls):
            return request
        if not isinstance(request, Mapping):
            raise OptionError(f"delegate: the request must be a dict, not {request!r:.200}")
        known = {entry.name for entry in fields(cls)}
        values = {_CAMEL.get(key, key): value for key, value in request.items()}
        unknown = sorted(set(values) - known)
        if unknown or not {"name", "agent", "task"} <= set(values):
            raise OptionError(f"delegate: name, agent and task are required; unknown: {unknown}")
        if not isinstance(values["task"], str):
            raise OptionError("delegate: task must be a text")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateResult:
    """What became of a request: ``status`` is completed, accepted or failed.

    ``content`` is the text for the caller's model, ``request`` and ``reply`` the messages, ``error`` why it failed.
    """

    status: str
    content: str
    request: TeamMessage
    reply: TeamMessage | None = None
    error: AgentRuntimeFailure | None = None
    structured_result: Any = UNSET
    workspace_grants: list[dict[str, Any]] = field(default_factory=list)


def never_ends(name: str) -> LatticeError:
    """Return the error of work for somebody who waits for whoever would wait for it."""
    return LatticeError(
        f"{name} is waiting for this very work: asking it here would never end. Answer with what you have, or ask"
        " somebody else."
    )
