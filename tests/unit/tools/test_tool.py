import functools

import pytest
from pydantic import BaseModel

from lattice.errors import OptionError
from lattice.tools.tool import UNSET, ToolContext, ToolDefinition, check_tool_names, tool


class Query(BaseModel):
    text: str
    limit: int = 5


async def answer(_input):
    return "x"


def test_tool_makes_a_definition():
    """agent:TOOL-01"""
    made = tool("search", "Search documents", Query, answer)
    assert isinstance(made, ToolDefinition)
    assert made.to_model() == {
        "name": "search",
        "description": "Search documents",
        "input_schema": Query.model_json_schema(),
    }
    assert made.to_model() is made.to_model()
    assert made.parse({"text": "a", "other": 1}) == Query(text="a", limit=5)


def test_wire_form_leaves_out_what_was_not_given():
    """agent:TOOL-02"""
    assert set(tool("a", "d", Query, answer).to_dict()) == {"name", "description", "inputSchema"}
    full = tool("a", "d", Query, answer, metadata={"version": 2})
    assert full.to_dict()["metadata"] == {"version": 2}
    assert "kind" not in full.to_dict()


def test_metadata_is_not_shown_to_the_model():
    """agent:TOOL-11"""
    made = tool("a", "d", Query, answer, metadata={"secret": 1})
    assert set(made.to_model()) == {"name", "description", "input_schema"}
    assert made.metadata == {"secret": 1}


def test_tool_without_arguments_is_the_factory_itself():
    """agent:TOOL-03"""
    assert tool()("a", "d", Query, answer).name == "a"


def test_works_as_a_decorator():
    @tool("double", "Doubles", {"type": "object"}, timeout_ms=50)
    async def double(value):
        return str(value)

    assert double.name == "double"
    assert double.timeout_ms == 50


@pytest.mark.parametrize("given", [("a",), ("a", ""), ("a", "d"), ("a", "d", None, answer)])
def test_missing_arguments_are_refused(given):
    """agent:TOOL-04"""
    with pytest.raises(OptionError, match=r"^tool\(name, description, input_schema, handler\) requires all arguments$"):
        tool(*given)


def test_unknown_options_are_named():
    """agent:OPT-07 agent:OPT-08"""
    with pytest.raises(
        OptionError, match=r'^tool\("a"\): unknown option "is_safe"\. Check for a typo, or upgrade the SDK'
    ):
        tool("a", "d", Query, answer, is_safe=None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": True}, "timeout_ms"),
        ({"timeout_ms": 1.5}, "timeout_ms"),
        ({"on_recovery": "again"}, "on_recovery"),
        ({"is_concurrency_safe": "yes"}, "is_concurrency_safe"),
        ({"metadata": ["x"]}, "metadata"),
    ],
)
def test_bad_options_are_named_with_their_value(options, named):
    with pytest.raises(OptionError) as caught:
        tool("a", "d", Query, answer, **options)
    assert named in str(caught.value)
    assert repr(next(iter(options.values()))) in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 129, 7, "ü"])
def test_names_that_a_provider_refuses_are_refused_here(name):
    with pytest.raises(OptionError, match="name must be"):
        tool(name, "d", Query, answer)


def test_a_handler_that_takes_neither_is_refused():
    for handler in (lambda: "x", lambda a, b, c: "x", lambda a, *, key: "x"):
        with pytest.raises(OptionError, match="handler must take"):
            tool("a", "d", Query, handler)
    with pytest.raises(OptionError, match="callable"):
        tool("a", "d", Query, "not a function")


def test_whether_a_handler_takes_the_context_is_seen_once():
    class Callable:
        async def __call__(self, value, context):
            return "x"

    cases = [
        (lambda value: "x", False),
        (lambda value, context: "x", True),
        (lambda value, second: "x", True),
        (lambda value, factor=2: "x", False),
        (lambda value, context=None: "x", True),
        (lambda *args: "x", True),
        (functools.partial(lambda first, value, context: "x", 1), True),
        (Callable(), True),
    ]
    for handler, expected in cases:
        assert tool("a", "d", Query, handler).takes_context is expected
    assert tool("a", "d", Query, Callable()).is_async
    assert not tool("a", "d", Query, lambda value: "x").is_async


def test_two_tools_of_one_name_are_refused():
    """agent:WS-09 agent:WS-10 agent:W-21 - ours refuses instead of dropping or doubling one."""
    one, two = tool("a", "d", Query, answer), tool("b", "d", Query, answer)
    check_tool_names([one, two])
    with pytest.raises(OptionError, match='"a"'):
        check_tool_names([one, two, tool("a", "other", Query, answer)])


def test_context_has_a_signal_even_if_the_caller_gave_none():
    context = ToolContext()
    heard = []
    context.signal.add_listener(lambda: heard.append(True))
    context.stop(RuntimeError("stop"))
    assert context.signal.aborted
    assert heard == [True]


def test_unset_is_not_none():
    assert UNSET is not None
    assert not UNSET
    assert repr(UNSET) == "UNSET"
