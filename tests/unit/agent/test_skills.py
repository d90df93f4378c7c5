"""Skills: making, loading, matching, and what a model sees of them."""

import pytest

from lattice import OptionError, load_skill, skill
from lattice.agent.skills import matching_skills
from lattice.testing import text, tool_use, turn
from tests.unit.agent.support import RecordingTracer, agent_of, echo_tool

REVIEW = skill(name="code-review", description="Review code changes", instructions="List bugs first.")
PDF = skill(name="pdf", description="Read and inspect PDF documents", instructions="Render pages first.")


def test_a_skill():
    """agent:SKILL-01, agent:SKILL-02"""
    assert (REVIEW.name, REVIEW.description, REVIEW.instructions, REVIEW.path) == (
        "code-review",
        "Review code changes",
        "List bugs first.",
        None,
    )
    for missing, message in [
        ("name", "Skill name is required"),
        ("description", "Skill description is required"),
        ("instructions", "Skill instructions are required"),
    ]:
        values = {"name": "n", "description": "d", "instructions": "i", missing: "  "}
        with pytest.raises(OptionError, match=message):
            skill(**values)


async def test_loading(tmp_path):
    """agent:SKILL-03, agent:SKILL-04, agent:SKILL-05"""
    folder = tmp_path / "pdf"
    folder.mkdir()
    file = folder / "SKILL.md"
    file.write_text("\ufeff---\r\n# note\r\n\r\nname: 'pdf'\r\ndescription: \"Read: all\"\r\n---\r\n\r\nRender.\r\n")
    loaded = await load_skill(folder)
    assert (loaded.name, loaded.description, loaded.instructions) == ("pdf", "Read: all", "Render.")
    assert loaded.path == str(folder)
    file.write_text("---\ndescription: d\n---\nbody")
    assert (await load_skill(str(folder))).name == "pdf"
    file.write_text("---\nname: open\nno end")
    with pytest.raises(OptionError, match="Skill description is required"):
        await load_skill(folder)
    with pytest.raises(FileNotFoundError):
        await load_skill(tmp_path / "none")


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("Please review this diff", ["code-review"]),
        ("REVIEWING a change", ["code-review"]),
        ("inspect the document", ["pdf"]),
        ("review the pdf", ["code-review", "pdf"]),
        ("I understand and will do all of it", []),
        ("decode the preview", []),
        ("", []),
    ],
)
def test_matching_by_telling_words(prompt, names):
    """agent:SKILL-07 agent:SKILL-08 agent:W-40 agent:SKILL-06, agent:SKILL-12"""
    assert [entry.name for entry in matching_skills([REVIEW, PDF], prompt)] == names


def test_other_scripts_match_too():
    """agent:SKILL-07 agent:SKILL-08 agent:W-40"""
    chinese = skill(name="审查", description="代码审查与改进", instructions="先列出错误。")
    russian = skill(name="обзор", description="Обзор кода", instructions="Сначала ошибки.")
    assert matching_skills([chinese, russian], "请帮我做代码审查") == [chinese]
    assert matching_skills([chinese, russian], "Сделай обзор") == [russian]


async def test_what_the_model_sees():
    """agent:SKILL-09, agent:SKILL-10, agent:SKILL-11"""
    tracer, hooked = RecordingTracer(), []
    odd = skill(name='a"<b>&', description="About reviews", instructions="Be odd.")
    agent, model = agent_of(
        [turn(tool_use("echo", {"say": "pdf"})), "done", "bye"],
        tools=[echo_tool()],
        skills=[REVIEW, PDF, odd],
        tracer=tracer,
        hooks={"on_model_request": lambda context: hooked.append(context.messages[0]["content"])},
    )
    await agent.prompt([text("review"), text("this")])
    for request in model.requests[:2]:
        injected = request.messages[0]
        assert injected["role"] == "user"
        intro, first, second = injected["content"].split("<skill ")
        assert "relevant" in intro
        assert intro.endswith("\n\n\n\n")
        assert first == 'name="code-review">\nDescription: Review code changes\n\nList bugs first.\n</skill>\n\n'
        assert second.startswith('name="a&quot;&lt;b&gt;&amp;">')
    assert "pdf" not in model.requests[1].messages[0]["content"]
    assert hooked[0] == model.requests[0].messages[0]["content"]
    assert tracer.data("model_request")[0]["messages"][0]["content"] == hooked[0]
    assert "skill" not in str(await agent.get_history())
    await agent.prompt("hello")
    assert "skill" not in str(model.requests[2].messages)
