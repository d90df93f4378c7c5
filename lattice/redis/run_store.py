"""The run store on Redis: every step is one script, every script one step."""

from lattice.redis.dead_letter_steps import DeadLetterSteps
from lattice.redis.lease_steps import LeaseSteps
from lattice.redis.message_steps import MessageSteps
from lattice.redis.provider_pauses import ProviderPauses
from lattice.redis.waiting import Waiting
from lattice.redis.work_steps import WorkSteps

__all__ = ["RedisRunStore"]


class RedisRunStore(MessageSteps, LeaseSteps, WorkSteps, DeadLetterSteps, ProviderPauses, Waiting):
    """A ``RunStore`` on Redis, for any number of processes of one team; also the gate of their model providers.

    Belongs to one event loop. A command whose connection breaks is repeated, with pauses, for ``patience`` seconds;
    then ``StoreUnreachableError`` (also a ``ConnectionError``) says that Redis is away. Blocking waits are
    not repeated, they raise it at once.
    """
