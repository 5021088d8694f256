"""Structured output: an answer of a model as a value of a schema.

Three ways to it. `ToolStrategy`: the model calls a tool whose arguments are the value. `ProviderStrategy`: the provider
holds the model to a JSON schema. `AutoStrategy` (and a bare schema): the second where the model says it can, else the
first. Whichever way, what does not fit is explained to the model, a bounded number of times, and then raised; every
call is answered.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import TypedDict, TypeVar, is_typeddict

from durable_graph.errors import InvalidConfigError, NodeFailure, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AutoStrategy",
    "MultipleStructuredOutputsError",
    "OutputSchema",
    "ProviderStrategy",
    "ResponseFormat",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
    "as_strategy",
]

SchemaT = TypeVar("SchemaT", default=Any)

HandleErrors: TypeAlias = (
    "bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[StructuredOutputError], str]"
)
"""Which failures are explained to the model, and how; see `ToolStrategy`."""


class StructuredOutputError(NodeFailure, ValueError):
    """A model did not give the structured output that was asked for. `ai_message` is its answer."""

    code = "DG310"
    cure = "Describe the fields in the schema, allow more max_retries, or use a stronger model."
    ai_message: Any = None


class MultipleStructuredOutputsError(StructuredOutputError):
    """It gave several where one was asked for. `tool_names` are those it called."""

    code = "DG311"
    tool_names: tuple[str, ...] = ()


class StructuredOutputValidationError(StructuredOutputError):
    """What it gave does not fit the schema, or it gave none. `tool_name` is the schema's name."""

    code = "DG312"
    tool_name: str = ""


@dataclass(frozen=True)
class OutputSchema:
    """One schema: a pydantic model, a dataclass, a TypedDict, or a JSON schema (a dict)."""

    schema: Any

    @cached_property
    def name(self) -> str:
        """What the model calls it by."""
        if isinstance(self.schema, dict):
            return str(cast("dict[str, Any]", self.schema).get("title") or "response_format")
        return str(self.schema.__name__)

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """As the provider sees it."""
        if isinstance(self.schema, dict):
            return cast("dict[str, Any]", self.schema)
        return self._adapter.json_schema()

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        return TypeAdapter(_for_pydantic(self.schema))

    @property
    def tool(self) -> dict[str, Any]:
        """The tool that the model calls to give the value, in OpenAI's form."""
        schema = dict(self.json_schema)
        said = schema.pop("description", None)
        _ = schema.pop("title", None)
        about = {"name": self.name, "description": said or f"Give the answer as {self.name}.", "parameters": schema}
        return {"type": "function", "function": about}

    def read(self, given: Any) -> Any:
        """The value.

        Raises:
            pydantic.ValidationError: it does not fit.
            ValueError: it does not fit a JSON schema.
        """
        if not isinstance(self.schema, dict):
            return self._adapter.validate_python(given)
        if not isinstance(given, dict):
            raise ValueError(f"expected an object, got {shortened(given)}")  # noqa: TRY004 - as pydantic's error is one
        missing = [name for name in self.json_schema.get("required", ()) if name not in given]
        if missing:
            raise ValueError(f"missing: {', '.join(missing)}")
        return cast("Any", given)


def _for_pydantic(schema: Any) -> Any:
    """The schema, without TypedDicts of `typing`: before Python 3.12 pydantic takes those of typing_extensions only."""
    if get_origin(schema) in (Union, UnionType):
        return Union[tuple(_for_pydantic(member) for member in get_args(schema))]  # noqa: UP007 - made at run time
    if sys.version_info >= (3, 12) or not is_typeddict(schema):
        return schema
    fields: dict[str, Any] = {}
    for key, hint in get_type_hints(schema, include_extras=True).items():
        inner = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
        fields[key] = Required[inner] if key in schema.__required_keys__ else NotRequired[inner]
    made: Any = TypedDict  # made at run time, of what is known only then
    found = made(schema.__name__, fields)
    found.__doc__ = schema.__doc__
    return found


def _members(schema: Any) -> tuple[OutputSchema, ...]:
    """The schemas in a union, or the one there is.

    Raises:
        InvalidConfigError: something is no schema.
    """
    if get_origin(schema) in (Union, UnionType):
        return tuple(one for member in get_args(schema) for one in _members(member))
    if isinstance(schema, dict) and "oneOf" in schema:
        return tuple(one for member in cast("dict[str, Any]", schema)["oneOf"] for one in _members(member))
    known = isinstance(schema, dict) or is_typeddict(schema) or (isinstance(schema, type) and _has_fields(schema))
    if not known:
        raise InvalidConfigError(
            f"{shortened(cast('object', schema))} is no schema of a structured output",
            cure="Use a pydantic model, a dataclass, a TypedDict, a JSON schema, or a union of them.",
        )
    return (OutputSchema(cast("Any", schema)),)


def _has_fields(schema: type[Any]) -> bool:
    return is_dataclass(schema) or hasattr(schema, "model_validate")


