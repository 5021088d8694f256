"""Single types: JSON schemas, coercion, and pydantic left alone until it is needed."""

import subprocess
import sys
import typing

import pytest
from pydantic import BaseModel

from durable_graph.errors import InvalidSchemaError, InvalidValueError
from durable_graph.schema import json_schema_of, validate_as


class Answer(BaseModel):
    ok: bool
    note: str = ""


class Plain(typing.TypedDict):
    x: int


class Foreign:
    pass


def test_a_type_has_its_json_schema_and_a_json_schema_is_one_already():
    assert json_schema_of(bool) == {"type": "boolean"}
    assert json_schema_of(Answer)["required"] == ["ok"]
    assert json_schema_of({"type": "string"}) == {"type": "string"}


def test_a_type_that_json_does_not_know_is_refused():
    with pytest.raises(InvalidSchemaError, match="Foreign has no JSON schema"):
        json_schema_of(Foreign)


def test_a_value_is_coerced_to_the_type():
    assert validate_as(int, "3") == 3
    assert validate_as(Answer, {"ok": True}) == Answer(ok=True)
    assert validate_as(list[Answer], []) == []


def test_a_json_schema_checks_nothing():
    assert validate_as({"type": "string"}, 5) == 5


def test_a_value_that_does_not_fit_is_refused_with_the_reason():
    with pytest.raises(InvalidValueError, match="A value of type dict is no Answer: ok: Field required"):
        validate_as(Answer, {})
    with pytest.raises(InvalidValueError, match="is no Foreign"):
        validate_as(Foreign, 1)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from 3.12 on")
def test_a_typed_dict_that_pydantic_cannot_check_is_refused_with_the_cure():
    with pytest.raises(InvalidSchemaError, match="Plain cannot be checked") as caught:
        validate_as(Plain, {"x": 1})
    assert "typing_extensions" in caught.value.cure


SCRIPT = """
import dataclasses, operator, sys
from typing import Annotated, TypedDict
from durable_graph.schema import make_validator, merge_channels, read_schema

class Typed(TypedDict):
    x: int
    log: Annotated[list, operator.add]

@dataclasses.dataclass
class Data:
    x: int = 0

    def __post_init__(self):
        if self.x:
            raise ValueError(self.x)

for schema in map(read_schema, (Typed, Data, Annotated[list, operator.add])):
    schema.build({"x": 0, "log": []})
    schema.read_update({"x": 1})
    schema.read_update(Data())
    merge_channels([schema])
    validator = make_validator(schema)
    if validator is not None:
        try:
            validator.validate_state({"x": 1})
        except ValueError as error:
            print("checked", error)
print(*sorted(name for name in sys.modules if name.split(".")[0].startswith("pydantic")))
"""


def test_states_without_models_never_import_pydantic():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["checked 1", ""]
