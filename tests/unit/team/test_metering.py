"""Budgets of teams that run in one process."""

import pytest

from lattice.errors import AbortError, BudgetExceededError, DeadlineExceededError, OptionError
from lattice.runs import Account, Allowance, Budget, RunRecord
from lattice.team.metering import Meter, Purse, account_of, budget_error
from lattice.testing import turn
from tests.teams import ask, echo, handoff, model_of, team_of


async def test_a_run_that_has_used_up_its_model_calls_ends_with_an_error():
    team = team_of([turn(handoff("a")), "never"], {"a": echo("a")}, budget={"max_model_calls": 2})
    with pytest.raises(BudgetExceededError, match="2 of 2 model calls"):
        await team.prompt("go")
    assert model_of(team.lead).calls == 1


async def test_each_run_has_a_budget_of_its_own():
    team = team_of(lambda _request: "done", {"a": echo("a")}, budget={"max_model_calls": 1})
    assert (await team.prompt("one")).result == "done"
    assert (await team.prompt("two")).result == "done"


async def test_a_team_inside_a_team_draws_from_the_outer_run():
    inner = team_of([turn(ask("x")), "inner"], {"x": echo("x")}, name="inner", budget={"max_model_calls": 1})
    outer = team_of([turn(handoff("inner")), "done"], {"inner": inner}, name="outer", budget={"max_model_calls": 4})
    with pytest.raises(BudgetExceededError, match="4 of 4"):
        await outer.prompt("go")
    assert model_of(inner.lead).calls == 2


async def test_a_run_that_takes_too_long_is_stopped():
    async def slow(request):
        await request.signal.wait()
        raise AbortError

    for lead, members in ((slow, {}), ([turn(handoff("a")), "never"], {"a": slow})):
        team = team_of(lead, members, budget={"max_seconds": 0.05})
        with pytest.raises(DeadlineExceededError, match="0.05 seconds"):
            await team.prompt("go")


async def test_the_lead_is_told_when_the_budget_nears_its_end():
    seen = []

    def lead(request):
        seen.append(str(request.messages[-1]["content"]))
        return turn(handoff("a")) if len(seen) < 3 else "done"

    await team_of(lead, {"a": echo("a")}, budget={"max_model_calls": 5}).prompt("go")
    assert ["Budget of this run" in text for text in seen] == [False, False, True]


@pytest.mark.parametrize("budget", [{"max_turns": 1}, {"max_tokens": -1}, {"max_seconds": "5"}])
def test_budgets_that_cannot_be_used_are_refused(budget):
    with pytest.raises(OptionError, match="budget"):
        team_of(["x"], {}, budget=budget)


# --- the parts ------------------------------------------------------------------------------------------------------


class Ledger:
    def __init__(self, *words):
        self.words, self.drawn = list(words), []

    async def draw(self, run_id, budget, *, calls=1, tokens=0):
        self.drawn.append((run_id, calls, tokens))
        return Allowance(self.words.pop(0) if self.words else "granted", 1, 2, 3_000)


def assistant(**usage):
    return {"type": "assistant", "message": {"role": "assistant", "content": [], "usage": usage}}


async def test_tokens_are_counted_with_the_next_draw_and_at_the_end_of_a_query():
    ledger = Ledger()
    meter = Meter(Purse(Account("", "run", Budget(max_tokens=9)), ledger))
    await meter.before_call()
    meter.see(assistant(input_tokens=1, cache_creation_input_tokens=2, cache_read_input_tokens=3, output_tokens=4))
    meter.see({"type": "user", "message": {}})
    await meter.before_call()
    await meter.end_query(answer_with(input_tokens=30, output_tokens=5), is_team=False)
    assert ledger.drawn == [("run", 1, 0), ("run", 1, 10), ("run", 0, 25)]


async def test_a_team_counts_for_itself():
    ledger = Ledger()
    meter = Meter(Purse(Account("", "run", Budget(max_tokens=9)), ledger))
    await meter.end_query(answer_with(input_tokens=30), is_team=True)
    assert ledger.drawn == []


def answer_with(**usage):
    from lattice.team.answers import Answer

    return Answer({"type": "result", "subtype": "success", "usage": usage})


async def test_a_refused_draw_is_an_error_that_says_what_was_used():
    budget = Budget(max_tokens=2, max_seconds=3)
    assert budget_error(Allowance("granted"), budget) is None
    assert budget_error(Allowance("missing"), budget) is None
    assert "2 of 2 tokens, 3 of 3 seconds" in budget_error(Allowance("deadline_exceeded", 1, 2, 3_000), budget).message


def test_a_run_pays_for_itself_unless_it_was_given_an_account():
    run = RunRecord(id="r", team="t", task="x", options={"budget": {"max_tokens": 5}})
    assert account_of(run, Budget(max_tokens=9, max_seconds=1), None) == Account(
        "", "r", Budget(max_tokens=5, max_seconds=1)
    )
    assert account_of(RunRecord(id="r", team="t", task="x"), Budget(), None) is None
    given = Account("outer", "other", Budget(max_tokens=1))
    inner = RunRecord(id="r", team="t", task="x", options={"account": given.to_list()})
    assert account_of(inner, Budget(max_tokens=9), "outer.a") == given