@dataclass(frozen=True, init=False)
class ToolStrategy(Generic[SchemaT]):
    """The model gives the value as the arguments of a tool; of a union, each member is a tool.

    schema: what is asked for.   tool_message_content: the result of that call in the history; short by default.
    handle_errors: which failures are explained to the model, for another try. True: all. False: none. A text: all, in
    these words. Exception types: those. A function of the error: gives the text.   max_retries: how many tries after
    the first.
    """

    schema: Any
    tool_message_content: str | None
    handle_errors: HandleErrors
    max_retries: int

    def __init__(
        self,
        schema: Any,
        *,
        tool_message_content: str | None = None,
        handle_errors: HandleErrors = True,
        max_retries: int = 2,
    ) -> None:
        _fill(self, schema, max_retries)
        names = [one.name for one in self.schemas]
        if twice := [name for name in names if names.count(name) > 1]:
            what = f"two schemas of a union have the name {twice[0]!r}"
            raise InvalidConfigError(what, cure='Rename one; a JSON schema is named by its "title".')
        object.__setattr__(self, "tool_message_content", tool_message_content)
        object.__setattr__(self, "handle_errors", handle_errors)

    @cached_property
    def schemas(self) -> tuple[OutputSchema, ...]:
        """The members of the union."""
        return _members(self.schema)

    def said_of(self, value: Any) -> str:
        """The result of the call that gave the value."""
        return self.tool_message_content or f"{type(value).__name__} taken."

    def explained(self, error: StructuredOutputError) -> str | None:
        """What the model is told of a failure; None where it is to be raised."""
        how = self.handle_errors
        if isinstance(how, bool):
            return f"Error: {error.what}. Give it again." if how else None
        if isinstance(how, str):
            return how
        if isinstance(how, type | tuple):
            return f"Error: {error.what}. Give it again." if _is_one(error, how) else None
        return how(error)


@dataclass(frozen=True, init=False)
class ProviderStrategy(Generic[SchemaT]):
    """The provider holds the model to a JSON schema, and the value is the text of the answer.

    schema: what is asked for.   strict: passed on to the provider.   max_retries: how many tries after the first, when
    the text does not fit all the same.
    """

    schema: Any
    strict: bool | None
    max_retries: int

    def __init__(self, schema: Any, *, strict: bool | None = None, max_retries: int = 2) -> None:
        _fill(self, schema, max_retries)
        object.__setattr__(self, "strict", strict)

    @cached_property
    def output(self) -> OutputSchema:
        """The schema; a union is one."""
        members = _members(self.schema)
        if len(members) == 1:
            return members[0]
        if isinstance(self.schema, dict):
            return OutputSchema(cast("Any", self.schema))
        return _UnionSchema(self.schema)

    @property
    def response_format(self) -> dict[str, Any]:
        """The option of OpenAI's protocol that asks for it."""
        told: dict[str, Any] = {"name": self.output.name, "schema": self.output.json_schema}
        if self.strict is not None:
            told["strict"] = self.strict
        return {"type": "json_schema", "json_schema": told}

    def read(self, text: str) -> Any:
        """The value that the text of an answer gives.

        Raises:
            pydantic.ValidationError: it does not fit.
            ValueError: it is no JSON.
        """
        return self.output.read(json.loads(text))


class _UnionSchema(OutputSchema):
    name: Final = "response_format"  # pyright: ignore[reportIncompatibleVariableOverride, reportAssignmentType] - a union has no name


@dataclass(frozen=True, init=False)
class AutoStrategy(Generic[SchemaT]):
    """The provider's way where the model says that it can, else a tool; a bare schema means the same."""

    schema: Any
    max_retries: int

    def __init__(self, schema: Any, *, max_retries: int = 2) -> None:
        _fill(self, schema, max_retries)


ResponseFormat: TypeAlias = "ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]"
"""The strategies. Wherever one is taken, so is a bare schema."""


def _fill(strategy: Any, schema: Any, max_retries: int) -> None:
    if max_retries < 0:
        what = f"max_retries is {max_retries}, expected 0 or more"
        raise InvalidConfigError(what, cure="It counts tries after the first.")
    object.__setattr__(strategy, "schema", schema)
    object.__setattr__(strategy, "max_retries", max_retries)
    _ = _members(schema)


def as_strategy(given: Any) -> Any:
    """A strategy as it is, a bare schema as an AutoStrategy, None as None."""
    if given is None or isinstance(given, ToolStrategy | ProviderStrategy | AutoStrategy):
        return cast("Any", given)
    return AutoStrategy(given)


def response_type(strategy: Any) -> Any:
    """The type of the values, which tells the state how to store them."""
    return dict[str, Any] if isinstance(strategy.schema, dict) else strategy.schema


def settled(strategy: Any, model: Any) -> Any:
    """The strategy for this model: never an AutoStrategy."""
    if not isinstance(strategy, AutoStrategy):
        return strategy
    profile: Any = getattr(model, "profile", None)
    if isinstance(profile, dict) and cast("dict[str, Any]", profile).get("structured_output"):
        return ProviderStrategy(strategy.schema, max_retries=strategy.max_retries)
    return ToolStrategy(strategy.schema, max_retries=strategy.max_retries)


def _is_one(error: StructuredOutputError, types: Any) -> bool:
    return isinstance(error, types) or isinstance(error.__cause__, types)
