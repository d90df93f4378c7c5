"""``lattice-submit`` as users meet it: real processes on a real Redis."""

import asyncio
import json
import signal

import pytest
import redis as blocking

from lattice.client import LatticeClient
from tests.processes.commands import MEMBERS, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes]


@pytest.fixture
async def client(redis_url):
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        yield client


@pytest.fixture
def redis(redis_url):
    client = blocking.Redis.from_url(redis_url, decode_responses=True)
    yield client
    client.close()


async def test_it_prints_the_run_id_and_nothing_else(scripts, redis):
    done = await scripts.done("lattice-submit", "do it")
    assert done.returncode == 0
    run_id = done.out.strip()
    assert done.out == f"{run_id}\n" and len(run_id) == 26
    assert redis.hget(f"rq:job:{run_id}", "status") == "queued"
    assert redis.lrange("rq:queue:lattice-trio", 0, -1) == [run_id]


async def test_json_is_one_object(commands):
    done = await commands.done("lattice-submit", "do it", "--json")
    assert list(json.loads(done.out)) == ["run_id"]


async def test_the_team_may_be_named_instead_of_loaded(commands, redis):
    done = await commands.done("lattice-submit", "do it", "--team", "trio", LATTICE_APP="")
    assert done.returncode == 0
    assert redis.lrange("rq:queue:lattice-trio", 0, -1) == [done.out.strip()]


async def test_a_dash_reads_the_task_from_stdin(commands, client):
    done = await commands.done("lattice-submit", "-", stdin="größer\nals eine Zeile\n".encode())
    run = await client.run(done.out.strip())
    assert run.task == "größer\nals eine Zeile\n"


async def test_the_same_key_gives_the_same_run(commands, redis):
    first = await commands.done("lattice-submit", "do it", "--id", "order-17")
    second = await commands.done("lattice-submit", "do it", "--id", "order-17")
    other = await commands.done("lattice-submit", "do it", "--id", "order-18")
    assert first.out == second.out != other.out
    assert redis.llen("rq:queue:lattice-trio") == 2


async def test_a_scheduled_run_is_not_queued_yet(commands, redis):
    done = await commands.done("lattice-submit", "do it", "--in", "1h")
    assert redis.hget(f"rq:job:{done.out.strip()}", "status") == "scheduled"
    assert redis.llen("rq:queue:lattice-trio") == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([""], "the task is empty"),
        (["  "], "the task is empty"),
        ([], "what is the task"),
        (["x", "--max-message-bytes", "0"], "max"),
        (["xyz", "--max-message-bytes", "2"], "the limit is 2"),
        (["x", "--in", "soon"], "no duration"),
        (["x", "--at", "soon"], "no time"),
        (["x", "--in", "1s", "--at", "2030-01-01"], "one of them"),
        (["x", "--webhook", "ftp://a"], "webhook"),
        (["x", "--retry", "-1"], "retry"),
        (["x", "--id", " "], "id is empty"),
        (["x", "--max-seconds", "soon"], "no duration"),
        (["x", "--max-seconds", "0"], "max_seconds"),
        (["x", "--max-tokens", "0"], "max-tokens"),
        (["x", "--max-model-calls", "none"], "max-model-calls"),
        (["x", "--no-such-option"], "no-such-option"),
        (["--run", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], "there is no run"),
        (["x", "--run", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], "takes no task"),
    ],
)
async def test_bad_input_is_an_error_before_anything_is_written(commands, redis, args, says):
    done = await commands.done("lattice-submit", *args)
    assert done.returncode == 2
    assert says in done.err and done.out == ""
    assert redis.dbsize() == 0


async def test_no_app_says_where_it_looked(commands, tmp_path):
    done = await commands.done("lattice-submit", "x", LATTICE_APP="", cwd=tmp_path)
    assert done.returncode == 2
    assert "team.py" in done.err and "--team" in done.err


async def test_an_unreachable_redis_is_named_without_its_password(scripts):
    done = await scripts.done("lattice-submit", "x", LATTICE_REDIS_URL="redis://user:secret@127.0.0.1:1/0")
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.err and "secret" not in done.err and "Traceback" not in done.err


