import asyncio
import re
from pathlib import Path

import pytest

from lattice.abort import AbortController

BOUND = 20


async def until(condition):
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0.01)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def noted(path):
    return path.exists() and path.read_text().split() and path.read_text().endswith("\n")


async def test_success_is_stdout_then_stderr(tools):
    """agent:BASH-03"""
    assert await tools.ok("Bash", command="echo err >&2; echo out") == "out\nerr\n"
    assert await tools.ok("Bash", command="true") == "(no output)"


async def test_it_runs_in_the_workspace(tools, tmp_path):
    """agent:BASH-02"""
    assert await tools.ok("Bash", command="pwd") == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo partial; exit 3", "exit code 3\npartial\n"),
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "exit code -9: killed by SIGKILL"),
    ],
)
async def test_failure_names_the_exit_code(tools, command, told):
    """agent:BASH-04 agent:W-14 - ours shows it."""
    assert await tools.error("Bash", command=command) == f"Tool Bash failed: {told}"


async def test_standard_input_is_empty(tools):
    """agent:BASH-06 agent:W-14"""
    assert await tools.ok("Bash", command="cat; echo end") == "end\n"


async def test_secrets_of_the_host_stay_with_the_host(make_tools, monkeypatch):
    """agent:BASH-02 agent:W-14"""
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LATTICE_REDIS_URL", "GITHUB_TOKEN", "HTTP_PROXY"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("LANG", "C")
    shown = await make_tools().ok("Bash", command="env")
    assert "s3cret" not in shown
    assert "PATH=" in shown
    assert "LANG=C" in shown
    assert await make_tools(bash_env={"TOKEN": "given"}).ok("Bash", command="echo $TOKEN") == "given\n"


async def test_a_timeout_is_called_one_and_kills_everything(tools, tmp_path):
    """agent:BASH-01 agent:BASH-06 agent:W-14"""
    command = "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done' & echo before; wait"
    told = await tools.error("Bash", command=command, timeout_ms=500)
    assert told.startswith("Tool Bash failed: timeout: the command ran longer than 500 ms and was stopped\nbefore\n")
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_the_timeout_of_the_workspace_holds_if_none_is_given(make_tools):
    """agent:BASH-01"""
    assert "ran longer than 100 ms" in await make_tools(bash_timeout_ms=100).error("Bash", command="sleep 60")


async def test_an_abort_reaches_the_whole_group(tools, tmp_path):
    """agent:BASH-07 agent:W-13"""
    controller = AbortController()
    command = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > pid; sleep 60' & wait; sleep 60"
    running = asyncio.ensure_future(tools.outcome("Bash", _signal=controller.signal, command=command))
    await until(lambda: noted(tmp_path / "pid"))
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    assert "aborted" in outcome.results[0]["content"]
    assert outcome.aborted
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_an_interrupt_ends_the_command_but_not_the_batch(tools, tmp_path):
    """agent:W-13"""
    controller = AbortController()
    running = asyncio.ensure_future(
        tools.outcome("Bash", _interrupt=controller.signal, command="echo $$ > pid; sleep 60")
    )
    await until(lambda: noted(tmp_path / "pid"))
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    assert "stopped" in outcome.results[0]["content"]
    assert not outcome.aborted
    assert outcome.failure is None
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_a_cancelled_task_leaves_no_process(tools, tmp_path):
    """agent:W-13 agent:W-04"""
    running = asyncio.ensure_future(tools.outcome("Bash", command="echo $$ > pid; sleep 60"))
    await until(lambda: noted(tmp_path / "pid"))
    running.cancel()
    outcome = await asyncio.wait_for(running, BOUND)
    assert isinstance(outcome.failure, asyncio.CancelledError)
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_what_is_left_in_the_background_ends_with_the_command(tools, tmp_path):
    assert await tools.ok("Bash", command="sleep 60 & echo $! > pid; echo done") == "done\n"
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_long_output_is_cut_and_kept(tools, tmp_path):
    """agent:BASH-05 agent:W-14 agent:W-18 - cut, not killed."""
    shown = await tools.ok("Bash", command="seq 1 400000; echo the end >&2")
    assert len(shown) < 31_000
    assert shown.startswith("1\n2\n3\n")
    assert shown.endswith("the end\n")
    kept = Path(re.search(r"The whole output is in (\S+): Read it", shown)[1])
    assert kept.is_relative_to(tmp_path)
    assert kept.read_text() == "".join(f"{n}\n" for n in range(1, 400_001)) + "the end\n"
    assert await tools.ok("Read", file_path=str(kept), offset=123_456, limit=1) == "123456"


async def test_bytes_that_are_no_text_do_not_poison_the_conversation(tools):
    shown = await tools.ok("Bash", command=r"printf 'a\377\000b\355\240\200c\033[1m'")
    shown.encode("utf-8")
    assert "\0" not in shown
    assert "\x1b" not in shown


async def test_writes_outside_are_refused_before_anything_runs(tools, tmp_path):
    """agent:BASH-08"""
    told = await tools.error("Bash", command=f"touch ran; echo x > {tmp_path.parent}/escaped")
    assert '"tool": "Bash"' in told
    assert '"permission_denied"' in told
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path.parent / "escaped").exists()


async def test_what_cannot_be_judged_is_refused_with_a_way_out(tools):
    outcome = await tools.outcome("Bash", command="rm -rf $SOMETHING/x")
    assert outcome.error.denial.reason_code == "unknown_target"
    assert "Spell the path out" in outcome.results[0]["content"]


async def test_reads_outside_are_fine(tools):
    """agent:BASH-13"""
    assert "root" in await tools.ok("Bash", command="head -1 /etc/passwd 2> /dev/null")


async def test_no_descriptor_is_left_open(tools):
    await tools.ok("Bash", command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ("seq 100000", "echo a"):
        await tools.ok("Bash", command=command)
    await tools.error("Bash", command="sleep 60", timeout_ms=50)
    await until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


async def test_a_workspace_that_is_not_there_is_told(tmp_path, make_tools):
    assert "No such file or directory" in await make_tools(tmp_path / "gone").error("Bash", command="ls")
