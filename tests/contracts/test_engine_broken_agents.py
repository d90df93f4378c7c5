"""Agents that cannot be made of their template: the work fails at once and for good, with the reason, wherever it runs."""

import asyncio
import logging

from lattice import OptionError, team_member
from lattice.mailbox import TeamMessage
from lattice.team.store_mail import StoreMail
from lattice.testing import turn
from tests.cluster import until
from tests.teams import ask, echo, handoff, results, said, team_of


class Broken:
    """A template that shows only when it is used that it cannot be."""

    name = "broken"
    made = 0

    def spawn(self, **overrides):
        self.made += 1
        raise OptionError("AgentOptions.max_tokens must be a positive integer, not -1")


def first_result(request):
    return results(request)[0]


async def test_a_handoff_fails_at_once_and_the_others_go_on(start, caplog):
    broken = Broken()
    team = team_of([turn(handoff("a"), handoff("b")), said], {"a": broken, "b": echo("b")})
    cluster = start(team)
    with caplog.at_level(logging.ERROR, "lattice.team"):
        outcome = await cluster.run()
    assert outcome["status"] == "succeeded"
    assert "Error code: invalid_agent\nReason: the agent 'broken' cannot be made: AgentOptions.max" in outcome["result"]
    assert outcome["result"].endswith("b did work")
    (state,) = [one for one in await cluster.store.work_items("run") if one.member == "a"]
    assert (state.message.status, state.attempts) == ("failed", 1)
    assert await cluster.store.dead_letters() == []
    assert broken.made == 1
    assert "fails for good: the agent 'broken' cannot be made" in caplog.text


async def test_a_question_is_an_error_result(start):
    outcome = await start(team_of([ask("a"), first_result], {"a": Broken()})).run()
    assert "Error code: invalid_agent" in outcome["result"]


async def test_it_is_not_tried_again(start):
    broken = Broken()
    member = team_member(
        name="a", agent=broken, retry={"attempts": 3, "first_delay": 0.001, "codes": ["request_timeout"]}
    )
    await start(team_of([handoff("a"), said], {"a": member})).run()
    assert broken.made == 1


async def test_a_lead_that_cannot_be_made_fails_the_run(start):
    cluster = start(team_of(Broken(), {"a": echo("a")}))
    outcome = await cluster.run()
    assert (outcome["status"], outcome["error"]["code"]) == ("failed", "invalid_agent")
    assert "cannot be made" in outcome["error"]["message"]


async def test_in_one_process_it_is_the_same():
    team = team_of([turn(handoff("a"), handoff("b")), said], {"a": Broken(), "b": echo("b")})
    result = await asyncio.wait_for(team.prompt("go"), 10)
    assert "Error code: invalid_agent\nReason: the agent 'broken' cannot be made" in result.result
    assert result.result.endswith("b did work")


async def test_mail_for_it_fails_with_the_reason(start):
    team = team_of(["end"], {"a": Broken()})
    cluster = start(team)
    await cluster.workers()
    mail = TeamMessage(id="", from_="manager", to="squad::a", content="hello")
    sent = await StoreMail(cluster.store, team.directory).send(mail)

    async def failed():
        return (await cluster.store.get(sent.id)).status == "failed"

    await until(failed)
    (report,) = await cluster.store.inbox("manager", "all")
    assert report.metadata["error"]["code"] == "invalid_agent"
