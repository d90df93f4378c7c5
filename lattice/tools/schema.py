"""Schemas of tool inputs and structured outputs: what the model sees of them, and how a value is parsed."""

import copy
import functools
from collections.abc import Callable
from typing import Any

from lattice.encoding import decode, encode
from lattice.errors import OptionError
from lattice.messages import copy_json
from lattice.tools.flat_schema import flat_check

__all__ = ["make_parser", "parse_with", "same_schema", "schema_to_json"]

_ANY_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}
_JSON_SCHEMA_NAMES = ("to_json_schema", "json_schema", "model_json_schema")


def schema_to_json(schema: Any) -> dict[str, Any]:
    """Return the JSON Schema that a model is shown for ``schema``.

    ``schema`` is a pydantic model class, a ``pydantic.TypeAdapter``, a JSON Schema dict, or any object with
    ``parse(value)``. The last may offer its JSON Schema as ``to_json_schema``, ``json_schema`` or ``model_json_schema``
    (attribute or method); without one every object is promised to be welcome.

    Raises:
        OptionError: ``schema`` is none of these, or a dict that is not a valid JSON Schema.
    """
    if isinstance(schema, dict):
        _check_json_schema(schema)
        return copy.deepcopy(schema)
    if _is_pydantic_model(schema):
        return _as_schema_dict(schema.model_json_schema())
    if _is_type_adapter(schema):
        return _as_schema_dict(schema.json_schema())
    if callable(getattr(schema, "parse", None)):
        return _declared_json_schema(schema)
    raise OptionError(
        f"a schema must be a pydantic model, a JSON Schema dict or an object with parse(), not {schema!r}"
    )


def make_parser(schema: Any) -> Callable[[Any], Any]:
    """Return the function that turns a raw value into what a handler receives; it raises what the schema raises.

    Raises:
        OptionError: ``schema`` is not a schema (see ``schema_to_json``).
    """
    if isinstance(schema, dict):
        _check_json_schema(schema)
        return _JsonSchemaParser(schema)
    if _is_pydantic_model(schema):
        return functools.partial(_parse_by_pydantic, schema.model_validate)
    if _is_type_adapter(schema):
        return functools.partial(_parse_by_pydantic, schema.validate_python)
    parse = getattr(schema, "parse", None)
    if callable(parse):
        return parse  # type: ignore[no-any-return]
    raise OptionError(
        f"a schema must be a pydantic model, a JSON Schema dict or an object with parse(), not {schema!r}"
    )


def parse_with(schema: Any, value: Any) -> Any:
    """Parse ``value``: an instance for a pydantic model, a copy of the value for a JSON Schema dict.

    Raises:
        OptionError: ``schema`` is not a schema.
        ValueError: the value does not fit; the text names each field and what is wrong with it.
    """
    return make_parser(schema)(value)


def same_schema(a: Any, b: Any) -> bool:
    """Whether two schemas promise the same: the same object, or equal JSON Schemas that say something."""
    if a is b:
        return True
    left, right = schema_to_json(a), schema_to_json(b)
    return left == right and left != _ANY_OBJECT


def _is_pydantic_model(schema: Any) -> bool:
    return isinstance(schema, type) and hasattr(schema, "model_validate") and hasattr(schema, "model_json_schema")


def _is_type_adapter(schema: Any) -> bool:
    return hasattr(schema, "validate_python") and callable(getattr(schema, "json_schema", None))


def _declared_json_schema(schema: Any) -> dict[str, Any]:
    for name in _JSON_SCHEMA_NAMES:
        declared = getattr(schema, name, None)
        if callable(declared):
            declared = declared()
        if isinstance(declared, dict):
            return _as_schema_dict(declared)
    return dict(_ANY_OBJECT)


def _as_schema_dict(schema: dict[str, Any]) -> dict[str, Any]:
    # Providers insist on an object at the root; a root $ref or union has no "type" of its own.
    return schema if "type" in schema else {"type": "object", **schema}


def _check_json_schema(schema: dict[str, Any]) -> None:
    if not schema:
        return
    try:
        _check_encoded(encode(schema))  # the check takes a millisecond, and every spawned session asks again
    except TypeError as error:
        raise OptionError(f"not a valid JSON Schema: {error}") from error


@functools.lru_cache(maxsize=1024)
def _check_encoded(encoded: bytes) -> None:
    import jsonschema  # noqa: PLC0415 - 0.1 s that only hosts with JSON Schema dicts pay

    schema = decode(encoded)
    try:
        _validator_class(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        where = "/".join(str(part) for part in error.absolute_path) or "the root"
        raise OptionError(f"not a valid JSON Schema: {error.message} (at {where})") from error


def _validator_class(schema: dict[str, Any]) -> Any:
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415 - see _check_json_schema

    return validator_for(schema, default=Draft202012Validator)


class _JsonSchemaParser:
    """Validates by a JSON Schema and hands out a copy, so that a handler cannot edit the conversation."""

    __slots__ = ("_fits", "_schema", "_validator")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = copy.deepcopy(schema)
        self._fits = flat_check(self._schema)
        self._validator: Any = None

    def __call__(self, value: Any) -> Any:
        if self._fits is None or not self._fits(value):
            self._validate(value)
        return copy_json(value)

    def _validate(self, value: Any) -> None:
        if self._validator is None:
            from referencing import Registry  # noqa: PLC0415 - comes with jsonschema

            # An empty registry: a remote $ref is an error, never a download.
            self._validator = _validator_class(self._schema)(self._schema, registry=Registry())
        problems = sorted(self._validator.iter_errors(value), key=lambda error: str(list(error.absolute_path)))
        if problems:
            raise ValueError("; ".join(_describe(error) for error in problems[:20]))


def _describe(error: Any) -> str:
    where = ".".join(str(part) for part in error.absolute_path) or "input"
    return f"{where}: {error.message}"


def _parse_by_pydantic(validate: Callable[[Any], Any], value: Any) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        lines = [line for line in str(error).splitlines() if "For further information visit" not in line]
        raise ValueError("\n".join(lines)) from error
