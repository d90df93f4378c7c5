import pytest
from mcp import types

from lattice.errors import ToolExecutionError
from lattice.integrations.mcp.results import read_result

TEXT = {"type": "text", "text": "one"}


def test_texts_and_other_blocks_are_joined_by_lines_and_structured_content_comes_last():
    """agent:MCP-07"""
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    result = {"content": [TEXT, link], "structuredContent": {"total": 3}}
    assert read_result(result) == 'one\n{"type":"resource_link","uri":"file:///a","name":"a"}\n{"total":3}'


def test_structured_content_that_was_said_already_is_not_said_twice():
    result = {"content": [{"type": "text", "text": '{"total": 3}'}], "structuredContent": {"total": 3}}
    assert read_result(result) == '{"total": 3}'


def test_images_stay_images():
    """agent:MCP-07 agent:W-41"""
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert read_result({"content": [TEXT, image]}) == [
        TEXT,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


def test_an_image_inside_a_resource_is_an_image_too():
    resource = {"uri": "file:///p", "mimeType": "image/webp", "blob": "AAAA"}
    blocks = read_result({"content": [{"type": "resource", "resource": resource}]})
    assert blocks[0]["source"]["media_type"] == "image/webp"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "mimeType": "audio/wav", "data": "A" * 4000},
        {"type": "image", "mimeType": "image/tiff", "data": "A" * 4000},
        {"type": "resource", "resource": {"uri": "file:///z", "mimeType": "application/zip", "blob": "A" * 4000}},
    ],
)
def test_what_no_model_can_see_is_named_and_not_poured_into_the_conversation(block):
    text = read_result({"content": [block]})
    assert "about 3000 bytes" in text
    assert len(text) < 200


def test_a_failed_call_raises_its_text():
    """agent:MCP-08"""
    with pytest.raises(ToolExecutionError, match="^no such page$"):
        read_result({"content": [{"type": "text", "text": "no such page"}], "isError": True})
    with pytest.raises(ToolExecutionError, match="not why"):
        read_result({"content": [], "isError": True})


@pytest.mark.parametrize(("result", "text"), [("plain", "plain"), (None, "null"), ([1, 2], "[1,2]"), ({}, "")])
def test_odd_results_are_made_sense_of(result, text):
    """agent:MCP-11"""
    assert read_result(result) == text


def test_models_of_the_sdk_are_read_like_plain_dicts():
    content = [types.TextContent(type="text", text="one")]
    assert read_result(types.CallToolResult(content=content, structured_content={"a": 1})) == 'one\n{"a":1}'
    with pytest.raises(ToolExecutionError):
        read_result(types.CallToolResult(content=content, is_error=True))
