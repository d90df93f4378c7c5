"""One query from its first event to its result: the agent loop."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from lattice.agent import compaction, requests
from lattice.agent.endings import MISSING_OUTPUT, Ending, ending_of_call, result_data, wrap_error
from lattice.agent.model_call import ModelCall
from lattice.agent.overflow import OVERFLOW_STOP, is_overflow
from lattice.agent.runtime import PAUSED_TEXT, optional_method
from lattice.agent.skills import matching_skills, skills_message
from lattice.agent.state import RunState
from lattice.agent.toolset import SUBMIT_OUTPUT_TOOL_NAME
from lattice.errors import (
    AbortError,
    APIError,
    LatticeError,
    MaxTurnsError,
    MissingOutputError,
)
from lattice.events import (
    SDKAssistantMessage,
    SDKMessage,
    SDKResultMessage,
    SDKStreamEvent,
    SDKSystemInitMessage,
    SDKUserMessage,
)
from lattice.messages import (
    NO_CONTENT,
    AssistantModelMessage,
    ContentBlock,
    MalformedMessageError,
    Message,
    add_usage,
    copy_json,
    input_tokens,
    lost_result,
    open_tool_uses,
    read_assistant,
    results_of,
    text_of,
    tool_uses,
)
from lattice.tools.batch import execute_batch
from lattice.tools.callbacks import settled
from lattice.tools.environment import BatchOutcome
from lattice.tools.schema import parse_with
from lattice.tools.tool import UNSET

__all__ = ["Run"]

_log = logging.getLogger("lattice.agent")


class Run(RunState):
    """One query, from its first event to its result."""

    __slots__ = ()

    # --- the loop ------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[SDKMessage, None]:
        """Yield the events of the query; the last one is its result."""
        await self.session.enter(self)
        try:
            self._start()
            await self._trace_start()
            yield SDKSystemInitMessage(self.session.model, list(self.tools.names), self.session.session_id)
            if await self._open() and self._left_over is not None:
                yield await self._run_batch(*self._left_over, recover=True)
            while self.ending is None and self._may_take_turn():
                if (compacted := await compaction.compact_if_due(self)) is not None:
                    yield compacted
                    continue
                await self._show_urgent_mail()
                if not self._may_take_turn():  # the summary took time
                    break
                call = await requests.ask_model(self)
                while (event := await call.next_event()) is not None:
                    yield SDKStreamEvent(event, self.session.session_id)
                message = await self._take_answer(call)
                if call.why == "mail" and self.ending is None:
                    continue
                if message is None:
                    if (recovery := await self._recover(call)) is not None:
                        yield recovery
                    continue
                calls = self._judge(message)
                yield SDKAssistantMessage(self.shown(message), self.session.session_id)
                if calls:
                    yield await self._run_batch(calls, message)
            result = await self._finish()
        finally:
            await self._close()
        yield result

    def interrupt(self) -> bool:
        """End the query before its next model call; False if it is ending already."""
        if self.ending is not None:
            return False
        self.interrupted = True
        if self.call is not None:
            self.call.cut("interrupt")
        self.interrupt_tools.abort()
        return True

    def cut_in(self) -> bool:
        """Break off the model call under way, so that urgent mail is shown before the next; False if there is none."""
        call = self.call
        if self.ending is not None or call is None or call.purpose != "turn":
            return False
        call.cut("mail")
        return call.why == "mail"

    def abandoned(self) -> bool:
        """Whether nobody is left to take the events."""
        if self.owner is None:
            return False
        owner = self.owner()
        return owner is None or getattr(owner, "cr_frame", owner) is None  # closed, perhaps before it began

    def in_other_loop(self) -> bool:
        """Whether the event loop that the query ran in is another one, and gone."""
        return self._loop is not None and self._loop.is_closed()

    # --- beginning -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self.settings.signal is not None:
            self._forget_signal = self.settings.signal.add_listener(self._hear_abort)

    def _hear_abort(self) -> None:
        if self.call is not None:
            self.call.cut("abort")

    async def _trace_start(self) -> None:
        if self.trace is None:
            return
        data: dict[str, Any] = {"model": self.session.model, "tools": list(self.tools.names)}
        if self.settings.trace_parent is not None:
            data["agent_session_id"] = self.session.session_id
        await self.trace.emit("run_start", data)

    async def _open(self) -> bool:
        """Load the conversation and put the prompt into it; False if the query ends before that."""
        if self.aborted():
            self.ending = Ending("error_abort", error=AbortError("Operation aborted"))
            return False
        await self.conversation.load()
        if self.content is None:
            await self._pick_up()
            return True
        await self._settle_old_batch()
        message: Message = {"role": "user", "content": self.content}
        self._match_skills(message)
        await self.keep(message)
        return True

    async def _settle_old_batch(self) -> None:
        """A new prompt follows; what an earlier process left unanswered is answered by what is known of it."""
        calls = open_tool_uses(self.conversation.messages)
        if calls:
            entries = await self.session.journal.load()
            known = {tool_id: entry.result for tool_id, entry in entries.items() if entry.result is not None}
            blocks = [known.get(call["id"]) or lost_result(call) for call in calls]
            await self.keep({"role": "user", "content": blocks})
            self.session.journal_dirty = True
        if self.session.journal_dirty:
            await self.clear_journal()

    async def _pick_up(self) -> None:
        """Go on where the conversation stopped: an open batch, a due model call, or the end that was reached."""
        messages = self.conversation.messages
        if not messages:
            raise LatticeError("resume: the conversation is empty; ask something with query() or prompt() first")
        self._match_skills(_last_prompt(messages))
        last = messages[-1]
        if last["role"] == "assistant":
            self.stop_reason = last.get("stopReason")
            if calls := self._judge(last):
                self._left_over = (calls, last)
        elif results_of(last):
            await self._end_as_the_batch_said(last)

    async def _end_as_the_batch_said(self, last: Message) -> None:
        """The process died after the results were stored: end the turn, or pause, if that batch had said so."""
        entries = await self.session.journal.load()
        self.session.journal_dirty = bool(entries)
        outcome = self._submitted(last) or BatchOutcome()
        for block in results_of(last):
            if outcome.end_turn:
                break
            entry = entries.get(block["tool_use_id"])
            if entry is not None and entry.end_turn:
                outcome.end_turn, outcome.end_turn_text = True, text_of(block["content"])
                outcome.structured_result = UNSET if entry.structured_result is None else entry.structured_result
        await self._end_after(outcome)

    def _submitted(self, last: Message) -> BatchOutcome | None:
        """Read an accepted output again from the call that submitted it: the journal keeps no typed values."""
        calls = _calls_before_last(self.conversation.messages)
        if self.session.output_schema is None or len(calls) != 1 or calls[0]["name"] != SUBMIT_OUTPUT_TOOL_NAME:
            return None
        block = results_of(last)[0]
        if block.get("is_error"):
            return None
        value = parse_with(self.session.output_schema, calls[0]["input"])
        return BatchOutcome(end_turn=True, end_turn_text=text_of(block["content"]), structured_result=value)

    def _match_skills(self, message: Message | None) -> None:
        definition = self.session.definition
        if not definition.skills or message is None:
            return
        content = message["content"]
        text = (
            content
            if isinstance(content, str)
            else "\n".join(block["text"] for block in content if block.get("type") == "text")
        )
        self.skills = skills_message(matching_skills(definition.skills, text))

    # --- a turn --------------------------------------------------------------------------------------------------

    def _may_take_turn(self) -> bool:
        limit = self.session.definition.max_turns
        if self.aborted():
            self.ending = Ending("error_abort", error=AbortError("Operation aborted"))
        elif self.interrupted:
            self.ending = Ending("interrupted")
        elif self.num_turns >= limit:
            error = MaxTurnsError(f"Reached maximum number of turns ({limit})")
            self.ending = Ending("error_max_turns", error=error)
        return self.ending is None

    async def _take_answer(self, call: ModelCall) -> AssistantModelMessage | None:
        """Store the response of a call; None if there is none that can be used."""
        await call.close()
        self.call = None
        timeout_ms = self.settings.request_timeout_ms
        if (ending := ending_of_call(call, aborted=self.aborted(), timeout_ms=timeout_ms)) is not None:
            self.ending = ending
            return None
        if call.why == "mail":  # nothing of it is kept, so it was no turn
            self.num_turns -= 1
            return None
        if call.error is not None:
            return None
        try:
            message = read_assistant(call.reply)
        except MalformedMessageError as error:
            self.ending = Ending("error", error=APIError(str(error), cause=error, code="malformed_response"))
            return None
        usage = message.get("usage")
        add_usage(self.usage, usage)
        self.stop_reason = message.get("stopReason")
        if self.stop_reason == OVERFLOW_STOP:
            return None
        if usage:
            self.conversation.context_tokens = input_tokens(usage)
        if self.stop_reason == "refusal":
            _drop_calls(message)
        await self.conversation.add(message)  # type: ignore[arg-type]
        if self.trace is not None:
            await self.trace.emit("assistant_message", {"message": copy_json(message)}, at=call.settled_at)
        return message

    async def _recover(self, call: ModelCall) -> SDKMessage | None:
        """Make room and try the turn again, once a query, if the window was too small; else end with the failure."""
        if self.ending is not None:
            return None
        overflow = call.error is None or is_overflow(call.error)
        if overflow and not self.recovered and self.session.definition.compaction is not None:
            event = await compaction.make_room(self)
            if event is not None:
                self.recovered = True
                return event
            if self.aborted() or self.interrupted:
                return None  # the top of the next turn ends the query accordingly
        self.ending = Ending("error", error=wrap_error(call.error))
        return None

    def _judge(self, message: AssistantModelMessage | Message) -> list[ContentBlock]:
        """Return the calls to run; without any, decide how the query ends, unless the model only paused."""
        stop_reason = message.get("stopReason")
        text = text_of(message["content"])
        if text == NO_CONTENT:
            text = ""
        if stop_reason == "refusal":
            said = f": {text}" if text else ""
            self.ending = Ending("error", error=APIError(f"The model refused the request{said}", code="refusal"))
            return []
        calls = tool_uses(message)  # type: ignore[arg-type]
        if calls or stop_reason == "pause_turn":
            return calls
        if self.session.output_schema is not None:
            self.ending = Ending("error_missing_output", text, MissingOutputError(MISSING_OUTPUT))
        else:
            self.ending = Ending("success", text)
        return []

    # --- tools ---------------------------------------------------------------------------------------------------

    async def _run_batch(
        self, calls: list[ContentBlock], message: AssistantModelMessage | Message, *, recover: bool = False
    ) -> SDKUserMessage:
        """Run the calls of a response, store their results, decide whether the query ends here."""
        recovered = await self.session.journal.load() if recover else None
        self._left_over = None
        if not recover and self.session.journal_dirty:
            await self.clear_journal()
        outcome = await execute_batch(
            calls, self.environment, truncated=message.get("stopReason") == "max_tokens", recovered=recovered
        )
        self.session.journal_dirty = True
        results = outcome.results
        mail = [] if outcome.failure is not None else await self._mail()
        await self.keep({"role": "user", "content": [*results, *mail]}, traced=outcome.failure is None)
        if outcome.failure is not None:
            raise outcome.failure
        await self._end_after(outcome)
        shown = self.shown(results)
        return SDKUserMessage(
            {"role": "user", "content": shown},
            self.session.session_id,
            shown[0]["content"] if len(shown) == 1 else shown,
            outcome.error,
        )

    async def _show_urgent_mail(self) -> None:
        """Add mail that broke a call off, or that came while none was under way, to the conversation."""
        if requests.has_urgent_mail(self) and (mail := await self._mail()):
            await self.keep({"role": "user", "content": mail})

    async def _mail(self) -> list[ContentBlock]:
        method = optional_method(self.settings.runtime, "mail_after_tool_batch")
        if method is None:
            return []
        return [copy_json(block) for block in await settled(method()) or ()]

    async def _end_after(self, outcome: BatchOutcome) -> None:
        pause = optional_method(self.settings.runtime, "should_pause_after_tool_batch")
        if pause is not None and await settled(pause()):
            self.ending = Ending("success", PAUSED_TEXT, paused=True)
        elif outcome.end_turn and self.session.output_schema is None:
            self.ending = Ending("success", outcome.end_turn_text, structured_result=outcome.structured_result)
        elif outcome.end_turn:
            self.ending = self._end_with_output(outcome)
        elif outcome.aborted:
            self.ending = Ending("error_abort", error=AbortError("Operation aborted"))

    def _end_with_output(self, outcome: BatchOutcome) -> Ending:
        submitted = any(
            call["name"] == SUBMIT_OUTPUT_TOOL_NAME for call in _calls_before_last(self.conversation.messages)
        )
        if not submitted:
            return Ending("error_missing_output", outcome.end_turn_text, MissingOutputError(MISSING_OUTPUT))
        value = outcome.structured_result
        if self.content is None and isinstance(value, dict):
            value = parse_with(self.session.output_schema, value)  # it came back from the journal as plain JSON
        return Ending("success", outcome.end_turn_text, structured_result=value)

    # --- storing and ending --------------------------------------------------------------------------------------

    async def _finish(self) -> SDKResultMessage:
        """Make the result, trace it, and let the agent go."""
        ending = self.ending
        assert ending is not None
        structured = ending.structured_result is not UNSET
        result = SDKResultMessage(
            subtype=ending.subtype,
            is_error=ending.subtype not in {"success", "interrupted"},
            result=ending.text,
            session_id=self.session.session_id,
            num_turns=self.num_turns,
            usage=self.usage,
            error=ending.error,
            stop_reason=self.stop_reason,
            structured_result=ending.structured_result if structured else None,
            paused=ending.paused,
            has_structured_result=structured,
            total_usage=self._total_usage(),
        )
        if self.trace is not None:
            await self.trace.emit("result", result_data(result))
            await self.trace.flush()
        return result

    def _total_usage(self) -> dict[str, int] | None:
        """Return the tokens of this query and of the agents that its tools asked; None if they asked none."""
        if not self.lineage.usage:
            return None
        total = dict(self.usage)
        add_usage(total, self.lineage.usage)
        return total

    async def _close(self) -> None:
        """Leave nothing behind: no call under way, no tool call unanswered, the agent free."""
        # What an earlier process left over stays as it is: only the journal knows what became of it.
        repair = self.conversation.answer_open_calls() if self._left_over is None else None
        if self._forget_signal is not None:
            self._forget_signal()
            self._forget_signal = None
        try:
            if self.call is not None:
                await self.call.close()
            if repair is not None:
                await self._save_quietly(repair)
        finally:
            self.session.leave(self)

    async def _save_quietly(self, message: Message) -> None:
        try:
            await self.conversation.save(message)
        except Exception as error:  # noqa: BLE001 - what led here is what the host must see
            _log.warning("the results of an unfinished batch could not be stored: %s", error)


def _drop_calls(message: AssistantModelMessage) -> None:
    kept = [block for block in message["content"] if block.get("type") != "tool_use"]
    message["content"] = kept or [{"type": "text", "text": NO_CONTENT}]


def _calls_before_last(messages: list[Message]) -> list[ContentBlock]:
    return tool_uses(messages[-2]) if len(messages) > 1 and messages[-2]["role"] == "assistant" else []


def _last_prompt(messages: list[Message]) -> Message | None:
    return next((m for m in reversed(messages) if m["role"] == "user" and not results_of(m)), None)
