"""How a scenario is described: a team, what is done with it, and what must come of that, wherever it runs.

The agents of a scenario may be in one process or in many. So their models are functions of what they are sent, and
nothing is shared between them but what the team carries, and a ``Stage`` on disk where they note what they do.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lattice.testing import tool_use
from tests.contracts.backends import TEAM
from tests.teams import results, team_of

KINDS = (
    "serial",
    "bounded",
    "all at once",
    "one mailbox",
    "ask beside handoff",
    "asking",
    "deadlines",
    "failure",
    "abort",
    "interrupt",
    "nested",
    "follow-up",
    "notes",
    "drain",
    "grants",
    "typed",
    "rules of a batch",
    "several runs",
    "two teams",
    "differing",
)
SCENARIOS: dict[str, Callable[["Making"], "Scenario"]] = {}
KIND_OF: dict[str, str] = {}


@dataclass(frozen=True)
class Scenario:
    """``expect`` checks the ``Outcome`` of one run; ``play`` is for what takes more, and gets the world.

    The run is aborted ``abort_at`` an event, in short; ``abort_on`` a note on the stage; or before it has begun.
    ``concurrency`` is that of worker processes.
    """

    team: Any
    expect: Callable[[Any], None] | None = None
    play: Callable[[Any], Awaitable[None]] | None = None
    abort_at: str | None = None
    abort_on: str | None = None
    abort_first: bool = False
    permissions: dict[str, Any] | None = None
    task: Any = "go"
    concurrency: int | None = None
    others: tuple[Any, ...] = ()

    async def happen(self, world):
        """Do what the scenario says, and check what comes of it."""
        world.concurrency = self.concurrency
        if self.play is not None:
            await self.play(world)
            return
        aborts = {"abort_at": self.abort_at, "abort_on": self.abort_on, "abort_first": self.abort_first}
        self.expect(await world.run(self.team, self.task, permissions=self.permissions, **aborts))


def scenario(kind):
    """Register a description; it takes a ``Making`` and returns a ``Scenario``."""
    assert kind in KINDS, kind

    def register(describe):
        assert describe.__name__ not in SCENARIOS, f"there are two scenarios {describe.__name__}"
        SCENARIOS[describe.__name__] = describe
        KIND_OF[describe.__name__] = kind
        return describe

    return register


class Stage:
    """A file where agents of one or many processes note what they do, and wait for what others have noted."""

    def __init__(self, folder):
        self._path = Path(folder) / "stage"

    def note(self, word):
        with self._path.open("ab", buffering=0) as notes:
            notes.write(f"{word}\n".encode())

    @property
    def notes(self):
        return self._path.read_text("utf-8").splitlines() if self._path.exists() else []

    async def reached(self, *words):
        """Wait until all of these have been noted."""
        await self.holds(lambda notes: set(words) <= set(notes))

    async def holds(self, condition):
        """Wait until something is true of the notes."""
        async with asyncio.timeout(20):
            while not condition(self.notes):
                await asyncio.sleep(0.005)

    @contextmanager
    def at_work(self, who):
        self.note(f"begin {who}")
        try:
            yield
        finally:
            self.note(f"end {who}")

    @property
    def most_at_once(self):
        now = most = 0
        for note in self.notes:
            now += note.startswith("begin ") - note.startswith("end ")
            most = max(most, now)
        return most

    def count(self, word):
        return self.notes.count(word)


class Making:
    """Makes the teams of a scenario; ``options`` are what a world adds to them."""

    def __init__(self, folder, options=dict):
        self.stage = Stage(folder)
        self._options = options

    def __call__(self, lead, members=(), *, name=TEAM, **options):
        return team_of(lead, dict(members), name=name, **self._options(), **options)


def team():
    """An app for the commands: the team that the environment names."""
    described = SCENARIOS[os.environ["LATTICE_TEST_SCENARIO"]](Making(os.environ["LATTICE_TEST_STAGE"]))
    teams = {team.key: team for team in (described.team, *described.others)}
    return teams[os.environ["LATTICE_TEST_TEAM"]]


def first_result(request):
    """A model that says what its last tool call returned."""
    return results(request)[0]


async def never_answers(request):
    """A model that is at it until it is aborted."""
    await request.signal.wait()
    raise AssertionError("an aborted call is waited for no longer")


def answers(name, request, content):
    """A call of team_reply or team_followup for the message that a member works on."""
    message_id = str(request.messages[0]["content"]).split("message_id: ")[1].split()[0]
    return tool_use(name, {"message_id": message_id, "content": content})


def rounds_of(request):
    """How often a model has answered so far in the conversation that it is sent."""
    return sum(message["role"] == "assistant" for message in request.messages)


def is_resumed(request):
    """Whether a lead has been told of reports."""
    return any(str(m["content"]).startswith("Team runtime update") for m in request.messages if m["role"] == "user")
