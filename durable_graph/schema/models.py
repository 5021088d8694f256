"""Validating one field of a pydantic model as the model would, without the rest of it.

The model's own `validate_assignment` cannot be used: it runs model validators over a state that is half
written, and refuses frozen models. So its fields, with their constraints and field validators, are taken out
of its core schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.channels.base import type_name
from durable_graph.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import SchemaValidator

__all__ = ["ModelFields"]


class ModelFields:
    """The fields of one model: `validate` one of them, and its `core_schema`."""

    __slots__ = ("_fields", "_validator")

    def __init__(self, model: Any) -> None:
        self._fields, self._validator = _separated(model)

    def core_schema(self, field: str) -> Mapping[str, Any]:
        """Pydantic's core schema of one field."""
        return self._fields[field]

    def validate(self, field: str, value: Any, values: Mapping[str, Any]) -> Any:
        """The value as the model would hold it; `values` are what field validators see as `info.data`.

        Raises:
            pydantic.ValidationError: the model would not take it.
        """
        data = {name: held for name, held in values.items() if name != field}
        changed: Any = self._validator.validate_assignment(data, field, value)
        return changed[0][field]


def _separated(model: Any) -> tuple[dict[str, Any], SchemaValidator]:
    from pydantic_core import SchemaValidator

    schema: dict[str, Any] = model.__pydantic_core_schema__
    definitions: dict[str, Any] = {entry["ref"]: entry for entry in schema.get("definitions", ())}
    config: Any = None
    node = schema
    while node["type"] != "model-fields":
        if node["type"] == "model":
            config = node.get("config")
        node = _inner(model, node, definitions)
    # Frozen forbids assignment to an instance; a new value of the state's key is no such thing.
    fields: dict[str, Any] = {name: {**entry, "frozen": False} for name, entry in node["fields"].items()}
    alone: Any = {**node, "fields": fields}
    if definitions:
        alone = {"type": "definitions", "schema": alone, "definitions": list(definitions.values())}
    return fields, SchemaValidator(alone, config)


def _inner(model: Any, node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The core schema that this one wraps or refers to."""
    inner: Any = definitions.get(node["schema_ref"]) if node["type"] == "definition-ref" else node.get("schema")
    if inner is None:
        raise InvalidSchemaError(
            f"The fields of the pydantic model {type_name(model)} cannot be validated one by one: it has a core "
            f"schema of its own (a {node['type']!r} node)",
            cure="Leave __get_pydantic_core_schema__ of a state's model alone, or use a TypedDict.",
        )
    return inner
