"""The agent: one conversation with a model that may use tools."""

import uuid
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any, Protocol

from lattice.agent.conversation import read_history
from lattice.agent.options import check_ports, read_agent_options, read_query_options
from lattice.agent.run import Run
from lattice.agent.session import Rewriting, Session
from lattice.agent.toolset import Toolset, listed_tools, submit_output_tool
from lattice.errors import ConcurrentQueryError, LatticeError, OptionError
from lattice.events import AgentLikeEvent, SDKMessage, SDKResultMessage
from lattice.messages import MalformedMessageError, read_prompt
from lattice.tools.builtin import workspace_tools
from lattice.tools.tool import ToolDefinition
from lattice.workspace.workspace import resolve_workspace

__all__ = ["Agent", "AgentLike", "build_agent"]


class AgentLike(Protocol):
    """Anything that can be asked: an agent, a team, or a host's own."""

    def query(self, prompt: Any, **options: Any) -> AsyncGenerator[AgentLikeEvent, None]:
        """Yield the events of one query; the last is its result."""
        ...

    async def prompt(self, prompt: Any, **options: Any) -> SDKResultMessage:
        """Return the result of one query."""
        ...

    def interrupt(self) -> bool:
        """End the running query; False if none runs."""
        ...


class Agent(Session):
    """One conversation; made by ``create_agent()``, ``create_bare_agent()`` or ``AgentSpec.spawn()``.

    A second query while one runs is refused: make an agent per conversation. ``session_id`` stays the same for life.
    """

    __slots__ = ()

    def query(self, prompt: str | list[dict[str, Any]], **options: Any) -> AsyncGenerator[SDKMessage, None]:
        """Ask something and yield what happens; the last event is the result.

        Nothing starts before the first event is asked for. The next event is produced when the current one was taken.
        Giving up the iteration stops the model call and the tools.

        Args:
            prompt: a text or a list of content blocks.
            options: see ``QueryOptions``.

        Raises:
            OptionError: the prompt or an option cannot be used.
            ConcurrentQueryError: another query of this agent is running (raised by the first iteration).
        """
        return self._stream(Run(self, self._settings(options), _content(prompt)))

    def prompt(self, prompt: str | list[dict[str, Any]], **options: Any) -> Coroutine[Any, Any, SDKResultMessage]:
        """Ask something and return the result; like ``query()``, but without the events before it.

        The agent counts as busy from the call on, before it is awaited, so ``interrupt()`` works at once.
        """
        run = Run(self, self._settings(options), _content(prompt))
        work = _collect(run)
        run.owner = weakref.ref(work)
        if self.active is None or (self.active.abandoned() and not self.active.started):
            self.active = run
        return work

    def resume(self, **options: Any) -> AsyncGenerator[SDKMessage, None]:
        """Go on where the stored conversation stopped, and yield what happens.

        A batch of tool calls that was cut off is finished: what the journal knows is kept, what was under way follows
        its tool's ``on_recovery``, the rest is run. The model is called only if a call is due.

        Raises:
            OptionError: an option cannot be used.
            LatticeError: the conversation is empty (raised by the iteration).
        """
        return self._stream(Run(self, self._settings(options), None))

    def interrupt(self) -> bool:
        """End the running query with ``interrupted``, keeping every completed turn.

        False, and no effect, if no query runs or the running one has come to its end already.
        """
        active = self.active
        if active is None or active.abandoned():
            return False
        return active.interrupt()

    def cut_in(self) -> bool:
        """Break the model call under way off, because mail has come that is to be dealt with first.

        Nothing of the response is kept. The agent is shown the mail that its runtime has, and asked anew. False, and no
        effect, if no call is under way: then the mail is shown before the next one.
        """
        active = self.active
        if not isinstance(active, Run) or active.abandoned():
            return False
        return active.cut_in()

    async def get_history(self) -> list[dict[str, Any]]:
        """Return a deep copy of the conversation, what the history store holds included."""
        await self.conversation.load()
        return self.conversation.copy()

    async def replace_history(self, messages: Iterable[dict[str, Any]]) -> None:
        """Replace the whole conversation, in the history store too.

        Raises:
            ConcurrentQueryError: a query is running.
            StoreError: one of ``messages`` is no message.
        """
        replacement = read_history(messages)
        await self.wait_for_abandoned()
        if self.active is not None:
            raise ConcurrentQueryError(
                f"{self.busy()} replace_history() is idle-only: wait for the running query to finish, or interrupt()"
                " it first."
            )
        self.active = hold = Rewriting()
        try:
            await self.conversation.replace(replacement)
        finally:
            if self.active is hold:
                self.active = None

    def drop_unanswered_prompt(self) -> bool:
        """Take a prompt that got no answer (failed, aborted, interrupted) back out of the conversation.

        Returns whether there was one.

        Raises:
            ConcurrentQueryError: a query is running.
        """
        if self.active is not None and not self.active.abandoned():
            raise ConcurrentQueryError(f"{self.busy()} Wait for it to finish, or interrupt() it first.")
        return self.conversation.drop_unanswered_prompt()

    def add_tools(self, tools: Iterable[ToolDefinition]) -> None:
        """Offer more tools, from the next model request on.

        Raises:
            OptionError: something is no tool, or its name is taken or reserved.
        """
        new = list(tools)
        self.toolset.add(new)
        if isinstance(self.active, Run) and self.active.tools is not self.toolset:
            self.active.tools.add(new)

    def fork(self, **overrides: Any) -> "Agent":
        """Return a new session of the same agent: its own id and history, the same client, tools and workspace.

        ``history_store``, ``journal``, ``tracer``, ``model_client`` and ``session_id`` may be given; a store and a
        journal are never shared.

        Raises:
            OptionError: another override, or one that cannot be used.
        """
        allowed = {"history_store", "journal", "tracer", "model_client", "session_id"}
        unknown = sorted(set(overrides) - allowed)
        if unknown:
            raise OptionError(f'Agent.fork: unknown option "{unknown[0]}"; known are {", ".join(sorted(allowed))}')
        check_ports(overrides)
        submit = None if self.output_schema is None else submit_output_tool(self.output_schema)
        own = [entry for entry in self.toolset.by_name.values() if submit is None or entry.name != submit.name]
        return Agent(
            self.definition,
            session_id=overrides.get("session_id") or str(uuid.uuid4()),
            model_client=overrides.get("model_client") or self.model_client,
            toolset=Toolset(own, last=submit),
            workspace=self.workspace,
            tracer=overrides.get("tracer") or self.tracer,
            history_store=overrides.get("history_store"),
            journal=overrides.get("journal"),
        )

    def _settings(self, options: dict[str, Any]) -> Any:
        return read_query_options(self.definition, self.tracer, options)

    def _stream(self, run: Run) -> AsyncGenerator[SDKMessage, None]:
        events = run.events()
        run.owner = weakref.ref(events)
        return events


