"""The RQ queue of a team, and the job that stands for one of its runs."""

from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Queue, Retry
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from rq.webhook import Webhook

__all__ = ["JOB_FUNCTION", "make_job", "queue_name", "queue_of"]

JOB_FUNCTION = "lattice.rq.jobs.drive_run"
NO_TIMEOUT = -1
_SERVER_VERSION = (6, 2, 0)
"""What RQ may assume of the server; asking it would cost each submit a round trip."""


def queue_name(team: str) -> str:
    """The name of a team's queue."""
    return f"lattice-{team}"


def queue_of(team: str, connection: Redis) -> Queue:
    """Return the queue of a team; the connection is used by RQ's own blocking calls only."""
    queue = Queue(
        queue_name(team),
        connection=connection,
        serializer=JSONSerializer,
        default_timeout=NO_TIMEOUT,
        death_penalty_class=TimerDeathPenalty,
    )
    queue.redis_server_version = _SERVER_VERSION
    return queue


def make_job(
    queue: Queue,
    run_id: str,
    *,
    description: str,
    keep: int,
    retry: Retry | None = None,
    webhooks: Sequence[Webhook] = (),
    depends_on: Sequence[str] = (),
    on_success: Any = None,
    on_failure: Any = None,
) -> Job:
    """Make, but do not enqueue, the job of a run; its result and its failure are kept for ``keep`` seconds."""
    return queue.create_job(
        JOB_FUNCTION,
        args=(run_id,),
        job_id=run_id,
        description=description,
        timeout=NO_TIMEOUT,
        result_ttl=keep,
        failure_ttl=keep,
        retry=retry,
        webhooks=list(webhooks) or None,
        depends_on=list(depends_on) or None,
        on_success=on_success,
        on_failure=on_failure,
    )
