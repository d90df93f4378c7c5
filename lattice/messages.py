"""The words of a model conversation: messages, content blocks, usage; all plain dicts in wire form."""

import uuid
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from lattice.encoding import clean_text

__all__ = [
    "AssistantModelMessage",
    "ContentBlock",
    "MalformedMessageError",
    "Message",
    "OutputFormat",
    "ReasoningEffort",
    "StopReason",
    "ThinkingConfig",
    "TokenUsage",
    "UserMessage",
    "add_usage",
    "copy_json",
    "input_tokens",
    "open_tool_uses",
    "read_assistant",
    "read_message",
    "read_prompt",
    "repaired",
    "results_of",
    "text_of",
    "tool_uses",
]

ContentBlock: TypeAlias = dict[str, Any]
"""One block of type text, image, document, tool_use, tool_result, thinking, redacted_thinking, or a provider's own."""

Message: TypeAlias = dict[str, Any]
"""One message of a conversation, a user's or an assistant's."""

StopReason: TypeAlias = str
"""end_turn, max_tokens, stop_sequence, tool_use, pause_turn, refusal, model_context_window_exceeded, or another."""

ReasoningEffort: TypeAlias = Literal["low", "high", "max"]


class TokenUsage(TypedDict):
    """Tokens of one response or of several; the cache fields only where they are not zero."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: NotRequired[int]
    cache_creation_input_tokens: NotRequired[int]


class UserMessage(TypedDict):
    """What a user or a batch of tools said."""

    role: Literal["user"]
    content: str | list[ContentBlock]


class AssistantModelMessage(TypedDict):
    """One response of a model, as a ``ModelClient`` returns it."""

    role: Literal["assistant"]
    content: list[ContentBlock]
    usage: NotRequired[TokenUsage]
    stopReason: NotRequired[StopReason]
    providerResponseId: NotRequired[str]
    model: NotRequired[str]


class ThinkingConfig(TypedDict):
    """How much a model thinks: ``adaptive``, ``enabled`` with a budget in tokens, or ``disabled``."""

    type: Literal["adaptive", "enabled", "disabled"]
    budget_tokens: NotRequired[int]


OutputFormat: TypeAlias = str | dict[str, Any]
"""``"json"``, or ``{"type": "json_schema", "schema": {...}}``."""

NO_CONTENT = "(no content)"
"""Stands where a model said nothing: providers refuse empty messages, and for ever once one is stored."""

LOST_RESULT = (
    "The result of this call was lost: the work stopped before it was recorded. Its outcome is unknown;"
    " check whether it took effect before you repeat it."
)

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_EXTRAS = {
    "stopReason": ("stopReason", "stop_reason"),
    "providerResponseId": ("providerResponseId", "provider_response_id"),
    "model": ("model",),
}
_VERBATIM = frozenset({"thinking", "redacted_thinking"})


class MalformedMessageError(ValueError):
    """A message is not one: its role, its content or a block of it is wrong."""


def copy_json(value: Any) -> Any:
    """Copy dicts and lists all the way down; every other value is shared."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def _clean_copy(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else clean_text(value)
    if isinstance(value, dict):
        if value.get("type") in _VERBATIM:
            return copy_json(value)  # signed by the provider: not a byte may change
        return {_clean_copy(key): _clean_copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean_copy(item) for item in value]
    return value


def text_of(content: Any) -> str:
    """Return a text as it is, or the text blocks of a list joined without a separator."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(block["text"] for block in content if block.get("type") == "text")


def tool_uses(message: Message) -> list[ContentBlock]:
    """Return the tool calls of a message, in order."""
    content = message["content"]
    if isinstance(content, str):
        return []
    return [block for block in content if block.get("type") == "tool_use"]


def results_of(message: Message) -> list[ContentBlock]:
    """Return the tool results of a message, in order."""
    content = message["content"]
    if isinstance(content, str):
        return []
    return [block for block in content if block.get("type") == "tool_result"]


def input_tokens(usage: Any) -> int:
    """Return all input tokens of a usage, cached ones included; providers report those apart."""
    if not usage:
        return 0
    total: int = (
        (usage.get("input_tokens") or 0)
        + (usage.get("cache_read_input_tokens") or 0)
        + (usage.get("cache_creation_input_tokens") or 0)
    )
    return total


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add the tokens of a response to a running total; cache fields appear once they are above zero."""
    if not usage:
        return
    for name in _USAGE:
        count = usage.get(name)
        if count:
            total[name] = total.get(name, 0) + count


def read_prompt(prompt: Any) -> str | list[ContentBlock]:
    """Return the content of a user message for a prompt, cleaned and copied.

    Raises:
        MalformedMessageError: it is neither a non-empty text nor a non-empty list of content blocks.
    """
    if isinstance(prompt, str):
        if not prompt.strip():
            raise MalformedMessageError(f"a prompt must say something, not {prompt!r}")
        return clean_text(prompt)
    if not isinstance(prompt, (list, tuple)) or not prompt:
        raise MalformedMessageError(f"a prompt must be a text or a list of content blocks, not {prompt!r:.200}")
    for block in prompt:
        _check_block(block)
    return [_clean_copy(block) for block in prompt]


