import itertools
import re

import pytest

from lattice.integrations.mcp.names import model_names

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("original", "prefix", "name"),
    [
        ("search", None, "search"),
        ("search", "docs", "docs_search"),
        ("a.b/c d", None, "a_b_c_d"),
        ("a__b", None, "a_b"),
        ("list-files", "my server", "my_server_list-files"),
        ("", None, "mcp_tool"),
        ("日本", None, "_"),
    ],
)
def test_names_are_cleaned_and_prefixed(original, prefix, name):
    """agent:MCP-03"""
    assert model_names([original], prefix=prefix) == {original: name}


def test_names_that_collide_after_cleaning_stay_apart_in_any_order():
    """agent:W-41 agent:MCP-04"""
    originals = ["a.b", "a/b", "a b", "a_b"]
    expected = model_names(originals, prefix="p")
    assert expected["a_b"] == "p_a_b"
    assert len(set(expected.values())) == 4
    for order in itertools.permutations(originals):
        assert model_names(order, prefix="p") == expected


def test_names_that_are_too_long_are_cut_and_told_apart():
    """agent:W-41"""
    originals = ["x" * 200, "x" * 201, "x" * 64, "日" * 300 + "a", "日" * 300 + "b"]
    names = model_names(originals)
    assert names["x" * 64] == "x" * 64
    assert len(set(names.values())) == len(originals)
    assert all(VALID.fullmatch(name) for name in names.values())
    assert all(VALID.fullmatch(name) for name in model_names(originals, prefix="p" * 100).values())
    assert max(map(len, model_names(originals, limit=128).values())) == 128


def test_a_lone_surrogate_in_a_name_is_survived():
    names = model_names(["\ud800", "\ud801"])
    assert len(set(names.values())) == 2
