"""What ``lattice runs`` and ``show`` make of a record and its events."""

from lattice.runs import RunRecord, RunStatus
from workers.runs import run_object, task_text, work_items


def event(subtype, message_id="m1", status="pending", **more):
    message = {"id": message_id, "to": "t::backend", "content": "Fix it", "status": status}
    return {"type": "team_message", "subtype": subtype, "message": message, **more}


def test_work_items_stand_in_the_order_they_were_sent_in_their_last_state():
    events = [
        {"type": "assistant"},
        event("sent"),
        event("sent", "m2"),
        event("claimed", status="processing"),
        event("failed", "m2", "failed", error={"code": "api_error"}),
        event("done", status="done"),
        event("replied", "m9"),
    ]
    items = work_items(events)
    assert [(item["id"], item["member"], item["status"]) for item in items] == [
        ("m1", "backend", "done"),
        ("m2", "backend", "failed"),
    ]
    assert items[1]["error"] == {"code": "api_error"}


def test_a_run_says_the_same_as_its_outcome_and_more():
    record = RunRecord(
        id="r1",
        team="t",
        task="Do it",
        status=RunStatus.SUCCEEDED,
        result={"result": "Done."},
        total_usage={"input_tokens": 3},
    )
    shown = run_object(record)
    assert shown.items() >= record.outcome().items()
    assert (shown["run_id"], shown["status"], shown["result"]) == ("r1", "succeeded", "Done.")


def test_a_task_of_blocks_has_a_text():
    assert task_text("plain") == "plain"
    assert task_text([{"type": "text", "text": "Look at"}, {"type": "image"}]) == "Look at image"
