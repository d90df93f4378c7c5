"""Drives one actor: a query, the work that it hands off, the reports, the next query, until it ends."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lattice.agent.agent import Agent
from lattice.agent.spec import AgentSpec, is_agent_spec
from lattice.errors import AgentSetupError, LatticeError
from lattice.events import AgentMessageEvent, SDKResultMessage, SDKStreamEvent
from lattice.mailbox import TeamMessage
from lattice.team.actor import Actor
from lattice.team.answers import Answer, event_type, read_answer
from lattice.team.failures import describe
from lattice.team.prompts import resume_prompt
from lattice.team.runtime import TeamRuntime
from lattice.workspace.workspace import resolve_workspace

__all__ = ["MAX_ROUNDS", "RESUME", "Opening", "drive", "interrupted", "open_session", "resumed", "spawn", "tell"]

MAX_ROUNDS = 50
"""How often one actor may hand off and be resumed."""

RESUME: Any = object()
"""The opening of an actor whose conversation goes on where it stopped."""

Opening = Any
"""A prompt, or ``RESUME``."""

_TEAM_EVENTS = frozenset({"team_message", "team_agent", "agent_message"})


def open_session(agent: Any, conversation: str, *, history_store: Any = None, journal: Any = None) -> Any:
    """Return a session of an agent for one conversation; a host's own agent is its own session.

    A template without a workspace of its own gets one that belongs to the conversation: whoever goes on with it after a
    crash finds the files that it speaks of.

    Raises:
        AgentSetupError: the agent cannot be made, and never will be, of what it is to be made of.
        OSError: its workspace cannot be made here and now.
    """
    if isinstance(agent, AgentSpec):
        return spawn(agent, history_store=history_store, journal=journal, workspace=_workspace_of(agent, conversation))
    if isinstance(agent, Agent):
        return agent.fork(history_store=history_store, journal=journal)
    return spawn(agent) if is_agent_spec(agent) else agent


def spawn(template: Any, **overrides: Any) -> Any:
    """Return a session of a template.

    Raises:
        AgentSetupError: an option of it cannot be used, which shows only now.
        OSError: its workspace cannot be made here and now.
    """
    try:
        return template.spawn(**overrides)
    except OSError:
        raise
    except Exception as error:
        name = getattr(template, "name", None) or type(template).__name__
        raise AgentSetupError(f"the agent {name!r} cannot be made: {describe(error)}", cause=error) from error


def _workspace_of(spec: AgentSpec, conversation: str) -> Any:
    option = spec.options.get("workspace")
    if option is None or option is True or option == "":
        return resolve_workspace(None, name=spec.name, session_id=conversation, spawned=True)
    if isinstance(option, Mapping) and not option.get("cwd"):
        default = resolve_workspace(None, name=spec.name, session_id=conversation, spawned=True)
        return {**option, "cwd": str(default.cwd) if default is not None else None}
    return option


async def drive(actor: Actor, session: Any, opening: Opening, *, rounds: int = 0) -> Answer:
    """Query, wait for what was handed off, and query again with the reports; returns the answer that ends it.

    ``rounds`` is how often the actor was resumed before.

    Raises:
        LatticeError: the actor handed off more than ``MAX_ROUNDS`` times.
    """
    runtime = TeamRuntime(actor)
    while True:
        answer = await _query(actor, runtime, session, opening)
        if not runtime.accepted or answer.is_error:
            return answer
        if actor.is_lead:
            tell(actor, answer.event, "result")
        if rounds >= MAX_ROUNDS:
            raise LatticeError(f"Team runner exceeded maximum handoff follow-up rounds ({MAX_ROUNDS})")
        rounds += 1
        runtime.accepted = 0
        if actor.reopen is not None and actor.is_heavy():
            session = None  # hundreds of waiting leads must cost little; the store has it all
        actor.resting = True
        async with actor.waiting():
            reports = await actor.post.reports()
        actor.resting = False
        if session is None and actor.reopen is not None:
            session = await actor.reopen()
        if actor.interrupted:
            return interrupted(answer)
        opening = await resumed(actor, reports)


async def resumed(actor: Actor, reports: Iterable[TeamMessage]) -> str:
    """Return the prompt that an actor goes on with; a lead whose budget nears its end is told so."""
    prompt = resume_prompt(actor.mailbox, reports)
    note = await actor.meter.note() if actor.meter is not None and actor.is_lead else None
    return prompt if note is None else f"{prompt}\n\n{note}"


def interrupted(answer: Answer | None = None) -> Answer:
    """Return the answer of an actor that was interrupted while it waited, or before it was asked."""
    event = None if answer is None else answer.event
    if isinstance(event, SDKResultMessage):
        return Answer(replace(event, subtype="interrupted", result="", paused=False))
    usage = {"input_tokens": 0, "output_tokens": 0}
    ended = {"type": "result", "subtype": "interrupted", "is_error": False, "result": "", "session_id": ""}
    return Answer({**ended, "num_turns": 0, "usage": usage})


async def _query(actor: Actor, runtime: TeamRuntime, session: Any, opening: Opening) -> Answer:
    last, meter = None, actor.meter
    actor.session = session
    try:
        async for event in _events(actor, runtime, session, opening):
            kind = event_type(event)
            if meter is not None:
                meter.see(event)
            if kind == "result":
                last = event
            if last is None or not actor.is_lead:
                tell(actor, event, kind)
    finally:
        actor.session = None
    answer = read_answer(last, actor.name)
    actor.post.add_usage(answer.total_usage or answer.usage)
    if meter is not None:
        await meter.end_query(answer, is_team=callable(getattr(session, "drain", None)))
    return answer


def _events(actor: Actor, runtime: TeamRuntime, session: Any, opening: Opening) -> AsyncIterator[Any]:
    options = {**actor.query_options, "signal": actor.signal, "runtime": runtime}
    if opening is RESUME:
        return session.resume(**options)  # type: ignore[no-any-return]
    return session.query(opening, **options)  # type: ignore[no-any-return]


def tell(actor: Actor, event: Any, kind: Any) -> None:
    """Tell an event of the actor as the run's listeners see it."""
    if kind in _TEAM_EVENTS or (actor.is_lead and kind != "result"):
        actor.post.emit(event)
    elif isinstance(event, SDKStreamEvent):
        if event.source is None:
            event = SDKStreamEvent(event.event, event.session_id, actor.source)
        actor.post.emit(event)
    else:
        actor.post.emit(AgentMessageEvent(actor.source, event))
