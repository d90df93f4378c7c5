"""Messages that are handed out cannot be used to change the conversation."""

import copy
import json
import pickle

from lattice.agent.shared import SharedMessages

LIVE = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
    {"role": "user", "content": "c"},
]


def vandalise(messages):
    messages[0]["content"] = "x"
    messages[-2]["content"][0]["text"] = "x"
    for message in messages:
        message["role"] = "x"
    for message in reversed(messages):
        message["more"] = 1
    for message in messages[1:]:
        message["more"] = 2
    messages.append({"role": "user", "content": "d"})
    messages.insert(0, {})
    messages += [{}]
    messages.extend([{}])
    messages.pop()["more"] = 3
    messages.pop(1)["more"] = 3
    messages[0] = {"new": 1}
    del messages[0]
    messages.sort(key=str)
    messages.reverse()
    (messages + [{}])[0]["more"] = 4
    messages.copy()[0]["more"] = 5
    copy.copy(messages)[0]["more"] = 6
    copy.deepcopy(messages)[0]["more"] = 7
    pickle.loads(pickle.dumps(messages))[0]["more"] = 8
    messages.remove(messages[0])
    messages.clear()


def test_whatever_is_done_to_shared_messages_the_live_ones_stay():
    """agent:LOOP-21"""
    live = copy.deepcopy(LIVE)
    vandalise(SharedMessages(live))
    assert live == LIVE
    for index in range(len(live)):
        shared = SharedMessages(live)
        shared[index]["content"] = "x"
        shared.append({"role": "user", "content": "d"})
        shared[-1]["content"] = "own"
        assert shared[index]["content"] == "x"
        assert live == LIVE


def test_shared_messages_look_like_the_list_they_are():
    shared = SharedMessages(LIVE)
    assert shared == LIVE
    assert isinstance(shared, list)
    assert json.loads(json.dumps(shared)) == LIVE
    assert len(shared) == 3
    assert shared[-1] == LIVE[-1]
    assert list(shared) == LIVE
    assert [*SharedMessages(LIVE)] == LIVE
    assert LIVE[0] in shared
    shared[0]["content"] = "mine"
    assert json.loads(json.dumps(shared))[0]["content"] == "mine"
    assert SharedMessages(shared)[0]["content"] == "mine"
