"""Draws an actor's model calls from the budget of the run that it works for."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from lattice.errors import BudgetExceededError, DeadlineExceededError, LatticeError
from lattice.messages import input_tokens
from lattice.runs import Account, Allowance, Budget, RunRecord
from lattice.team.answers import Answer, event_type, read_field

__all__ = ["Meter", "Purse", "account_of", "budget_error"]

_NEAR = 0.8
"""Which part of a limit has to be used before the lead is told."""


class Ledger(Protocol):
    """What keeps the counts; every run store does."""

    def draw(self, run_id: str, budget: Budget, *, calls: int = 1, tokens: int = 0) -> Awaitable[Allowance]:
        """See ``RunStore.draw``."""
        ...


class Purse:
    """A run's account, and where its counts are kept."""

    __slots__ = ("account", "ledger")

    def __init__(self, account: Account, ledger: Ledger) -> None:
        self.account = account
        self.ledger = ledger

    async def draw(self, *, calls: int, tokens: int) -> Allowance:
        """Count tokens, and ask for model calls."""
        return await self.ledger.draw(self.account.run_id, self.account.budget, calls=calls, tokens=tokens)

    async def seconds_left(self) -> float | None:
        """Return how long the run may still take, None if that is not limited."""
        limit = self.account.budget.max_seconds
        if limit is None:
            return None
        return limit - (await self.draw(calls=0, tokens=0)).elapsed_ms / 1000


class Meter:
    """What one actor draws from a purse. Tokens are counted when they are known: with the next draw."""

    __slots__ = ("_counted", "_told", "_waiting", "purse")

    def __init__(self, purse: Purse) -> None:
        self.purse = purse
        self._waiting = 0
        self._counted = 0
        self._told = False

    def see(self, event: Any) -> None:
        """Count the tokens of an assistant message."""
        if event_type(event) == "assistant":
            tokens = _tokens((read_field(event, "message") or {}).get("usage"))
            self._waiting += tokens
            self._counted += tokens

    async def before_call(self) -> None:
        """Ask for one model call.

        Raises:
            BudgetExceededError: the run has used up its calls or tokens.
            DeadlineExceededError: the run has used up its time.
        """
        error = budget_error(await self._draw(1), self.purse.account.budget)
        if error is not None:
            raise error

    async def end_query(self, answer: Answer, *, is_team: bool) -> None:
        """Count what a query used beyond its assistant messages: a summary, say. A team draws for itself."""
        if not is_team:
            self._waiting += max(0, _tokens(answer.usage) - self._counted)
        self._counted = 0
        if self._waiting:
            await self._draw(0)

    async def note(self) -> str | None:
        """Return what the lead is told when the budget is nearly used up: once, None otherwise."""
        if self._told:
            return None
        used = _used(await self._draw(0), self.purse.account.budget)
        if all(part < _NEAR for part, _ in used):
            return None
        self._told = True
        return (
            f"Budget of this run: {', '.join(text for _, text in used)}. When it is used up, the run fails. Hand off no"
            " more work; give your final answer now, with what you have."
        )

    async def _draw(self, calls: int) -> Allowance:
        tokens, self._waiting = self._waiting, 0
        return await self.purse.draw(calls=calls, tokens=tokens)


def account_of(run: RunRecord, budget: Budget, space: str | None) -> Account | None:
    """Return what a run is paid from: the account that it was given, or its own if it or its team has a budget.

    ``space`` is the key space of the run's store, None for that of an outermost team.
    """
    given = run.options.get("account")
    if given is not None:
        return Account.from_list(given)
    limits = Budget.read(run.options.get("budget")).or_else(budget)
    return Account(space or "", run.id, limits) if limits else None


def budget_error(allowance: Allowance, budget: Budget) -> LatticeError | None:
    """Return the error that a refused draw stands for, None if it was granted."""
    used = ", ".join(text for _, text in _used(allowance, budget))
    if allowance.word == "budget_exceeded":
        return BudgetExceededError(f"The budget of the run is used up: {used}")
    if allowance.word == "deadline_exceeded":
        return DeadlineExceededError(f"The time of the run is used up: {used}")
    return None


def _used(allowance: Allowance, budget: Budget) -> list[tuple[float, str]]:
    """Return which part of each limit is used, and how to say it."""
    known = (
        (allowance.model_calls, budget.max_model_calls, "model calls"),
        (allowance.tokens, budget.max_tokens, "tokens"),
        (allowance.elapsed_ms / 1000, budget.max_seconds, "seconds"),
    )
    return [(used / limit, f"{used:,.0f} of {limit:,g} {what}") for used, limit, what in known if limit is not None]


def _tokens(usage: Mapping[str, Any] | None) -> int:
    return input_tokens(usage) + int(usage.get("output_tokens") or 0) if usage else 0
