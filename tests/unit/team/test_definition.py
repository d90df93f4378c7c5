import pytest

from lattice.errors import OptionError
from lattice.runs import member_conversation, run_conversation
from lattice.team.definition import Directory, conversation_of, team_member
from tests.teams import spec


def member(name, **options):
    return team_member(name=name, role="executor", agent=spec("agent", ["x"]), **options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "required"),
        ("   ", "required"),
        (None, "required"),
        ("a::b", "separates"),
        ("manager", "lead's mailbox"),
        ("Manager", "lead's mailbox"),
        ("日本", "no letter"),
        ("x" * 200, "limit is 128"),
    ],
)
def test_names_that_cannot_be_used_are_refused_with_the_reason(name, reason):
    """team:TEAM-01"""
    with pytest.raises(OptionError, match=reason):
        member(name)


def test_names_are_cleaned_like_tool_names():
    """team:TEAM-02 team:AGT-03"""
    assert member("Back end/API").key == "Back_end_API"


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("x", "x"), ("a b", "a  b")])
def test_members_that_would_share_a_name_are_refused(first, second):
    """team:W-38 team:TEAM-18"""
    with pytest.raises(OptionError, match="rename one"):
        Directory("squad", [member(first), member(second)])


def test_two_members_cannot_share_a_mailbox():
    with pytest.raises(OptionError, match="is taken"):
        Directory("squad", [member("a", mailbox_id="box"), member("b", mailbox_id="box")])
    with pytest.raises(OptionError, match="is taken"):
        Directory("squad", [member("a", mailbox_id="manager")])


def test_a_mailbox_is_named_after_team_and_member_unless_it_is_given():
    """team:TEAM-04"""
    directory = Directory("squad", [member("Back end"), member("b", mailbox_id="elsewhere::b")])
    assert [entry.mailbox_id for entry in directory] == ["squad::Back_end", "elsewhere::b"]
    assert directory.at("elsewhere::b").name == "b"


@pytest.mark.parametrize("to", ["a", " a ", "squad::a"])
def test_recipients_are_found_by_name_and_by_mailbox(to):
    assert Directory("squad", [member("a")]).resolve(to) == "squad::a"


@pytest.mark.parametrize("to", ["nobody", "other::a", "a::a", ""])
def test_unknown_recipients_are_refused_with_those_that_exist(to):
    """team:W-23 team:TEAM-14"""
    with pytest.raises(OptionError, match="manager, a"):
        Directory("squad", [member("a")]).resolve(to)


def test_the_lead_is_reached_as_manager():
    """team:TEAM-05"""
    assert Directory("squad", []).resolve("manager") == "manager"


@pytest.mark.parametrize(
    "options",
    [{"conversation": "day"}, {"retry": -1}, {"retry": True}, {"timeout_ms": 0}, {"mailbox_id": " "}],
)
def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(OptionError):
        member("a", **options)


def test_an_agent_is_needed():
    with pytest.raises(OptionError, match="agent must be"):
        team_member(name="a", role="executor", agent=object())


def test_a_template_works_in_a_fresh_conversation_and_a_live_agent_in_one_per_run():
    template, live = member("a"), team_member(name="b", role="executor", agent=spec("b", ["x"]).spawn())
    assert conversation_of(template, "run", "m1") == "m1"
    assert conversation_of(live, "run", "m1") == run_conversation("run", "b")
    assert conversation_of(member("c", conversation="member"), "run", "m1") == member_conversation("c")
    assert conversation_of(member("d", conversation="run"), None, "m1") == "m1"
