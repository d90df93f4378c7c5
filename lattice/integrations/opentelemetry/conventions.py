"""Names of the OpenTelemetry semantic conventions, in the one version that this package speaks.

GenAI (https://opentelemetry.io/docs/specs/semconv/gen-ai/) and messaging; both are still under development there, so
nothing here moves with the installed packages. What the conventions have no name for begins with ``lattice.``.
"""

from typing import Any, Final

from lattice.encoding import compact_json
from lattice.integrations.tracing.facts import plain

__all__ = ["SCHEMA_URL", "as_parts", "instructions_attribute", "messages_attribute"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"

OPERATION: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
ERROR_TYPE: Final = "error.type"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - the name of an attribute

TOKEN_USAGE_METRIC: Final = "gen_ai.client.token.usage"  # noqa: S105 - the name of a metric
DURATION_METRIC: Final = "gen_ai.client.operation.duration"

MESSAGING: Final = "lattice"
"""``messaging.system``: none of the well-known ones."""

MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_OPERATION_NAME: Final = "messaging.operation.name"
MESSAGING_DESTINATION: Final = "messaging.destination.name"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_CONVERSATION: Final = "messaging.message.conversation_id"

BATCH_COUNT: Final = "messaging.batch.message_count"
TRACEPARENT: Final = "traceparent"

TEAM: Final = "lattice.team"
MEMBER: Final = "lattice.member"
MAILBOX: Final = "lattice.mailbox"
RUN_ID: Final = "lattice.run_id"
QUERY_ID: Final = "lattice.query_id"
ATTEMPT: Final = "lattice.attempt"
OUTCOME: Final = "lattice.outcome"
TURN: Final = "lattice.turn"
TURNS: Final = "lattice.turns"
SUBTYPE: Final = "lattice.result.subtype"
PURPOSE: Final = "lattice.purpose"

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The standard variable that switches the capture of message contents on."""


_OPERATION_TYPES = frozenset({"send", "receive", "process", "settle"})


def message_attributes(
    operation: str, destination: str, message_id: str | None, conversation: str | None
) -> dict[str, Any]:
    """Return the attributes of a messaging span; ``operation`` is send, receive, process or settle."""
    assert operation in _OPERATION_TYPES
    attributes = {
        MESSAGING_SYSTEM: MESSAGING,
        MESSAGING_OPERATION_TYPE: operation,
        MESSAGING_OPERATION_NAME: operation,
        MESSAGING_DESTINATION: destination,
        MESSAGING_MESSAGE_ID: message_id,
        MESSAGING_CONVERSATION: conversation,
    }
    return {key: value for key, value in attributes.items() if value}


def queue_of(team: str) -> str:
    """Return the destination of a team's runs."""
    return f"lattice-{team}"


def messages_attribute(messages: Any) -> str:
    """Return messages in the shape of ``gen_ai.input.messages``."""
    shaped = [{"role": message.get("role"), "parts": as_parts(message.get("content"))} for message in plain(messages)]
    return compact_json(shaped)


def instructions_attribute(text: str) -> str:
    """Return a system prompt in the shape of ``gen_ai.system_instructions``."""
    return compact_json(as_parts(text))


def as_parts(content: Any) -> list[dict[str, Any]]:
    """Return content in the parts of the conventions."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [_part(block) for block in content or ()]


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "content": block.get("text")}
    if kind == "thinking":
        return {"type": "reasoning", "content": block.get("thinking")}
    if kind == "tool_use":
        call = {"id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")}
        return {"type": "tool_call", **call}
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}
    return block
