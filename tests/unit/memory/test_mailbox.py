import pytest

from lattice.errors import OptionError
from lattice.memory.mailbox import create_memory_mailbox


def test_ids_are_first_second_third_and_then_numbers():
    """team:MBX-08"""
    mailbox = create_memory_mailbox()
    ids = [mailbox.send("manager", "t::a", "x").id for _ in range(5)]
    assert ids == ["first", "second", "third", "msg_4", "msg_5"]
    assert create_memory_mailbox().send("manager", "t::a", "x").id == "first"


def test_a_given_id_is_kept_and_passed_over_later():
    mailbox = create_memory_mailbox()
    assert mailbox.send("manager", "t::a", "x", id="second").id == "second"
    assert [mailbox.send("manager", "t::a", "x").id for _ in range(2)] == ["first", "third"]
    with pytest.raises(OptionError, match="'second' is taken"):
        mailbox.send("manager", "t::a", "y", id="second")


def test_work_under_way_can_be_reopened_and_comes_first():
    mailbox = create_memory_mailbox()
    sent = mailbox.send("manager", "t::a", "1")
    mailbox.send("manager", "t::a", "2")
    assert mailbox.reopen(sent.id) is False
    mailbox.claim_next("t::a")
    assert mailbox.reopen(sent.id) is True
    assert mailbox.claim_next("t::a").content == "1"
    assert mailbox.reopen("nope") is False


def test_forgotten_messages_are_gone():
    mailbox = create_memory_mailbox()
    sent = mailbox.send("manager", "t::a", "1")
    mailbox.forget([sent.id, "nope"])
    assert mailbox.get(sent.id) is None
    assert mailbox.inbox("t::a", "all") == []
    assert mailbox.claim_next("t::a") is None


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
def test_a_limit_is_a_positive_integer(limit):
    with pytest.raises(OptionError, match="max_message_bytes"):
        create_memory_mailbox(max_message_bytes=limit)
