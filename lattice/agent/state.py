"""What one query knows of itself while it runs; its steps live in the modules beside this one."""

import asyncio
import uuid
import weakref
from typing import Any

from lattice.abort import AbortController
from lattice.agent.endings import Ending
from lattice.agent.model_call import ModelCall
from lattice.agent.options import QuerySettings
from lattice.agent.session import Session
from lattice.agent.toolset import SUBMIT_OUTPUT_TOOL_NAME
from lattice.agent.tracing import Trace
from lattice.messages import ContentBlock, Message, copy_json
from lattice.tools.environment import Lineage, ToolEnvironment

__all__ = ["RunState"]


class RunState:
    """One query of a session. ``content`` is its prompt, or None to go on where the conversation stopped."""

    __slots__ = (
        "__weakref__",
        "_forget_signal",
        "_left_over",
        "_loop",
        "call",
        "closed",
        "content",
        "conversation",
        "ending",
        "environment",
        "interrupt_tools",
        "interrupted",
        "lineage",
        "num_turns",
        "observed",
        "owner",
        "recovered",
        "run_id",
        "session",
        "settings",
        "skills",
        "started",
        "stop_reason",
        "system_prompt",
        "tools",
        "trace",
        "usage",
    )

    def __init__(self, session: Session, settings: QuerySettings, content: str | list[ContentBlock] | None) -> None:
        self.session = session
        self.settings = settings
        self.content = content
        self.conversation = session.conversation
        self.run_id = str(uuid.uuid4())
        self.usage: dict[str, int] = {"input_tokens": 0, "output_tokens": 0}
        self.num_turns = 0
        self.stop_reason: str | None = None
        self.ending: Ending | None = None
        self.interrupted = False
        self.interrupt_tools = AbortController()
        self.recovered = False
        self.started = False
        self.observed = True
        """Whether somebody is handed the events; who only wants the result needs no copies in them."""
        self.owner: weakref.ref[Any] | None = None
        self.closed = asyncio.Event()
        self.call: ModelCall | None = None
        self.skills: Message | None = None
        self.trace: Trace | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left_over: tuple[list[ContentBlock], Message] | None = None
        self._forget_signal: Any = None
        extra = getattr(settings.runtime, "tools", None) or ()
        self.tools = session.toolset.joined(extra) if extra else session.toolset
        self.system_prompt = session.system_prompt_for(self.tools, settings.permissions)
        self.environment = self._make_environment()

    def _make_environment(self) -> ToolEnvironment:
        session, settings = self.session, self.settings
        definition = session.definition
        tracer = settings.tracer
        runtime_source = getattr(settings.runtime, "source", None)
        source = runtime_source or {"kind": "agent", "name": session.name or "agent"}
        session_id, parent = settings.trace_parent or (session.session_id, None)
        self.lineage = Lineage(tracer, session_id, self.run_id)
        if tracer is not None:
            self.trace = Trace(
                tracer, session_id=session_id, run_id=self.run_id, parent_run_id=parent, source=dict(source)
            )
        return ToolEnvironment(
            tools=self.tools.by_name,
            concurrency=definition.concurrency,
            policy=definition.tool_batch_policy,
            permission=definition.permission,
            exclusive_tool=SUBMIT_OUTPUT_TOOL_NAME if session.output_schema is not None else None,
            on_tool_result=definition.hooks.on_tool_result,
            signal=settings.signal,
            interrupt=self.interrupt_tools.signal,
            context=settings.context,
            agent_runtime=settings.runtime,
            permissions=settings.permissions,
            source=source,
            trace=None if self.trace is None else self.trace.emit,
            journal=session.journal,
            overflow_dir=session.overflow_dir,
            lineage=self.lineage,
        )

    def shown(self, value: Any) -> Any:
        """Return what an event may hold of ``value``: a copy, unless nobody is handed the events."""
        return copy_json(value) if self.observed else value

    def aborted(self) -> bool:
        """Whether the caller's signal has fired."""
        signal = self.settings.signal
        return signal is not None and signal.aborted

    async def keep(self, message: Message, *, traced: bool = True) -> None:
        """Add a user message to the conversation, and to the trace."""
        await self.conversation.add(message)
        if self.trace is not None and traced:
            await self.trace.emit("user_message", {"message": copy_json(message)})

    async def clear_journal(self) -> None:
        """Forget the last batch: the conversation has gone beyond it."""
        self.session.journal_dirty = False
        await self.session.journal.clear()