async def test_a_run_that_is_over_its_budget_fails_and_says_so(commands):
    commands.team(*MEMBERS)
    done = await commands.done(
        "lattice-submit", "count", "--wait", "--json", "--max-model-calls", "4", "--max-seconds", "5m"
    )
    assert done.returncode == 1
    outcome = json.loads(done.out)
    assert (outcome["status"], outcome["error"]["code"]) == ("failed", "budget_exceeded")
    shown = await commands.done("lattice", "show", outcome["run_id"], "--json")
    assert json.loads(shown.out)["model_calls"] == 4
    resumed = await commands.done("lattice", "resume", outcome["run_id"], "--max-model-calls", "5", "--json")
    assert json.loads(resumed.out)["budget"] == {"max_model_calls": 5, "max_seconds": 300.0}
    assert (await commands.done("lattice-submit", "--run", outcome["run_id"])).returncode == 0
    refused = await commands.done("lattice", "resume", outcome["run_id"])
    assert refused.returncode == 2
    assert "is succeeded; only a run that has failed" in refused.err
    assert (await commands.done("lattice-submit", "count", "--wait", "--max-model-calls", "5")).returncode == 0
    late = await commands.done("lattice-submit", "count", "--wait", "--max-seconds", "1ms")
    assert "deadline_exceeded" in late.err


async def test_wait_prints_the_result(commands):
    commands.team(*MEMBERS)
    done = await commands.done("lattice-submit", "count", "--wait")
    assert done.returncode == 0
    assert done.out == "alpha count / alpha; beta count / beta; gamma count / gamma\n"


async def test_wait_with_json_prints_what_the_rq_job_returned(commands, redis_url):
    commands.team(*MEMBERS)
    done = await commands.done("lattice-submit", "count", "--wait", "--json")
    outcome = json.loads(done.out)
    assert set(outcome) == {"run_id", "status", "result", "usage", "error"}
    assert (outcome["status"], outcome["error"]) == ("succeeded", None)
    connection = blocking.Redis.from_url(redis_url)
    from rq.job import Job
    from rq.serializers import JSONSerializer

    job = Job.fetch(outcome["run_id"], connection=connection, serializer=JSONSerializer)
    await eventually(lambda: job.get_status() == "finished")
    assert job.return_value() == outcome
    connection.close()


async def test_follow_shows_who_works_on_what_and_prints_the_result(commands):
    commands.team(*MEMBERS)
    done = await commands.done("lattice-submit", "count", "--follow")
    assert done.returncode == 0
    assert done.out == "alpha count / alpha; beta count / beta; gamma count / gamma\n"
    for member in MEMBERS:
        assert f"{member} | starts count / {member}" in done.err
        assert f"{member} | answer {member}" in done.err


async def test_whoever_waits_is_told_that_nobody_is_alive_and_the_run_waits(commands):
    waiting = commands.start("lattice-submit", "count", "--wait")
    await eventually(lambda: "no coordinator is alive" in waiting.err)
    commands.start("lattice-coordinator")
    await eventually(lambda: "no worker for member 'beta' is alive" in waiting.err)
    for member in MEMBERS:
        commands.start("lattice-worker", "--member", member)
    assert await waiting.ended() == 0


async def test_ctrl_c_detaches_and_says_how_to_follow_again(commands, client):
    waiting = commands.start("lattice-submit", "count", "--wait")
    await eventually(lambda: "run " in waiting.err)
    waiting.kill(signal.SIGINT)
    assert await waiting.ended() == 130
    run_id = (await client.runs())[0].id
    assert f"--run {run_id} --follow" in waiting.err and "Traceback" not in waiting.err
    assert (await client.run(run_id)).status == "queued"
    commands.team(*MEMBERS)
    again = await commands.done("lattice-submit", "--run", run_id)
    assert (again.returncode, again.out[:5]) == (0, "alpha")


async def test_a_cancelled_run_ends_with_3(commands, client):
    waiting = commands.start("lattice-submit", "count", "--wait", "--json")
    await eventually(lambda: "run " in waiting.err)
    run_id = (await client.runs())[0].id
    assert await client.cancel(run_id) == "cancelled"
    assert await waiting.ended() == 3
    assert json.loads(waiting.out)["status"] == "cancelled"


async def test_a_run_that_fails_ends_with_1_and_says_why(commands):
    commands.start("lattice-coordinator", LATTICE_APP="tests.apps.failing_lead:team")
    done = await commands.done("lattice-submit", "count", "--wait", LATTICE_APP="tests.apps.failing_lead:team")
    assert done.returncode == 1
    assert "the model broke" in done.err and done.out == ""


async def test_a_waiting_submitter_survives_killed_connections(commands, redis):
    waiting = commands.start("lattice-submit", "count", "--wait")
    await eventually(lambda: "run " in waiting.err)
    for _ in range(3):
        redis.client_kill_filter(_type="normal", skipme=True)
        await asyncio.sleep(0)
    commands.team(*MEMBERS)
    assert await waiting.ended() == 0
