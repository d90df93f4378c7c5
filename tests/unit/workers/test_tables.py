"""What listing commands print."""

import json

from workers.tables import age, one_line, print_facts, print_json, print_table


def test_an_id_is_never_cut_and_markup_is_plain_text(capsys):
    identity = "run-" + "x" * 100
    print_table(("RUN", "TASK"), [(identity, "[bold]not markup[/bold] :smile:")], empty="none")
    shown = capsys.readouterr().out
    assert identity in shown
    assert "[bold]not markup[/bold] :smile:" in shown


def test_an_empty_table_says_so(capsys):
    print_table(("RUN",), [], empty="no runs yet")
    assert capsys.readouterr().out == "no runs yet\n"


def test_facts_leave_out_what_is_not_there(capsys):
    print_facts({"run": "r1", "error": None, "task": ""})
    assert capsys.readouterr().out == "run    r1\ntask   -\n"


def test_json_is_json(capsys):
    print_json([{"content": "é\ud800"}])
    assert json.loads(capsys.readouterr().out) == [{"content": "é\ufffd"}]


def test_ages():
    now = 1_000_000.0
    ages = [age((now - seconds) * 1000, now) for seconds in (-5, 0.5, 90, 7200, 200_000)]
    assert [age(None), age(0), *ages] == ["-", "-", "0s", "0s", "2m", "2h", "2d"]


def test_one_line():
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 200, 10) == "x" * 9 + "…"