def build_agent(options: dict[str, Any], *, make_client: Any, bare: bool = False, spawned: bool = False) -> Agent:
    """Make an agent; ``make_client(options)`` gives the model client if the options hold none.

    Everything is checked before anything is created.

    Raises:
        OptionError: an option is unknown, missing or has a value that cannot be used.
    """
    definition = read_agent_options(options)
    check_ports(options)
    session_id = str(uuid.uuid4())
    workspace = None
    if not bare:
        workspace = resolve_workspace(
            options.get("workspace"), name=definition.name, session_id=session_id, spawned=spawned
        )
    schema = definition.output_schema
    toolset = Toolset(
        [*([] if workspace is None else workspace_tools(workspace)), *listed_tools(options.get("tools"))],
        last=None if schema is None else submit_output_tool(schema),
    )
    if workspace is not None:
        workspace.create()
    client = options.get("model_client")
    return Agent(
        definition,
        session_id=session_id,
        model_client=make_client(options) if client is None else client,
        toolset=toolset,
        workspace=workspace,
        tracer=options.get("tracer"),
        history_store=options.get("history_store"),
        journal=options.get("journal"),
    )


def _content(prompt: Any) -> Any:
    try:
        return read_prompt(prompt)
    except MalformedMessageError as error:
        raise OptionError(f"query: {error}", cause=error) from error


async def _collect(run: Run) -> SDKResultMessage:
    result = None
    run.observed = False
    async for event in run.events():
        if type(event) is SDKResultMessage:
            result = event
    if result is None:
        raise LatticeError("Agent query completed without a result message")
    return result
