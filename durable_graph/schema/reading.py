"""The schema of a state, read once: its keys, their channels, and how a node's object is built and read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from durable_graph.channels import BaseChannel, LastValue
from durable_graph.errors import InvalidSchemaError
from durable_graph.schema.coerce import builder_for, read_instance
from durable_graph.schema.fields import read_field
from durable_graph.schema.hints import ROOT, Kind, read_hints, schema_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from durable_graph.schema.coerce import Build
    from durable_graph.schema.managed import ManagedValue

__all__ = ["Role", "Schema", "merge_channels", "read_schema"]

Role: TypeAlias = Literal["state", "input", "output", "private", "context"]
"""What a schema is for. A context is no state: its fields have no channels, and its instances are validated."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """What a class says about the state.

    type: the class, without type arguments; for a plain value the hint itself.
    name: for messages.
    keys: the keys of the state in order of declaration; ("__root__",) for a plain value. Computed fields are
    not
        among them.
    channels: one for each key; empty for a context.
    managed: the computed fields.
    hints: the resolved hint of each key and computed field, without Required and the like, Annotated extras
    kept.
    required: keys without a default.
    """

    type: Any
    kind: Kind
    role: Role
    name: str
    keys: tuple[str, ...]
    channels: dict[str, BaseChannel[Any, Any]]
    managed: dict[str, type[ManagedValue]]
    hints: dict[str, Any]
    required: frozenset[str]
    _build: Build = field(repr=False)

    def __repr__(self) -> str:
        return f"Schema({self.name}: {', '.join(self.keys)})"

    def build(self, values: dict[str, Any]) -> Any:
        """What a node gets for these values of keys and computed fields.

        TypedDict: `values` itself. dataclass, pydantic: a new instance, defaults for what is absent. Plain
        value: the value, None when it is absent. Names that the schema does not know are left out of an
        instance.

        Raises:
            InvalidValueError: a required field is absent, or the class itself refuses the values together.
            pydantic.ValidationError: for a context, when the values are not valid.
            Exception: what `__post_init__` or a validator raises.
        """
        return self._build(values)

    def read_update(self, update: Any) -> list[tuple[str, Any]] | None:
        """What a node's return value writes: (key, value) pairs, whose keys the caller checks.

        Takes a dict, None (writes nothing), an instance of an annotated class (of this schema or another; see
        `coerce.read_instance`), and a list or tuple of pairs. For a plain value: anything.

        Returns:
            None when it is none of these: "Expected dict, got ...".
        """
        if update is None:
            return []
        if self.kind == "root":
            return [(ROOT, update)]
        if isinstance(update, dict):
            return list(cast("dict[str, Any]", update).items())
        return read_instance(update)


def read_schema(schema: Any, *, role: Role = "state") -> Schema:
    """Read a TypedDict, dataclass, pydantic model, or a type such as `Annotated[list, operator.add]`.

    Raises:
        InvalidSchemaError: it is none of these, a hint cannot be resolved, a field has two ways to accumulate
        or no
            usable one, or an input or output schema has a computed field.
    """
    name = schema_name(schema)
    read = read_hints(schema, plain_classes=role == "context")
    channels: dict[str, BaseChannel[Any, Any]] = {}
    managed: dict[str, type[ManagedValue]] = {}
    if role != "context":
        for key, hint in read.hints.items():
            channel, computed = read_field(name, key, hint)
            if channel is not None:
                channels[key] = channel
            if computed is not None:
                managed[key] = computed
    if managed and role in {"input", "output"}:
        raise InvalidSchemaError(
            f"{name} is an {role} schema and has the computed field {', '.join(map(repr, managed))}",
            cure="Declare RemainingSteps, IsLastStep and the like in the state schema only.",
        )
    required = read.required - managed.keys()
    return Schema(
        type=read.type,
        kind=read.kind,
        role=role,
        name=name,
        keys=tuple(key for key in read.hints if key not in managed),
        channels=channels,
        managed=managed,
        hints=read.hints,
        required=required,
        _build=builder_for(read.kind, read.type, name, required, validate=role == "context"),
    )


def merge_channels(schemas: Iterable[Schema]) -> dict[str, BaseChannel[Any, Any]]:
    """The channels of a graph with several schemas, the state's first.

    The first definition of a key holds. A later one may repeat it, or leave its reducer out.

    Raises:
        InvalidSchemaError: a later schema accumulates a key in another way, or computes it where another
        stores it.
    """
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for schema in schemas:
        definitions: dict[str, Any] = {**schema.channels, **schema.managed}
        for key, definition in definitions.items():
            first = merged.setdefault(key, definition)
            if first != definition and type(definition) is not LastValue:
                raise _conflict(key, origin[key], first, schema.name, definition)
            origin.setdefault(key, schema.name)
    return {key: channel for key, channel in merged.items() if isinstance(channel, BaseChannel)}


def _conflict(key: str, first: str, channel: Any, second: str, other: Any) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"Key {key!r} is {_spelled(channel)} in {first} and {_spelled(other)} in {second}",
        cure="Give it the same reducer (the same function object) in both, or declare the reducer in one of them only.",
    )


def _spelled(definition: Any) -> str:
    return definition.__name__ if isinstance(definition, type) else repr(definition)
