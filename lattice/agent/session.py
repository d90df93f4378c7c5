"""The lasting part of an agent: definition, tools, conversation, and the guard that lets in one query at a time."""

import asyncio
from pathlib import Path
from typing import Any, Protocol

from lattice.agent.conversation import Conversation
from lattice.agent.options import AgentDefinition
from lattice.agent.toolset import Toolset, concurrency_section
from lattice.errors import ConcurrentQueryError
from lattice.journal import MemoryJournal
from lattice.model import ModelClient
from lattice.workspace.grants import active_grants, grants_section
from lattice.workspace.workspace import Workspace

__all__ = ["Occupant", "Rewriting", "Session"]

OVERFLOW_FOLDER = ".tool-output"
"""Where, inside the workspace, the whole of a tool result is kept that was too long for the conversation."""


class Occupant(Protocol):
    """What holds a session: a query, or the replacement of its history."""

    started: bool
    closed: asyncio.Event

    def abandoned(self) -> bool:
        """Whether nobody is left who would go on with it."""
        ...

    def in_other_loop(self) -> bool:
        """Whether it ran in an event loop that is gone."""
        ...

    def interrupt(self) -> bool:
        """End it; False if it cannot be interrupted any more."""
        ...


class Session:
    """What an agent is between its queries, and what each query works on."""

    __slots__ = (
        "__weakref__",
        "_prompts",
        "active",
        "conversation",
        "definition",
        "journal",
        "journal_dirty",
        "model_client",
        "session_id",
        "toolset",
        "tracer",
        "workspace",
    )

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        session_id: str,
        model_client: ModelClient,
        toolset: Toolset,
        workspace: Workspace | None = None,
        tracer: Any = None,
        history_store: Any = None,
        journal: Any = None,
    ) -> None:
        self.definition = definition
        self.session_id = session_id
        self.model_client = model_client
        self.toolset = toolset
        self.workspace = workspace
        self.tracer = tracer
        self.conversation = Conversation(history_store)
        self.journal = MemoryJournal() if journal is None else journal
        self.journal_dirty = journal is not None
        self.active: Occupant | None = None
        self._prompts: tuple[Toolset, int, str | None] | None = None

    @property
    def name(self) -> str | None:
        """The name from the options."""
        return self.definition.name

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.definition.model

    @property
    def options(self) -> Any:
        """The options that the agent was made with, read-only."""
        return self.definition.options

    @property
    def output_schema(self) -> Any:
        """The very object given as ``output_schema``; None if there is none."""
        return self.definition.output_schema

    @property
    def overflow_dir(self) -> Path | None:
        """Where tool results that are too long for the conversation are kept whole; None without a workspace."""
        return None if self.workspace is None else self.workspace.cwd / OVERFLOW_FOLDER

    async def enter(self, run: Occupant) -> None:
        """Make ``run`` the one that is running; an abandoned one is waited for.

        Raises:
            ConcurrentQueryError: another one is running.
        """
        if self.active is not run:
            await self.wait_for_abandoned()
            if self.active is not None and self.active is not run:
                raise ConcurrentQueryError(
                    f"{self.busy()} An Agent holds one conversation: create a separate Agent per concurrent"
                    " conversation."
                )
        self.active = run
        run.started = True

    def leave(self, run: Occupant) -> None:
        """Let the next query in."""
        if self.active is run:
            self.active = None
        run.closed.set()

    def system_prompt_for(self, tools: Toolset, permissions: Any) -> str | None:
        """Return the system prompt of a query; None if there is nothing to say."""
        known = self._prompts
        if known is None or known[0] is not tools or known[1] != len(tools.names):
            known = self._prompts = (tools, len(tools.names), self._base_prompt(tools))
        if permissions is None:
            return known[2]
        return _joined(known[2], grants_section(active_grants(permissions)))

    def _base_prompt(self, tools: Toolset) -> str | None:
        return _joined(
            self.definition.system_prompt,
            None if self.workspace is None else self.workspace.prompt_section(),
            concurrency_section(tools, self.definition.concurrency),
        )

    async def wait_for_abandoned(self) -> None:
        """Wait until a query that nobody iterates any more has been cleaned up."""
        while (active := self.active) is not None and active.abandoned():
            if not active.started or active.in_other_loop():
                self.active = None
                return
            await active.closed.wait()

    def busy(self) -> str:
        """Say that a query is running."""
        return f"Agent {self.name or self.session_id} is already running a query."


class Rewriting:
    """Holds the agent while its history is replaced."""

    started = True
    closed = asyncio.Event()

    def abandoned(self) -> bool:
        """Never: whoever replaces a history waits for it."""
        return False

    def in_other_loop(self) -> bool:
        """Never."""
        return False

    def interrupt(self) -> bool:
        """Refuse: there is no query to end."""
        return False


def _joined(*sections: str | None) -> str | None:
    return "\n\n".join(text for section in sections if section and (text := section.strip())) or None
