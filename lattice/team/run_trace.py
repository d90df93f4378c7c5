"""The root of a team's trace: one run per team call, under which the runs of lead and members hang."""

import uuid
from typing import Any

from lattice.agent.tracing import Trace
from lattice.errors import AbortError, LatticeError
from lattice.events import TeamMessageEvent, error_to_dict
from lattice.team.answers import Answer

__all__ = ["RunTrace"]


class RunTrace:
    """Writes the team-level rows; without a tracer it does nothing and no run has a parent."""

    __slots__ = ("_began", "_trace", "tracer")

    def __init__(
        self,
        tracer: Any,
        source: dict[str, Any],
        parent: Any = None,
        *,
        ids: tuple[str, str, str | None] | None = None,
        strict: bool = True,
        began: float | None = None,
    ) -> None:
        """Take the tracer, the team as the source of its rows, and where in a trace they stand.

        ``parent`` is ``(session_id, run_id)`` of the run that this team works in, if it is nested; ``ids`` are session,
        run and parent where they are known already. Unless ``strict``, the tracer's errors are only logged. ``began``
        is when the run began, in seconds since 1970, if that is not when it is written.
        """
        self.tracer = tracer
        self._trace = None
        self._began = began
        if tracer is None:
            return
        if ids is None:
            session_id, above = (str(uuid.uuid4()), None) if parent is None else parent
            ids = session_id, str(uuid.uuid4()), above
        self._trace = Trace(
            tracer, session_id=ids[0], run_id=ids[1], parent_run_id=ids[2], source=source, may_raise=strict
        )

    @property
    def parent(self) -> tuple[str, str] | None:
        """What the runs below get as ``trace_parent``."""
        return None if self._trace is None else (self._trace.session_id, self._trace.run_id)

    @property
    def place(self) -> str | None:
        """What travels with work items: session, run and parent, joined by slashes."""
        trace = self._trace
        return None if trace is None else f"{trace.session_id}/{trace.run_id}/{trace.parent_run_id or ''}"

    async def start(self, data: dict[str, Any], prompt: Any) -> None:
        """Write that the team has started, and on what."""
        if self._trace is not None:
            await self._trace.emit("run_start", {"runtime": "team", **data}, at=self._began)
            await self._trace.emit("user_message", {"message": {"role": "user", "content": prompt}})

    async def message(self, event: TeamMessageEvent) -> None:
        """Write that a mailbox message moved."""
        if self._trace is not None:
            data = {"subtype": event.subtype, "mailbox": event.mailbox, "message": event.message}
            if event.error is not None:
                data["error"] = event.error
            await self._trace.emit("team_message", data)

    async def end(self, answer: Answer) -> None:
        """Write the lead's final result."""
        if self._trace is None:
            return
        data: dict[str, Any] = {
            "subtype": answer.subtype,
            "is_error": answer.is_error,
            "result": answer.text,
            "num_turns": answer.num_turns,
            "usage": answer.usage or {"input_tokens": 0, "output_tokens": 0},
        }
        if answer.error is not None:
            data["error"] = error_to_dict(answer.error) if isinstance(answer.error, BaseException) else answer.error
        await self._trace.emit("result", data)
        await self._trace.flush()

    async def conclude(self, answer: Answer | None, error: Any) -> None:
        """Write how the lead ended: with an answer, or with what was raised."""
        if answer is not None:
            await self.end(answer)
        else:
            await self.fail(error if isinstance(error, BaseException) else LatticeError(str(error)))

    async def fail(self, error: BaseException) -> None:
        """Write that the team call raised."""
        if self._trace is None:
            return
        subtype = "error_abort" if isinstance(error, AbortError) else "error"
        await self._trace.emit("error", {"error": error_to_dict(error)})
        data = {"subtype": subtype, "is_error": True, "result": "", "num_turns": 0, "error": error_to_dict(error)}
        await self._trace.emit("result", data)
        await self._trace.flush()
