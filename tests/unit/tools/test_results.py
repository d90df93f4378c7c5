import pytest

from lattice.errors import ToolExecutionError
from lattice.tools.results import NO_OUTPUT, content_text, limit_content, normalise, usable_content
from lattice.tools.tool import UNSET, ToolResult

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


@pytest.mark.parametrize(
    "returned",
    [
        "hi",
        {"content": "hi"},
        ToolResult("hi"),
        {"content": "hi", "endTurn": False},
        {"content": "hi", "end_turn": False},
    ],
)
def test_every_way_to_return_a_text(returned):
    """agent:TOOL-08"""
    assert normalise(returned) == ToolResult("hi", False, UNSET)


def test_either_spelling_of_the_keys_is_read():
    for returned in (
        {"content": "hi", "end_turn": True, "structured_result": {"a": 1}},
        {"content": "hi", "endTurn": True, "structuredResult": {"a": 1}},
    ):
        assert normalise(returned) == ToolResult("hi", True, {"a": 1})


def test_null_is_a_structured_result():
    """agent:EXEC-15"""
    assert normalise({"content": "x", "structured_result": None}).structured_result is None
    assert normalise({"content": "x"}).structured_result is UNSET


@pytest.mark.parametrize(
    "nothing", ["", " \n", None, [], [{"type": "text", "text": ""}], {"content": None}, {"content": ""}]
)
def test_nothing_becomes_a_text_that_a_provider_accepts(nothing):
    """agent:EXEC-08 - ours says so instead of failing."""
    assert normalise(nothing).content == NO_OUTPUT


def test_blocks_are_kept_and_empty_texts_dropped():
    """agent:EXEC-09"""
    blocks = [{"type": "text", "text": ""}, IMAGE, {"type": "text", "text": "a"}]
    assert usable_content(blocks) == [IMAGE, {"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    "returned", [7, object(), {"text": "x"}, {"content": 7}, {"content": [7]}, {"content": [{"type": "text"}]}]
)
def test_what_cannot_be_a_result_is_an_error_that_says_why(returned):
    with pytest.raises(ToolExecutionError, match=r"return|content|text"):
        normalise(returned)


def test_text_is_cleaned_on_the_way_in():
    result = normalise("a\ud800b\x00c\U0001f600").content
    assert result == "a�b�c\U0001f600"
    result.encode("utf-8")
    assert usable_content([{"type": "text", "text": "\udc00"}]) == [{"type": "text", "text": "�"}]


def test_text_of_blocks_is_joined_without_separator():
    """agent:EXEC-11"""
    assert content_text([{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]) == "ab"
    assert content_text("plain") == "plain"
    assert content_text(NO_OUTPUT) == ""


def test_long_results_are_cut_with_a_marker_and_kept_in_a_file(tmp_path):
    """agent:EXEC-18 agent:W-18"""
    text = "x" * 500 + "END"
    shown = limit_content(text, 100, tmp_path / "out")
    (kept,) = (tmp_path / "out").iterdir()
    assert kept.read_text() == text
    assert str(kept) in shown
    assert "403 of 503 characters left out" in shown
    assert shown.startswith("x" * 80)
    assert shown.endswith("END")


def test_a_cut_does_not_split_a_character():
    """Strings are cut between code points, so no lone surrogate can arise."""
    limit_content("x" * 79 + "\U0001f600" * 100, 100, None).encode("utf-8")


def test_images_survive_the_limit():
    shown = limit_content([IMAGE, {"type": "text", "text": "y" * 300}], 100, None)
    assert shown[1] == IMAGE
    assert "200 of 300" in shown[0]["text"]
    short = [IMAGE, {"type": "text", "text": "y"}]
    assert limit_content(short, 100, None) is short
