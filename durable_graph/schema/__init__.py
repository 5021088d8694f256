"""From a user's schema (TypedDict, dataclass, pydantic model, annotated type) to channels, and values checked by it."""

from __future__ import annotations

from durable_graph.schema.adapters import json_schema_of, validate_as
from durable_graph.schema.managed import IsLastStep, ManagedValue, RemainingSteps
from durable_graph.schema.reading import Role, Schema, merge_channels, read_schema
from durable_graph.schema.validation import Validation, Validator, make_validator

__all__ = [
    "IsLastStep",
    "ManagedValue",
    "RemainingSteps",
    "Role",
    "Schema",
    "Validation",
    "Validator",
    "json_schema_of",
    "make_validator",
    "merge_channels",
    "read_schema",
    "validate_as",
]
