"""Mail beside the reports: progress, replies by tool, and mail that is worked off without a run."""

from lattice.errors import APIError
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, answers, first_result, is_resumed, rounds_of, scenario
from tests.teams import echo, handoff, results, said


@scenario("follow-up")
def three_rounds(make):
    def expect(outcome):
        assert outcome.text == "three rounds"
        assert [m.content for m in outcome.mail["a"]] == ["round 0", "round 1", "round 2"]
        assert outcome.briefs.count("system") == 4

    def lead(request):
        rounds = sum("Team runtime update" in str(m["content"]) for m in request.messages)
        return turn(handoff("a", f"round {rounds}")) if rounds < 3 else "three rounds"

    return Scenario(make(lead, {"a": echo("a")}), expect)


@scenario("follow-up")
def a_reply_by_tool_after_progress(make):
    def expect(outcome):
        assert outcome.text.endswith("the reply")
        assert [r.content for r in outcome.reports] == ["the reply"]
        assert [m.content for m in outcome.followups] == ["half way"]

    def member(request):
        steps = (("team_followup", "half way"), ("team_reply", "the reply"))
        answered = rounds_of(request)
        return answers(steps[answered][0], request, steps[answered][1]) if answered < 2 else "closing words"

    return Scenario(make([handoff("a"), said], {"a": member}), expect)


@scenario("follow-up")
def progress_by_tool_reaches_the_leads_mailbox(make):
    def expect(outcome):
        assert outcome.text.endswith("the end")
        (note,) = outcome.followups
        assert (note.content, note.work_item_id) == ("half way", outcome.mail["a"][0].work_item_id)

    def member(request):
        return "the end" if results(request) else answers("team_followup", request, "half way")

    return Scenario(make([handoff("a"), said], {"a": member}), expect)


@scenario("follow-up")
def the_lead_reads_what_came_by_mail(make):
    """A lead with mailbox tools finds the progress of its members in its own mailbox."""

    def expect(outcome):
        assert "half way" in outcome.text
        assert f"from: {TEAM}::a" in outcome.text

    def member(request):
        return "the end" if results(request) else answers("team_followup", request, "half way")

    lead = [handoff("a"), tool_use("team_inbox", {"status": "all"}), first_result]
    return Scenario(make(lead, {"a": member}, expose_lead_mailbox_tools=True), expect)


@scenario("follow-up")
def a_message_to_nobody_is_an_error_for_the_model(make):
    def expect(outcome):
        assert "recipients are manager, a" in outcome.text

    member = [tool_use("team_send", {"to": "nobody", "content": "x"}), first_result]
    return Scenario(make([handoff("a"), said], {"a": member}), expect)


@scenario("drain")
def mail_without_a_run_is_answered_by_tool(make):
    async def play(world):
        asked = await world.send(team, "manager", "a", "how are you?")
        await world.drain(team)
        mail = await world.mail(team)
        assert [(m.content, str(m.status)) for m in mail["a"]] == [("how are you?", "done")]
        (reply,) = mail["manager"]
        assert (reply.content, reply.from_, str(reply.status)) == ("well", f"{TEAM}::a", "pending")
        assert (reply.parent_message_id, reply.thread_id) == (asked.id, asked.thread_id)

    def member(request):
        return "closing words" if results(request) else answers("team_reply", request, "well")

    team = make(["never"], {"a": member})
    return Scenario(team, play=play)


@scenario("drain")
def the_mail_of_several_members_is_worked_by_each(make):
    async def play(world):
        for to, content in (("a", "1"), ("b", "2"), ("a", "3")):
            await world.send(team, "manager", to, content)
        await world.drain(team)
        mail = await world.mail(team)
        assert [(m.content, str(m.status)) for m in mail["a"]] == [("1", "done"), ("3", "done")]
        assert [(m.content, str(m.status)) for m in mail["b"]] == [("2", "done")]
        assert sorted(m.content for m in mail["manager"]) == ["a was told 1", "a was told 3", "b was told 2"]

    def member(name):
        def reply(request):
            told = str(request.messages[0]["content"]).rsplit("\n", 1)[-1]
            return "x" if results(request) else answers("team_reply", request, f"{name} was told {told}")

        return reply

    team = make(["never"], {name: member(name) for name in "ab"})
    return Scenario(team, play=play)


@scenario("drain")
def mail_that_nobody_answers_fails_and_its_sender_is_told(make):
    async def play(world):
        await world.send(team, "manager", "a", "how are you?")
        await world.drain(team)
        mail = await world.mail(team)
        assert [str(m.status) for m in mail["a"]] == ["failed"]
        (told,) = mail["manager"]
        assert "team_reply" in told.content

    team = make(["never"], {"a": ["just words"]})
    return Scenario(team, play=play)


@scenario("drain")
def mail_whose_member_fails(make):
    """The others' mail is worked off all the same."""

    async def play(world):
        for to in "ab":
            await world.send(team, "manager", to, "how are you?")
        await world.drain(team)
        mail = await world.mail(team)
        assert ([str(m.status) for m in mail["a"]], [str(m.status) for m in mail["b"]]) == (["failed"], ["done"])
        assert len(mail["manager"]) == 2
        assert any("down" in m.content for m in mail["manager"])

    def member(request):
        return "closing words" if results(request) else answers("team_reply", request, "well")

    team = make(["never"], {"a": [APIError("down")], "b": member})
    return Scenario(team, play=play)


@scenario("drain")
def mail_that_was_sent_before_a_run(make):
    """It does not get into the run, and the run does not answer it."""

    async def play(world):
        await world.send(team, "manager", "a", "how are you?")
        await world.drain(team)
        outcome = await world.run(team)
        assert outcome.text == "resumed"
        assert [(m.content, str(m.status)) for m in outcome.mail["a"]] == [("how are you?", "done"), ("work", "done")]
        assert [m.content for m in outcome.mail["manager"]] == ["well", "worked"]

    def member(request):
        if "how are you?" not in str(request.messages[0]["content"]):
            return "worked"
        return "closing words" if results(request) else answers("team_reply", request, "well")

    team = make(lambda request: "resumed" if is_resumed(request) else handoff("a"), {"a": member})
    return Scenario(team, play=play)
