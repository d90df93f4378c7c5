"""Log lines: who wrote them, and what must not stand in them."""

import io
import json
import logging

import pytest
import structlog

from workers.logs import configure_logs, get_logger, hide_passwords
from workers.settings import Settings


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(monkeypatch, write, stream=None, **settings):
    stream = stream if stream is not None else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logs(Settings(**settings), team="t", member="backend", worker="w1")
    write()
    return stream.getvalue()


def test_a_pipe_gets_json_and_every_line_says_who_wrote_it(monkeypatch):
    def write():
        get_logger().info("claimed", message="m1")
        logging.getLogger("elsewhere").warning("from %s", "stdlib")

    ours, theirs = map(json.loads, lines(monkeypatch, write).splitlines())
    assert ours["event"] == "claimed"
    assert ours["message"] == "m1"
    assert theirs["event"] == "from stdlib"
    for line in (ours, theirs):
        assert (line["team"], line["member"], line["worker"]) == ("t", "backend", "w1")


def test_a_terminal_gets_columns(monkeypatch):
    shown = lines(monkeypatch, lambda: get_logger().info("claimed"), Terminal())
    assert "claimed" in shown
    assert not shown.lstrip().startswith("{")


def test_the_format_can_be_chosen(monkeypatch):
    shown = lines(monkeypatch, lambda: get_logger().info("claimed"), Terminal(), log_format="json")
    assert json.loads(shown)["event"] == "claimed"


def test_passwords_stay_out_wherever_they_stand(monkeypatch):
    def write():
        log = get_logger()
        log.info("redis://user:hunter2@host/0 is away", url="rediss://:hunter2@h", api_key="hunter2")
        logging.getLogger("x").error("cannot reach %s", "redis://:hunter2@h")
        try:
            raise ConnectionError("redis://:hunter2@h refused")
        except ConnectionError as error:
            log.exception("lost", cause=error)

    shown = lines(monkeypatch, write)
    assert "hunter2" not in shown
    assert "ConnectionError" in shown


def test_levels_below_the_chosen_one_are_silent(monkeypatch):
    def write():
        get_logger().info("quiet")
        get_logger().warning("loud")

    shown = lines(monkeypatch, write, log_level="warning")
    assert "loud" in shown
    assert "quiet" not in shown


def test_hiding_keeps_everything_else():
    assert hide_passwords("redis://u:p@h:1/2?x=a@b") == "redis://***@h:1/2?x=a@b"
    assert hide_passwords("mail a@b, http://h/p") == "mail a@b, http://h/p"
