"""Registered classes: how they come back, what registering refuses, and what happens when a class changed."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import re
import subprocess
import sys
from typing import Any, NamedTuple, TypeVar

import pydantic
import pytest

from durable_graph.errors import InvalidConfigError, UnknownStoredTypeError, UnserializableValueError
from durable_graph.persistence.codec import CODEC, register_type
from durable_graph.persistence.known_types import KNOWN
from durable_graph.types import Interrupt
from tests.unit.persistence.coded import again, made

T = TypeVar("T")


@register_type
@dataclasses.dataclass
class Point:
    x: int
    y: Any = dataclasses.field(default_factory=list)
    given: dataclasses.InitVar[int] = 1

    def __post_init__(self, given):
        self.derived = self.x + given

    @functools.cached_property
    def cached(self):
        return object()


@register_type
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    part: Any
    unset: int = dataclasses.field(init=False)


@register_type
class Pair(NamedTuple):
    left: Any
    right: Any = 5


@register_type
class Color(enum.Enum):
    RED = 1
    GREEN = (2, 3)


@register_type
class Level(enum.IntEnum):
    LOW = 1


@register_type
class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2
    BOTH = 3


@register_type
class Switch(enum.Flag):
    A = 1
    B = 2


@register_type
class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    number: int
    inner: Any = None
    _private: Any = pydantic.PrivateAttr(default_factory=list)
    _never_set: int = pydantic.PrivateAttr()


@register_type
class Words(list):
    pass


@register_type
class Table(dict):
    def __getitem__(self, key):
        return "shown, not held"


@register_type
class Sorted(collections.OrderedDict):
    pass


@register_type
class Tally(collections.Counter):
    pass


@register_type
class Name(str):
    __slots__ = ("origin",)


@register_type
class Amount(int):
    pass


@register_type
class Plain:
    __slots__ = ("__dict__", "__hidden", "open")

    def __init__(self, value):
        self.open = value
        self.__hidden = value
        self.free = value


@register_type
class Problem(ValueError):
    def __init__(self, needed, also):
        super().__init__(f"{needed} {also}")
        self.needed = needed


def named(value):
    value = Name(value)
    value.origin = ("somewhere",)
    return value


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, (2,)), Color.GREEN, Level.LOW, Permission.BOTH, Permission(0), Permission.READ | 8, Switch.A | Switch.B,
        Switch(0), Words([1, (2,)]), Sorted(z=1, a=2), Tally("aab"), Amount(2**70), named("x\ud800"), Model(number=1),
        Model(number=1, inner={1}, more=(1,)), Model.model_construct(number="not valid"), Point(1), Table(a=1),
    ],
    ids=range(18),
)  # fmt: skip
def test_a_registered_object_comes_back_with_its_type(value):
    found = again(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


def test_a_dataclass_comes_back_without_running_its_code():
    point = Point(1, (2,), given=10)
    point.extra = {3}
    assert point.cached
    found = again(point)
    assert vars(found) == {"x": 1, "y": (2,), "derived": 11, "extra": {3}}  # the cached property is no state


def test_a_frozen_slotted_dataclass_comes_back_with_unset_fields_unset():
    found = again(Frozen((1, {2})))
    assert found.part == (1, {2})
    assert not hasattr(found, "unset")


def test_a_model_comes_back_with_private_attributes_extra_and_the_set_of_set_fields():
    model = Model(number=1, more="m")
    model._private.append((1,))
    found = again(model)
    assert found._private == [(1,)]
    assert found.__pydantic_private__ == {"_private": [(1,)]}
    assert found.model_extra == {"more": "m"}
    assert found.model_fields_set == {"number", "more"}
    assert found == model


def test_what_was_put_into_a_model_past_pydantic_is_kept():
    model = Model(number=1)
    vars(model)["beside"] = (1,)
    assert vars(again(model)) == vars(model)


def test_attributes_of_subclasses_of_builtins_are_kept():
    words = Words([1])
    words.note = ("n",)
    assert again(words).note == ("n",)
    assert again(named("x")).origin == ("somewhere",)


def test_a_plain_class_comes_back_with_slots_and_attributes():
    found = again(Plain((1,)))
    assert (found.open, found._Plain__hidden, found.free) == ((1,), (1,), (1,))


def test_a_dict_subclass_is_stored_as_what_it_holds():
    assert dict.__getitem__(again(Table(a=1)), "a") == 1


def test_a_registered_exception_comes_back():
    found = again(Problem("a", "b"))
    assert type(found) is Problem
    assert (found.args, found.needed) == (("a b",), "a")


def test_a_defaultdict_of_a_registered_type_keeps_its_factory():
    found = again(collections.defaultdict(Words, {"a": Words([1])}))
    assert found.default_factory is Words
    assert found == {"a": [1]}


def test_a_secret_comes_back():
    found = again(pydantic.SecretStr("s"))
    assert type(found) is pydantic.SecretStr
    assert found.get_secret_value() == "s"


def test_a_refusal_inside_an_object_names_its_attribute():
    for value, path in [
        (Point(1, [object()]), r"\.y\[0\]"),
        (Pair(1, object()), r"\.right"),
        (Model(number=1, inner={"k": object()}), r"\.inner\['k'\]"),
        (Words([object()]), r"\[0\]"),
    ]:
        with pytest.raises(UnserializableValueError, match=f"builtins:object at {path} "):
            CODEC.encode(value)


# --- encode and decode of the user's ---------------------------------------------------------------------------------


class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees


def test_encode_and_decode_are_used():
    register_type(Celsius, name="celsius", encode=lambda value: (value.degrees,), decode=lambda plain: Celsius(*plain))
    data = CODEC.encode(Celsius(3))
    assert b"celsius" in data
    assert b"Celsius" not in data
    assert CODEC.decode(data).degrees == 3


def test_what_was_stored_by_state_is_still_read_when_functions_came_later():
    class Late:
        pass

    register_type(Late)
    late = Late()
    late.number = 1
    data = CODEC.encode(late)
    register_type(Late, encode=lambda value: value.number, decode=lambda _: 1 / 0)
    assert CODEC.decode(data).number == 1


def test_an_exception_of_a_users_function_passes_as_it_is():
    class Broken:
        pass

    def fail(_):
        raise ValueError("mine")

    register_type(Broken, name="broken in writing", encode=fail, decode=fail)
    with pytest.raises(ValueError, match="mine") as caught:
        CODEC.encode([(Broken(),)])
    assert "Broken" in caught.value.__notes__[0]
    register_type(Broken, name="broken in reading", encode=lambda _: 1, decode=fail)
    with pytest.raises(ValueError, match="mine"):
        CODEC.decode(CODEC.encode([(Broken(),)]))


# --- what registering refuses ----------------------------------------------------------------------------------------


def test_two_classes_cannot_have_one_key():
    with pytest.raises(InvalidConfigError, match=r"Point cannot be registered as .*Pair"):
        register_type(Point, name=f"{__name__}:Pair")


def test_a_class_defined_anew_takes_over():
    def define(**fields):
        return register_type(made("Again", fields.items(), module="cell"))

    old = define(a=int)
    data = CODEC.encode(old(1))
    new = define(a=int)
    assert type(CODEC.decode(data)) is new
    assert CODEC.encode(new(1)) == data == CODEC.encode(old(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: register_type(5),
        lambda: register_type(list),
        lambda: register_type(Celsius, encode=str),
        lambda: register_type(type("Os", (OSError,), {})),
        lambda: register_type(type("Clock", (__import__("datetime").datetime,), {})),
    ],
    ids=["no class", "listed", "half", "exception in C", "base in C"],
)
def test_what_cannot_be_registered_is_refused_at_once(call):
    with pytest.raises(InvalidConfigError) as caught:
        call()
    assert caught.value.cure


def test_a_name_makes_data_independent_of_the_class_name_and_aliases_read_old_data():
    first = register_type(made("Before", ["a"], module="old.place"))
    data = CODEC.encode(first(1))
    moved = made("After", ["a"], module="new.place")
    with pytest.raises(InvalidConfigError, match=re.escape("old.place:Before")):
        register_type(moved, aliases=["old.place:Before"])
    forgotten = data.replace(b"old.place:Before", b"was.there:Before")
    register_type(moved, aliases=["was.there:Before"])
    assert CODEC.decode(forgotten) == moved(1)


# --- classes that changed --------------------------------------------------------------------------------------------


def versions(kind, old, new):
    """Store an object of the old class, and read it with the new one."""
    data = CODEC.encode(register_type(kind("Changed", old))(**dict.fromkeys(old, 1)))
    register_type(kind("Changed", new))
    return lambda: CODEC.decode(data)


def as_dataclass(name, fields):
    parts = [(field, int) if default is ... else (field, int, default) for field, default in fields.items()]
    return made(name, parts, module="changing.dataclass")


def as_model(name, fields):
    return pydantic.create_model(name, __module__="changing.model", **{k: (int, v) for k, v in fields.items()})


def as_namedtuple(name, fields):
    defaults = [default for default in fields.values() if default is not ...]
    return collections.namedtuple(name, fields, defaults=defaults, module="changing.tuple")  # noqa: PYI024 - an untyped one is what is tested


KINDS = [as_dataclass, as_model, as_namedtuple]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_field_gets_its_default(kind):
    found = versions(kind, {"a": ...}, {"a": ..., "b": 7})()
    assert (found.a, found.b) == (1, 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new", [{"a": ..., "fresh": ...}, {"fresh": ...}], ids=["added", "renamed"])
def test_a_field_that_is_missing_is_an_error_not_an_empty_object(kind, new):
    with pytest.raises(UnknownStoredTypeError, match=r"Changed.*'fresh'"):
        versions(kind, {"a": ...}, new)()


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_the_class_lost_is_an_error(kind):
    with pytest.raises(UnknownStoredTypeError, match=r"Changed.*'gone'"):
        versions(kind, {"a": ..., "gone": ...}, {"a": ...})()


def test_a_member_that_the_enum_lost_is_an_error():
    data = CODEC.encode(register_type(enum.Enum("Shade", "DARK LIGHT", module="changing.enum")).DARK)
    register_type(enum.Enum("Shade", "LIGHT", module="changing.enum"))
    with pytest.raises(UnknownStoredTypeError, match=r"Shade.*'DARK'.*LIGHT"):
        CODEC.decode(data)


def test_a_process_that_did_not_register_the_class_says_so():
    code = f"from durable_graph.persistence.codec import CODEC; CODEC.decode({CODEC.encode([Point(1)])!r})"
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert "UnknownStoredTypeError" in run.stderr
    assert f"{__name__}:Point" in run.stderr
    assert "register_type(Point)" in run.stderr


# --- the closed list, LangChain -----------------------------------------------------------------------------------


def test_no_number_is_given_twice():
    codes = [known.kind.code for known in KNOWN]
    assert len(set(codes)) == len(codes)
    assert not {0, 1, 12, 63} & set(codes)


def test_own_types_have_short_names():
    assert len(CODEC.encode(Interrupt(1, "i"))) < 60
