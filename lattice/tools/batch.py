"""Executes the tool calls of one model response: refuse or schedule, then answer every one of them in call order."""

import asyncio
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from lattice.errors import AbortError, ToolBatchRejectedError, ToolExecutionError
from lattice.journal import JournalEntry
from lattice.tools.environment import BatchOutcome, ToolConcurrency, ToolEnvironment
from lattice.tools.execution import (
    ESCAPING,
    BatchState,
    CallOutcome,
    answer_call,
    error_outcome,
    execute_call,
    not_started,
    parse_input,
)
from lattice.tools.policy import check_batch
from lattice.tools.results import content_text
from lattice.tools.tool import UNSET

__all__ = ["BatchOutcome", "ToolConcurrency", "ToolEnvironment", "execute_batch"]

Call = dict[str, Any]


async def execute_batch(
    calls: list[Call],
    environment: ToolEnvironment,
    *,
    truncated: bool = False,
    recovered: Mapping[str, JournalEntry] | None = None,
) -> BatchOutcome:
    """Answer every call of one response; never raises, see ``BatchOutcome.failure``.

    Args:
        calls: the ``tool_use`` blocks, in order.
        environment: what they run in.
        truncated: the response was cut off at its token limit, so nothing is run.
        recovered: the journal of this batch if an earlier process died in it: finished calls keep their result, started
            ones follow their tool's ``on_recovery``, the others run.
    """
    batch = _Batch(calls, environment, recovered or {})
    if truncated:
        await batch.answer_all(_truncated)
    elif recovered or await batch.may_run():
        await batch.run()
    return batch.outcome()


class _Batch:
    """One batch while it runs; ``outcomes`` fills up as calls are answered."""

    __slots__ = ("_aborted", "calls", "environment", "outcomes", "recovered", "state")

    def __init__(self, calls: list[Call], environment: ToolEnvironment, recovered: Mapping[str, JournalEntry]) -> None:
        self.calls = calls
        self.environment = environment
        self.recovered = recovered
        self.state = BatchState()
        self.outcomes: list[CallOutcome | None] = [None] * len(calls)
        self._aborted = False

    async def may_run(self) -> bool:
        """Whether policy and exclusivity let the batch run; if not, every call has been answered."""
        environment = self.environment
        if environment.policy is None and (environment.exclusive_tool is None or len(self.calls) == 1):
            return True
        try:
            rejection = await check_batch(self.calls, environment)
        except AbortError as error:
            self._aborted = True
            await self.answer_all(functools.partial(_not_started_by, error))
            return False
        except ESCAPING as error:
            self.state.fail(error)
            return False
        if rejection is None:
            return True
        text, refusal = rejection.to_model(), ToolBatchRejectedError(rejection)
        await self.answer_all(lambda call: error_outcome(call, text, refusal))
        return False

    async def answer_all(self, answer: Any) -> None:
        """Answer every call without running it."""
        for index, call in enumerate(self.calls):
            if self.state.failure is not None:
                return
            self.outcomes[index] = await answer_call(call, answer(call), self.environment, self.state)

    async def run(self) -> None:
        """Run the calls group by group: a group overlaps, groups follow one another."""
        if len(self.calls) == 1:
            await self.run_one(0, UNSET)
            return
        scheduler = _Scheduler(self.calls, self.environment)
        while self.state.failure is None:
            group = scheduler.next_group()
            if not group:
                return
            if len(group) == 1:
                await self.run_one(*group[0])
            else:
                await self.run_group(group)

    async def run_group(self, group: list[tuple[int, Any]]) -> None:
        """Run calls side by side, at most ``max_concurrency`` at once; the first failure stops them all."""
        waiting = iter(group)
        count = min(self.environment.concurrency.max_concurrency, len(group))
        workers = [asyncio.ensure_future(self._work(waiting)) for _ in range(count)]
        pending = set(workers)
        while pending:
            try:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                self.state.fail(error)
                pending = {worker for worker in pending if not worker.done()}
                for worker in pending:
                    worker.cancel()
                continue
            if self.state.failure is not None:
                for worker in pending:
                    if not worker.cancelling():
                        worker.cancel()
        for worker in workers:
            broken = None if worker.cancelled() else worker.exception()
            if broken is not None:
                self.state.fail(broken)

    async def _work(self, waiting: Iterator[tuple[int, Any]]) -> None:
        for index, parsed in waiting:
            await self.run_one(index, parsed)
            if self.state.failure is not None:
                return

    async def run_one(self, index: int, parsed: Any) -> None:
        """Run one call unless the work was aborted or an earlier process has run it."""
        call, environment = self.calls[index], self.environment
        kept = self.recovered.get(call["id"]) if self.recovered else None
        if kept is not None and kept.result is not None:
            self.outcomes[index] = _kept_outcome(kept)
        elif environment.signal is not None and environment.signal.aborted:
            self._aborted = True
            self.outcomes[index] = await answer_call(call, not_started(call, self.state), environment, self.state)
        elif kept is not None and not self._may_rerun(call):
            self.outcomes[index] = await answer_call(call, _unknown_outcome(call), environment, self.state)
        else:
            self.outcomes[index] = await execute_call(call, environment, self.state, parsed=parsed)

    def _may_rerun(self, call: Call) -> bool:
        definition = self.environment.tools.get(call["name"])
        return definition is not None and (definition.kind == "agent_tool" or definition.on_recovery == "rerun")

    def outcome(self) -> BatchOutcome:
        """Put the answers together, in call order; whatever was not reached is answered here."""
        total = BatchOutcome(failure=self.state.failure)
        signal = self.environment.signal
        total.aborted = self._aborted or (signal is not None and signal.aborted)
        for call, outcome in zip(self.calls, self.outcomes, strict=True):
            if outcome is None:
                outcome = not_started(call, self.state)  # noqa: PLW2901 - the answer that is missing
            total.results.append(outcome.block)
            if total.error is None:
                total.error = outcome.error
            if outcome.end_turn and not total.end_turn:
                total.end_turn = True
                total.end_turn_text = outcome.end_turn_text
                total.structured_result = outcome.structured_result
        return total


