"""Compaction: the older part of a conversation gives way to a summary that the model writes."""

import logging
from typing import Any

from lattice.agent.compaction_settings import CompactionSettings
from lattice.agent.model_call import ModelCall
from lattice.agent.overflow import OVERFLOW_STOP, is_overflow
from lattice.agent.requests import send
from lattice.agent.state import RunState
from lattice.agent.transcript import capped, plain, without_large_results
from lattice.events import SDKSystemCompactionMessage
from lattice.messages import (
    NO_CONTENT,
    MalformedMessageError,
    Message,
    add_usage,
    copy_json,
    read_assistant,
    results_of,
    text_of,
)
from lattice.model import ModelRequest

__all__ = ["compact_if_due", "cut_index", "make_room"]

_log = logging.getLogger("lattice.agent")

REQUEST = "Summarize the conversation so far."
CAPS = (None, 20_000, 4_000, 1_000)
"""Characters a text may have in the summary request: the first try, then ever less while it is itself too long."""

KEPT_RESULT_CHARS = 8_000
"""Characters a tool result may keep when room must be made after an overflow."""


def cut_index(messages: list[Message], keep: int) -> int:
    """Return where to cut so that the last ``keep`` messages stay and no tool result loses its call; 0 is nowhere."""
    index = max(0, len(messages) - keep)
    while index > 0 and results_of(messages[index]):
        index -= 1
    return index


async def compact_if_due(run: RunState) -> SDKSystemCompactionMessage | None:
    """Compact if the last response reported more input than the threshold; a failure changes nothing."""
    settings = run.session.definition.compaction
    conversation = run.conversation
    if settings is None or conversation.context_tokens <= settings.threshold_tokens:
        return None
    trigger, conversation.context_tokens = conversation.context_tokens, 0
    cut = cut_index(conversation.messages, settings.keep_recent_messages)
    if cut == 0:
        return None
    summary = await _summarize(run, settings, conversation.messages[:cut])
    if summary is None:
        return None
    return await _rewrite(run, summary, conversation.messages[cut:], cut, trigger=trigger, recovered=False)


async def make_room(run: RunState) -> SDKSystemCompactionMessage | None:
    """Compact after an overflow: sum up what is older, shorten huge tool results in the rest; None if nothing helps."""
    settings = run.session.definition.compaction
    assert settings is not None
    messages = run.conversation.messages
    trigger = run.conversation.context_tokens
    cut = cut_index(messages, settings.keep_recent_messages)
    retained, shortened = without_large_results(messages[cut:], KEPT_RESULT_CHARS)
    if cut == 0:
        if not shortened:
            return None
        return await _rewrite(run, None, retained, shortened, trigger=trigger, recovered=True)
    summary = await _summarize(run, settings, messages[:cut])
    if summary is None:
        return None
    return await _rewrite(run, summary, retained, cut, trigger=trigger, recovered=True)


async def _summarize(
    run: RunState, settings: CompactionSettings, head: list[Message]
) -> tuple[str, dict[str, int]] | None:
    """Return the summary and its usage; None if it failed, came back empty or was cut short."""
    for cap in CAPS:
        call = await _ask_summary(run, settings, capped(plain(head), cap))
        if call.why is not None:
            return None
        if call.error is None:
            summary = await _read_summary(run, call)
            if summary is not None:
                return summary
            if not _ran_out(call):
                return None
        elif not isinstance(call.error, Exception):
            raise call.error
        elif not is_overflow(call.error):
            _log.warning("the summary for compaction failed, the conversation goes on without: %s", call.error)
            return None
    _log.warning("the summary for compaction does not fit the context window either, the conversation goes on without")
    return None


async def _ask_summary(run: RunState, settings: CompactionSettings, messages: list[Message]) -> ModelCall:
    call = ModelCall("compaction")
    request = ModelRequest(
        model=settings.model or run.session.model,
        messages=_with_request(messages),
        max_tokens=settings.max_tokens,
        system_prompt=settings.prompt,
        stream=False,
        timeout_ms=run.settings.request_timeout_ms,
        on_stream_event=lambda _event: None,
        signal=call.signal,
    )
    await send(run, call, request)
    while await call.next_event() is not None:
        pass
    await call.close()
    run.call = None
    return call


def _with_request(messages: list[Message]) -> list[Message]:
    """Put the instruction last; two user messages in a row become one."""
    last = messages[-1]
    if last["role"] != "user":
        return [*messages, {"role": "user", "content": REQUEST}]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [*messages[:-1], {"role": "user", "content": [*blocks, {"type": "text", "text": REQUEST}]}]


async def _read_summary(run: RunState, call: ModelCall) -> tuple[str, dict[str, int]] | None:
    try:
        message = read_assistant(call.reply)
    except MalformedMessageError as error:
        _log.warning("the summary for compaction is no message, the conversation goes on without: %s", error)
        return None
    usage: dict[str, int] = {"input_tokens": 0, "output_tokens": 0}
    add_usage(usage, message.get("usage"))
    text = "" if _ran_out(call) else text_of(message["content"]).strip()
    if run.trace is not None:
        data = {"message": copy_json(message), "purpose": "compaction"}
        await run.trace.emit("assistant_message", data, at=call.settled_at)
    if text in {"", NO_CONTENT}:
        return None
    return text, usage


def _ran_out(call: ModelCall) -> bool:
    reply = call.reply
    return isinstance(reply, dict) and reply.get("stopReason", reply.get("stop_reason")) == OVERFLOW_STOP


async def _rewrite(
    run: RunState,
    summary: tuple[str, dict[str, int]] | None,
    retained: list[Message],
    compacted: int,
    *,
    trigger: int,
    recovered: bool,
) -> SDKSystemCompactionMessage:
    text, usage = summary or ("", {"input_tokens": 0, "output_tokens": 0})
    head = [] if summary is None else [{"role": "user", "content": _wrapped(text)}]
    await run.conversation.replace([*head, *retained])
    add_usage(run.usage, usage)
    if run.trace is not None:
        data: dict[str, Any] = {
            "compacted_messages": compacted,
            "retained_messages": len(retained),
            "trigger_input_tokens": trigger,
            "summary": text,
        }
        if recovered:
            data["recovered_from_overflow"] = True
        await run.trace.emit("compaction", data)
    return SDKSystemCompactionMessage(run.session.session_id, compacted, len(retained), trigger, usage)


def _wrapped(summary: str) -> str:
    return (
        "Context compaction has just been performed: the earlier part of this conversation was replaced by the summary"
        " below. Take what it says as known and continue the work from there.\n\n"
        f"<conversation_summary>\n{summary}\n</conversation_summary>"
    )
