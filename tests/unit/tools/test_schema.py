import pytest
from pydantic import BaseModel, TypeAdapter

from lattice.errors import OptionError
from lattice.tools.schema import parse_with, same_schema, schema_to_json


class Point(BaseModel):
    x: int
    y: int = 0


class Other(BaseModel):
    name: str


class Parser:
    def parse(self, value):
        return ("parsed", value)


class Documented(Parser):
    json_schema = {"type": "object", "properties": {"a": {"type": "string"}}}


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_a_pydantic_model_gives_its_own_schema_and_instances():
    """agent:TOOL-06 agent:TOOL-07 - a field with a default is optional, unknown keys are stripped."""
    assert schema_to_json(Point)["required"] == ["x"]
    assert parse_with(Point, {"x": 1, "z": 9}) == Point(x=1, y=0)


def test_a_type_adapter_works_too():
    adapter = TypeAdapter(dict[str, int])
    assert schema_to_json(adapter)["type"] == "object"
    assert parse_with(adapter, {"a": "1"}) == {"a": 1}


def test_an_object_with_parse_is_a_schema():
    """agent:OUT-15"""
    assert schema_to_json(Parser()) == {"type": "object", "additionalProperties": True}
    assert schema_to_json(Documented())["properties"] == {"a": {"type": "string"}}
    assert parse_with(Parser(), {"a": 1}) == ("parsed", {"a": 1})


def test_a_json_schema_dict_is_sent_as_it_is_and_validated():
    """agent:TOOL-05 - ours validates."""
    assert schema_to_json(SCHEMA) == SCHEMA
    assert parse_with(SCHEMA, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="a: 'x' is not of type 'integer'"):
        parse_with(SCHEMA, {"a": "x"})
    with pytest.raises(ValueError, match="'a' is a required property"):
        parse_with(SCHEMA, {})


def test_a_handler_cannot_reach_the_conversation_through_its_input():
    """agent:W-26"""
    raw = {"a": 1, "deep": {"list": [1]}}
    parse_with(SCHEMA, raw)["deep"]["list"].append(2)
    assert raw["deep"]["list"] == [1]


def test_a_remote_reference_is_never_fetched():
    with pytest.raises(Exception, match="(?i)unresolvable"):
        parse_with({"$ref": "http://127.0.0.1:9/schema.json"}, {"a": 1})


def test_errors_of_pydantic_have_no_advertisement():
    with pytest.raises(ValueError, match="x") as caught:
        parse_with(Point, {"x": "no"})
    assert "int_parsing" in str(caught.value)
    assert "https://" not in str(caught.value)


@pytest.mark.parametrize("schema", [None, 7, "object", [], Point(x=1)])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(OptionError, match="schema must be"):
        schema_to_json(schema)
    with pytest.raises(OptionError, match="schema must be"):
        parse_with(schema, {})


def test_a_broken_json_schema_is_refused_with_the_place():
    with pytest.raises(OptionError, match="properties/a/type"):
        schema_to_json({"type": "object", "properties": {"a": {"type": "whole number"}}})


def test_a_root_without_type_is_still_an_object():
    assert schema_to_json(TypeAdapter(Point | Other))["type"] == "object"


def test_same_schema_compares_identity_then_structure():
    class Twin(BaseModel):
        x: int
        y: int = 0

    Twin.__name__ = "Point"
    parser = Parser()
    assert same_schema(Point, Point)
    assert same_schema(SCHEMA, dict(SCHEMA))
    assert not same_schema(Point, Other)
    assert same_schema(parser, parser)
    assert not same_schema(Parser(), Parser())
