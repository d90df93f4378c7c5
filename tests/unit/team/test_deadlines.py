"""Deadlines of questions that no team is needed for, and those that are refused."""

import pytest

from lattice import OptionError, agent_tool, team_member
from tests.scenarios.description import first_result, never_answers
from tests.teams import ask, spec


async def test_the_agent_alone_has_the_deadline_as_well():
    child = spec("child", never_answers)
    agent = spec("lead", [ask("child"), first_result], tools=[agent_tool("child", child, ask_timeout_ms=80)]).spawn()
    result = await agent.prompt("go")
    assert "Error code: timeout\nReason: child has not answered within 0.08 s" in result.result


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_a_deadline_that_cannot_be_used_is_refused(value):
    with pytest.raises(OptionError, match="ask_timeout_ms must be a positive integer"):
        agent_tool("a", spec("a", []), ask_timeout_ms=value)
    with pytest.raises(OptionError, match="ask_timeout_ms must be a positive integer"):
        team_member(name="a", agent=spec("a", []), ask_timeout_ms=value)
