"""What a person sees of a run's events."""

from workers.progress import describe

MEMBER = {"kind": "team_member", "name": "backend", "member": "backend"}


def said(event):
    return list(describe(event))


def message(subtype, **more):
    record = {"id": "m1", "to": "t::backend", "content": "Envelope\n--- delegated task ---\nFix it\nsoon"}
    return {"type": "team_message", "subtype": subtype, "message": record, **more}


def test_the_way_of_a_message():
    assert said(message("sent")) == [("backend", "gets Fix it soon")]
    assert said(message("done")) == [("backend", "is done with Fix it soon")]
    assert said(message("replied")) == []


def test_a_failure_says_why():
    failed = message("failed", error={"name": "APIError", "message": "overloaded"})
    assert said(failed) == [("backend", "failed at Fix it soon (APIError: overloaded)")]


def test_turns_of_members_and_of_the_lead():
    content = [
        {"type": "text", "text": "Let me\nlook."},
        {"type": "tool_use", "name": "Glob", "input": {"pattern": "*"}},
    ]
    turn = {"type": "assistant", "message": {"role": "assistant", "content": content}}
    lines = ["Let me look.", 'Glob {"pattern":"*"}']
    assert said({"type": "agent_message", "source": MEMBER, "message": turn}) == [("backend", line) for line in lines]
    assert said(turn) == [("lead", line) for line in lines]


def test_what_only_programs_need_is_silent():
    for event in ({"type": "system"}, {"type": "stream_event", "event": {}}, {"type": "run_ended"}, {}):
        assert said(event) == []
