"""A fast yes for the JSON Schemas that most tools have: one object, each field of one plain type."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["flat_check"]

_ROOT = frozenset({"$schema", "type", "title", "description", "properties", "required", "additionalProperties"})
_FIELD = frozenset({"type", "title", "description", "default", "examples"})
_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "null": frozenset({type(None)}),
}


def flat_check(schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    """Return a function that is True only for values that fit ``schema``, or None if the schema says more than that.

    False means that a whole validator must look: it knows the corner cases, and the words for what is wrong.
    """
    if not _ROOT.issuperset(schema) or schema.get("type") != "object":
        return None
    properties = schema.get("properties", {})
    types = {name: _field_types(field) for name, field in properties.items()}
    if None in types.values() or not isinstance(schema.get("additionalProperties", True), bool):
        return None
    required = tuple(schema.get("required", ()))
    closed = schema.get("additionalProperties") is False

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            allowed = types.get(name)
            if closed if allowed is None else type(item) not in allowed:
                return False
        return True

    return fits


def _field_types(field: Any) -> frozenset[type] | None:
    if not isinstance(field, dict) or not _FIELD.issuperset(field):
        return None
    kind = field.get("type")
    return _TYPES.get(kind) if isinstance(kind, str) else None
