"""The input that a model gives to an agent tool."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["DELEGATION_INPUT", "AgentToolInput", "DelegationInput", "GrantInput"]


class GrantInput(BaseModel):
    """A shared path that a task may write to."""

    model_config = ConfigDict(populate_by_name=True)

    root: str = Field(description="The directory that may be written to.")
    access: list[Literal["write"]] | None = None
    reason: str | None = None
    expires_at: float | None = Field(None, alias="expiresAt", description="Milliseconds since 1970.")


class AgentToolInput(BaseModel):
    """What a model says when it delegates."""

    model_config = ConfigDict(populate_by_name=True)

    mode: Literal["ask", "handoff", "observe"]
    task: str
    expected_output: str | None = Field(None, alias="expectedOutput")
    acceptance_criteria: list[str] | None = Field(None, alias="acceptanceCriteria")
    workspace_grants: list[GrantInput] | None = Field(None, alias="workspaceGrants")


class DelegationInput:
    """Parses and describes ``AgentToolInput``, in a schema without the noise that generated ones have."""

    json_schema: dict[str, Any] = {  # noqa: RUF012 - read only; the schema helper copies nothing that it does not change
        "type": "object",
        "properties": {
            "mode": {
                "type": "string",
                "enum": ["ask", "handoff", "observe"],
                "description": "ask: wait for the answer. handoff: queue the work and get a receipt.",
            },
            "task": {"type": "string", "description": "What is to be done."},
            "expectedOutput": {"type": "string", "description": "What the answer should contain."},
            "acceptanceCriteria": {"type": "array", "items": {"type": "string"}},
            "workspaceGrants": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "root": {"type": "string", "description": "The directory that may be written to."},
                        "access": {"type": "array", "items": {"type": "string", "enum": ["write"]}},
                        "reason": {"type": "string"},
                        "expiresAt": {"type": "number", "description": "Milliseconds since 1970."},
                    },
                    "required": ["root"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["mode", "task"],
        "additionalProperties": False,
    }

    @staticmethod
    def parse(value: Any) -> AgentToolInput:
        """Return the parsed input.

        Raises:
            ValueError: it does not fit.
        """
        try:
            return AgentToolInput.model_validate(value)
        except ValueError as error:
            lines = [line for line in str(error).splitlines() if "For further information visit" not in line]
            raise ValueError("\n".join(lines)) from error


DELEGATION_INPUT = DelegationInput()
