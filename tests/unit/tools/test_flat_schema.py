"""The fast check says yes only where the whole validator does."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.tools.flat_schema import flat_check

NAMES = st.sampled_from(["a", "b", "c", "d"])
KINDS = ["string", "integer", "number", "boolean", "object", "array", "null"]
fields = st.sampled_from(KINDS).map(lambda kind: {"type": kind, "description": "a field"})
schemas = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(NAMES, fields, max_size=4),
        "required": st.lists(NAMES, max_size=3, unique=True),
        "additionalProperties": st.booleans(),
    },
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=2)
)
items = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(NAMES, scalars, max_size=2))
values = st.one_of(items, st.dictionaries(NAMES, items, max_size=4))


@given(schemas, values)
def test_what_it_lets_pass_the_validator_lets_pass(schema, value):
    fits = flat_check(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    if fits(value):
        assert valid
    elif valid:  # only a float that is a whole number is left to the validator
        assert any(type(item) is float for item in value.values())


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array"},
        {"type": "object", "minProperties": 1},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}},
        {"type": "object", "properties": {"a": {"enum": [1]}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    ],
)
def test_schemas_that_say_more_are_left_to_the_validator(schema):
    assert flat_check(schema) is None
