from workers.follow import Follower


class Screen:
    def __init__(self):
        self.lines = []
        self.partial = {}

    def line(self, who, text):
        self.lines.append((who, text))

    def streaming(self, texts):
        self.partial = dict(texts)


MEMBER = {"kind": "team_member", "name": "backend", "member": "backend"}


def delta(text, source=None):
    event = {
        "type": "stream_event",
        "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
    }
    return {**event, "source": source} if source else event


def assistant(*content):
    return {"type": "assistant", "message": {"role": "assistant", "content": list(content)}}


def shown(*events):
    screen = Screen()
    follower = Follower(screen)
    for event in events:
        follower.show(event)
    return screen


def test_text_appears_line_by_line_as_it_streams():
    screen = shown(delta("first\nsec"), delta("ond"))
    assert screen.lines == [("lead", "first")]
    assert screen.partial == {"lead": "second"}


def test_text_that_streamed_is_not_shown_again_with_its_message():
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}}
    screen = shown(delta("hello"), assistant({"type": "text", "text": "hello"}, call))
    assert screen.lines == [("lead", "hello"), ("lead", 'Read {"path":"a"}')]


def test_text_that_did_not_stream_is_shown_with_its_message():
    assert shown(assistant({"type": "text", "text": "hello"})).lines == [("lead", "hello")]


def test_the_next_message_of_the_same_speaker_is_shown_again():
    screen = shown(
        delta("one"),
        assistant({"type": "text", "text": "one"}),
        assistant({"type": "text", "text": "two"}),
    )
    assert screen.lines == [("lead", "one"), ("lead", "two")]


def test_members_that_stream_at_once_do_not_mix():
    screen = shown(delta("le"), delta("ba", MEMBER), delta("ad\n"), delta("ck\n", MEMBER))
    assert screen.lines == [("lead", "lead"), ("backend", "back")]


def test_a_members_turn_is_shown_under_its_name():
    turn = {"type": "agent_message", "source": MEMBER, "message": assistant({"type": "text", "text": "on it"})}
    assert shown(turn).lines == [("backend", "on it")]
    assert shown(delta("on it", MEMBER), turn).lines == [("backend", "on it")]


def test_who_works_on_what_is_told():
    message = {"id": "m", "from": "manager", "to": "trio::backend", "content": "fix it", "status": "processing"}
    event = {"type": "team_message", "subtype": "claimed", "source": {"kind": "root"}, "message": message}
    assert shown(event).lines == [("backend", "starts fix it")]


def test_a_block_that_ends_shows_its_last_line():
    stop = {"type": "stream_event", "event": {"type": "content_block_stop", "index": 0}}
    screen = shown(delta("the end"), stop)
    assert screen.lines == [("lead", "the end")]
    assert screen.partial == {}
