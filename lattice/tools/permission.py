"""Asks the host whether a tool call may run."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lattice.errors import LatticeError

__all__ = ["PermissionRequest", "ask_permission"]


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What the host is asked: a registered tool, the model's raw input (untrusted), the id of the call."""

    tool_name: str
    input: Any
    tool_use_id: str


async def ask_permission(callback: Callable[..., Any], name: str, raw: Any, tool_use_id: str) -> str | None:
    """Return None if the call may run, else the message of the denial.

    Raises:
        LatticeError: an asynchronous callback came to nothing, which is neither yes nor no.
    """
    answer = callback(PermissionRequest(name, copy.deepcopy(raw), tool_use_id))
    if inspect.isawaitable(answer):
        answer = await answer
        if answer is None:
            raise LatticeError('the permission callback returned None; return {"behavior": "allow"} or "deny"')
    if answer is None or answer is True:
        return None
    behavior = "deny" if answer is False else _field(answer, "behavior")
    if behavior != "deny":
        return None
    message = None if answer is False else _field(answer, "message")
    return str(message) if message else f"Permission to use {name} was denied."


def _field(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, dict) else getattr(answer, name, None)