class _Scheduler:
    """Splits a batch into groups, lazily: the safety of a call is asked only when everything before it has run."""

    __slots__ = ("_calls", "_environment", "_held", "_next")

    def __init__(self, calls: list[Call], environment: ToolEnvironment) -> None:
        self._calls = calls
        self._environment = environment
        self._next = 0
        self._held: tuple[int, Any] | None = None

    def next_group(self) -> list[tuple[int, Any]]:
        """Return the next calls that may overlap, each with its parsed input if it was parsed; empty at the end."""
        mode = self._environment.concurrency.mode
        if mode == "all":
            group = [(index, UNSET) for index in range(self._next, len(self._calls))]
            self._next = len(self._calls)
            return group
        if self._held is not None:
            held, self._held = self._held, None
            return [held]
        group = []
        while self._next < len(self._calls):
            index = self._next
            self._next += 1
            safe, parsed = (False, UNSET) if mode == "sequential" else self._judge(self._calls[index])
            if safe:
                group.append((index, parsed))
                continue
            if group:
                self._held = (index, parsed)
            else:
                group.append((index, parsed))
            break
        return group

    def _judge(self, call: Call) -> tuple[bool, Any]:
        definition = self._environment.tools.get(call["name"])
        if definition is None or definition.is_concurrency_safe is None:
            return False, UNSET
        try:
            parsed = parse_input(definition, call)
        except Exception:  # noqa: BLE001 - the call itself will report it
            return False, UNSET
        try:
            answer = definition.is_concurrency_safe(parsed)
        except Exception:  # noqa: BLE001 - a check that fails is a no
            return False, parsed
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            return False, parsed
        return bool(answer), parsed


def _truncated(call: Call) -> CallOutcome:
    text = (
        f"Tool {call['name']} was not executed: the model response was truncated at max_tokens, so tool inputs may be"
        " incomplete."
    )
    advice = " Shorten your thinking and output, then issue the tool call again."
    return error_outcome(call, text + advice, ToolExecutionError(text))


def _not_started_by(error: AbortError, call: Call) -> CallOutcome:
    return error_outcome(call, f"Tool {call['name']} was not started because the operation was aborted", error)


def _kept_outcome(entry: JournalEntry) -> CallOutcome:
    assert entry.result is not None
    text = content_text(entry.result.get("content")) if entry.end_turn else ""
    structured = UNSET if entry.structured_result is None else entry.structured_result
    return CallOutcome(entry.result, None, entry.end_turn, text, structured)


def _unknown_outcome(call: Call) -> CallOutcome:
    text = (
        f"Tool {call['name']} had started when the process that ran it stopped, so its outcome is unknown."
        " Check whether it took effect before you repeat it."
    )
    return error_outcome(call, text, ToolExecutionError(text))