def read_message(message: Any) -> Message:
    """Return a stored message, cleaned and copied.

    Raises:
        MalformedMessageError: its role is neither user nor assistant, or its content is no content.
    """
    if not isinstance(message, dict) or message.get("role") not in {"user", "assistant"}:
        raise MalformedMessageError(f"a message must be a dict with the role user or assistant, not {message!r:.200}")
    content = message.get("content")
    if not isinstance(content, (str, list, tuple)):
        raise MalformedMessageError(f"the content of a message must be a text or a list, not {content!r:.200}")
    if not isinstance(content, str):
        for block in content:
            _check_block(block)
    cleaned: Message = _clean_copy(message)
    return cleaned


def read_assistant(reply: Any) -> AssistantModelMessage:
    """Return what a model client answered as a message of ours: cleaned, copied, never empty.

    Raises:
        MalformedMessageError: it is no assistant message.
    """
    if not isinstance(reply, dict):
        convert = getattr(reply, "to_dict", None) or getattr(reply, "model_dump", None)
        reply = convert() if callable(convert) else reply
    if not isinstance(reply, dict) or reply.get("role", "assistant") != "assistant":
        raise MalformedMessageError(f"the model client must return an assistant message, not {reply!r:.200}")
    try:
        content = _assistant_content(reply.get("content"))
    except RecursionError:
        raise MalformedMessageError("the content of the assistant message is nested too deeply") from None
    message: AssistantModelMessage = {"role": "assistant", "content": content}
    usage = reply.get("usage")
    if usage:
        message["usage"] = copy_json(usage)
    for name, spellings in _EXTRAS.items():
        for spelling in spellings:
            value = reply.get(spelling)
            if value is not None:
                message[name] = value  # type: ignore[literal-required]
                break
    return message


def _assistant_content(content: Any) -> list[ContentBlock]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, (list, tuple)):
        raise MalformedMessageError(
            f"the content of an assistant message must be a list of blocks, not {content!r:.200}"
        )
    kept = []
    ids: set[str] = set()
    for block in content:
        kind = _check_block(block)
        if kind == "text" and not block["text"].strip():
            continue
        copied = _clean_copy(block)
        if kind == "tool_use":
            _check_tool_use(copied, ids)
        kept.append(copied)
    return kept or [{"type": "text", "text": NO_CONTENT}]


def _check_block(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise MalformedMessageError(f"a content block must be a dict with a type, not {block!r:.200}")
    if kind == "text" and not isinstance(block.get("text"), str):
        raise MalformedMessageError(f"a text block must have a text, not {block.get('text')!r:.200}")
    return kind


def _check_tool_use(block: ContentBlock, ids: set[str]) -> None:
    if not isinstance(block.get("name"), str) or not block["name"]:
        raise MalformedMessageError(f"a tool_use block must name its tool: {block!r:.200}")
    if not isinstance(block.get("id"), str) or not block["id"] or block["id"] in ids:
        block["id"] = f"toolu_{uuid.uuid4().hex}"  # two calls with one id could not be told apart
    ids.add(block["id"])
    block.setdefault("input", {})


def open_tool_uses(messages: list[Message]) -> list[ContentBlock]:
    """Return the tool calls at the end of a conversation that nobody has answered yet."""
    if not messages or messages[-1]["role"] != "assistant":
        return []
    return tool_uses(messages[-1])


def lost_result(call: ContentBlock, text: str = LOST_RESULT) -> ContentBlock:
    """Answer a call whose result is gone."""
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": True}


def repaired(messages: list[Message]) -> list[Message]:
    """Return the conversation with every tool call answered once, except those of a last assistant message.

    Missing results are added as errors, results without a call are taken out. What is well formed is returned as it is.
    """
    fixed: list[Message] = []
    changed = False
    for index, message in enumerate(messages):
        calls = tool_uses(messages[index - 1]) if index and messages[index - 1]["role"] == "assistant" else []
        if message["role"] == "user":
            answered = _answering(message, calls)
            changed = changed or answered is not message
            if answered is not None:
                fixed.append(answered)
            continue
        if calls:  # two assistant messages in a row, the first with calls
            fixed.append({"role": "user", "content": [lost_result(call) for call in calls]})
            changed = True
        fixed.append(message)
    return fixed if changed else messages


def _answering(message: Message, calls: list[ContentBlock]) -> Message | None:
    content = message["content"]
    blocks = [] if isinstance(content, str) else content
    found = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
    wanted = [call["id"] for call in calls]
    if found == wanted or (len(found) == len(wanted) and set(found) == set(wanted)):
        return message
    by_id = {block["tool_use_id"]: block for block in reversed(blocks) if block.get("type") == "tool_result"}
    results = [by_id.get(call["id"]) or lost_result(call) for call in calls]
    rest = [{"type": "text", "text": content}] if isinstance(content, str) else blocks
    rest = [block for block in rest if block.get("type") != "tool_result"]
    if not results and not rest:
        return None
    return {**message, "content": [*results, *rest]}
