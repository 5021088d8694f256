"""What is put in comes out: values of every listed type, refusals, and damaged or hostile bytes."""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import ipaddress
import math
import pathlib
import re
import struct
import subprocess
import sys
import threading
import uuid
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_graph.errors import CorruptDataError, UnknownStoredTypeError, UnserializableValueError
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import StateView
from durable_graph.types import MISSING, Command, Interrupt, Overwrite, Send
from tests.unit.persistence.coded import again


class Odd:
    """Nobody registers it."""


class OddList(list):
    """Nobody registers it either."""


BERLIN = ZoneInfo("Europe/Berlin")

VALUES = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    10**400,
    -(10**400),
    1.5,
    -0.0,
    math.inf,
    "",
    "a\x00b",
    "a\ud800b",
    "\U0001f600",
    b"\xff\x00",
    bytearray(b"ab"),
    [bytearray(b"ab"), {"deep": [bytearray()]}],
    [],
    [[1], [2, [3]]],
    (),
    (1, (2, [3])),
    {},
    {"z": 1, "a": 2, 3: 4, (5, 6): 7, None: 8, b"k": 9, 1.5: 10, frozenset({1}): 11},
    {1, "a", (2, 3)},
    set(),
    frozenset({frozenset({1}), frozenset()}),
    collections.deque([1, 2]),
    collections.deque([1, 2], maxlen=2),
    collections.defaultdict(list, {"a": [1]}),
    collections.defaultdict(None, {"a": 1}),
    collections.Counter({"b": 2, "a": -1}),
    collections.Counter({"odd": "no number"}),
    collections.OrderedDict([("z", 1), ("a", 2)]),
    complex(1.0, -0.0),
    Decimal("1.200"),
    Decimal("-0E+5"),
    Decimal("sNaN123"),
    Fraction(-1, 3),
    Fraction(10**40, 7),
    range(3),
    range(10, 0, -3),
    slice(1, None, 2),
    ...,
    dt.datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a naive time is a value too
    dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-3), "here")),
    dt.date(1, 1, 1),
    dt.time(1, 2, 3, 4, fold=1),
    dt.time(1, tzinfo=dt.UTC),
    dt.timedelta(days=-3, seconds=5, microseconds=7),
    dt.UTC,
    dt.timezone(dt.timedelta(seconds=5)),
    BERLIN,
    uuid.UUID(int=5),
    uuid.uuid1(),
    re.compile(r"a(b)", re.IGNORECASE | re.MULTILINE),
    re.compile(rb"\xff"),
    pathlib.PurePosixPath("/a/../b"),
    pathlib.PureWindowsPath("c:\\x"),
    pathlib.Path("a"),
    *map(ipaddress.ip_address, ("1.2.3.4", "fe80::1%eth0")),
    *map(ipaddress.ip_interface, ("1.2.3.4/8", "::1/64")),
    *map(ipaddress.ip_network, ("1.0.0.0/8", "fe80::/64")),
    Send("node", {"x": (1,)}),
    Command(goto=[Send("a", 1), "b"], update={"k": {1}}, resume=None),
    Command(),
    Interrupt({"ask": (1,)}, "id", {"type": "string"}),
    Overwrite([1]),
]


def shown(value):
    """Its repr; of a set that of its elements, sorted: the order of a set depends on how it was filled."""
    return sorted(map(shown, value)) if isinstance(value, set | frozenset) else repr(value)


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_what_is_put_in_comes_out(value):
    found = again(value)
    assert type(found) is type(value)
    assert shown(found) == shown(value)  # shows -0.0, nested types, fold, maxlen, the order of keys
    if not isinstance(value, Decimal) or not value.is_snan():
        assert found == value


def test_nan_comes_back_with_its_bits():
    assert struct.pack("d", again(math.nan)) == struct.pack("d", math.nan)


def test_missing_comes_back_as_the_one_missing():
    assert again([MISSING])[0] is MISSING


def test_the_safety_mark_of_a_uuid_is_kept():
    value = uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe)
    assert again(value).is_safe is uuid.SafeUUID.safe


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::2],
        np.array(3),
        np.zeros((0, 3)),
        np.array(["a\0", "bc"]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([True, False]),
    ],
    ids=str,
)
def test_an_array_comes_back_with_dtype_shape_and_order(array):
    found = again(array)
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape, found.flags.fnc) == (array.dtype, array.shape, array.flags.fnc)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(1.5),
        np.int8(-3),
        np.array([True])[0],
        np.str_("a\0"),
        np.bytes_(b"a\0"),
        np.datetime64("2020-01-01", "s"),
    ],
    ids=lambda scalar: type(scalar).__name__,
)
def test_a_numpy_scalar_comes_back_as_a_numpy_scalar(scalar):
    assert type(again(scalar)) is type(scalar)
    assert again(scalar) == scalar


@pytest.mark.parametrize(
    ("value", "path", "name"),
    [
        (Odd(), ":Odd cannot be stored", ":Odd"),
        ({"items": [0, 1, 2, Send("n", {"owner": Odd()})]}, "['items'][3].arg['owner']", ":Odd"),
        ([{"a": (1, {"b": Odd})}], "[0]['a'][1]['b']", "builtins:type"),
        ([1, OddList()], "[1]", ":OddList"),
        ({"m": [memoryview(b"a")]}, "['m'][0]", "memoryview"),
        ([msgpack.ExtType(5, b"a")], "[0]", "ExtType"),
        ({"t": msgpack.Timestamp(1)}, "['t']", "Timestamp"),
        ({"f": len}, "['f']", "builtin_function_or_method"),
        ({"e": ValueError("x")}, "['e']", "ValueError"),
        ([np.array([object()])], "[0]", "ndarray"),
        ({"d": collections.defaultdict(lambda: 1)}, "['d']", "defaultdict"),
        ({"k": {(1, Odd): 2}}, "['k']<key", "builtins:type"),
    ],
)
def test_a_refusal_names_the_type_and_the_path(value, path, name):
    with pytest.raises(UnserializableValueError) as caught:
        CODEC.encode(value)
    assert path in caught.value.what
    assert name in caught.value.what
    assert caught.value.cure


def test_the_cure_of_a_refusal_can_be_typed_as_it_stands():
    with pytest.raises(UnserializableValueError, match=r"durable_graph\.register_type\(Odd\)"):
        CODEC.encode(Odd())


def test_a_list_that_contains_itself_is_refused_with_its_path():
    ring: list = [1]
    ring.append({"again": ring})
    with pytest.raises(UnserializableValueError, match=r"\['x'\]\[1\]\['again'\].*contains itself"):
        CODEC.encode({"x": ring})


def test_an_object_that_contains_itself_is_refused():
    ring = Send("n", None)
    ring.arg = [ring]
    with pytest.raises(UnserializableValueError, match=r"\.arg\[0\].*contains itself"):
        CODEC.encode(ring)


def nested(levels, wrap):
    value = 0
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: {"k": v}, lambda v: (v,), lambda v: Send("n", v)],
    ids=["list", "dict", "tuple", "object"],
)
def test_a_thousand_levels_are_refused(wrap):
    with pytest.raises(UnserializableValueError, match="nested too deep"):
        CODEC.encode(nested(1000, wrap))


@pytest.mark.parametrize(
    ("levels", "wrap"),
    [(499, lambda v: [v]), (499, lambda v: {"k": v}), (63, lambda v: (v,))],
    ids=["list", "dict", "tuple"],
)
def test_the_deepest_value_that_is_taken_can_be_read(levels, wrap):
    value = nested(levels, wrap)
    assert again(value) == value
    with pytest.raises(UnserializableValueError):
        CODEC.encode(nested(levels + 2, wrap))


def test_a_refusal_leaves_the_codec_usable():
    with pytest.raises(UnserializableValueError):
        CODEC.encode([1, (2, Odd())])
    assert again([1, (2, 3)]) == [1, (2, 3)]


def test_a_list_is_an_array_of_its_elements_encodings():
    elements = [1, "a", (1, 2), {3}, bytearray(b"x"), {"k": [Send("n", 1)]}, 2**80]
    for count in (0, 1, 7, 15, 16, 70_000):
        values = (elements * (count // 7 + 1))[:count]
        data = CODEC.encode(values)
        body = b"".join(CODEC.encode(value) for value in values)
        assert data == msgpack.Packer().pack_array_header(count) + body


def test_sets_are_encoded_alike_whatever_their_order():
    names = [f"name{n}" for n in range(50)]
    assert CODEC.encode(set(names)) == CODEC.encode({*names[25:], *names[:25]})
    code = (
        "from durable_graph.persistence.codec import CODEC;print(CODEC.encode({f'name{n}' for n in range(50)}).hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    )
    assert bytes.fromhex(run.stdout) == CODEC.encode(set(names))


def test_shared_references_become_separate_values():
    shared = [1]
    first, second = again([shared, shared])
    assert first == second == [1]
    assert first is not second


def test_the_state_a_node_received_is_stored_as_a_dict():
    found = again({"snapshot": StateView({"a": [1], "b": bytearray(b"x")})})
    assert found == {"snapshot": {"a": [1], "b": bytearray(b"x")}}
    assert type(found["snapshot"]) is dict
    assert type(found["snapshot"]["b"]) is bytearray


def test_os_threads_may_encode_at_once():
    value = {"a": [(n, {n}, {"k": (n,)}) for n in range(50)]}
    wanted = CODEC.encode(value)
    wrong = []

    def work():
        for _ in range(50):
            data = CODEC.encode(value)
            if data != wanted or CODEC.decode(data) != value:
                wrong.append(data)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_large_values_pass():
    value = {"text": "x" * 5_000_000, "many": [(n,) for n in range(1000)]}
    assert again(value) == value


# --- reading what was damaged or forged ----------------------------------------------------------------------------


def forged(code, plain):
    return msgpack.packb(msgpack.ExtType(code, msgpack.packb(plain)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        CODEC.encode([1, 2])[:-1],
        CODEC.encode([1, 2]) + b"\x00",
        b"\x81\x90\x01",
        forged(17, [2024, 99, 1, 0, 0, 0, 0, 0, None]),
        forged(24, ["(", 0]),
        forged(62, ["O", [1], "C", b"\0" * 8]),
        forged(62, ["i8", [100], "C", b"\0"]),
        forged(0, 5),
        forged(0, ["Send", {"node": 1}]),
        forged(99, None),
        msgpack.packb(nested(1023, lambda v: [v]))[:1000],
    ],
    ids=range(13),
)
def test_damaged_bytes_are_an_error_of_their_own(data):
    with pytest.raises(CorruptDataError):
        CODEC.decode(data)


def test_bytes_nested_deeper_than_we_write_are_refused():
    data = msgpack.packb(1)
    for _ in range(500):
        data = msgpack.packb(msgpack.ExtType(2, data))
    with pytest.raises(CorruptDataError, match="nested too deep"):
        CODEC.decode(data)


@pytest.mark.parametrize(
    "key", ["os:system", "antigravity:fly", "builtins:eval", "langchain_core.messages:os", None, 5, ["x"]], ids=repr
)
def test_an_unregistered_key_is_named(key):
    with pytest.raises(UnknownStoredTypeError, match=re.escape(repr(key))):
        CODEC.decode(forged(0, [key, "echo"]))


def test_reading_imports_and_calls_nothing_that_is_not_registered(tmp_path):
    (tmp_path / "marker_module.py").write_text("open('imported', 'w').close()\nclass Thing: pass\n")
    forgeries = [
        forged(code, [key, ["touch imported"]])
        for code in (0, 1)
        for key in ("marker_module:Thing", "os:system", "antigravity:x")
    ]
    code = f"""
import os, sys
from durable_graph.errors import UnknownStoredTypeError
from durable_graph.persistence.codec import CODEC
before = set(sys.modules)
for data in {forgeries!r}:
    try:
        print("decoded", CODEC.decode(data))
    except UnknownStoredTypeError as error:
        assert "register_type" in str(error)
assert set(sys.modules) == before, set(sys.modules) - before
assert not os.path.exists("imported")
print("closed")
"""
    path = ":".join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "closed\n", run.stderr


def test_importing_the_codec_imports_nothing_heavy():
    code = (
        "import sys, durable_graph.persistence.codec;"
        "print([m for m in ('pydantic', 'numpy', 'sqlalchemy', 'langchain_core', 'aiosqlite') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert run.stdout == "[]\n"


# --- anything -----------------------------------------------------------------------------------------------------

hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()) | st.binary() | st.decimals(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
anything = st.recursive(
    hashable
    | st.floats(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.just(BERLIN))
    | st.binary().map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.tuples(inner)
        | st.lists(inner, max_size=4).map(collections.deque)
        | st.builds(Send, st.text(), inner)
    ),
    max_leaves=12,
)


def typed(value):
    """Spell a value with the type of every part, so that 1, True and 1.0 differ."""
    if isinstance(value, dict):
        return type(value), [(typed(key), typed(part)) for key, part in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted((typed(part) for part in value), key=repr)
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), [typed(part) for part in value]
    if isinstance(value, Send):
        return Send, value.node, typed(value.arg)
    return type(value), repr(value)


@settings(max_examples=200, deadline=None)
@given(anything)
def test_anything_comes_back_with_every_type_in_it(value):
    data = CODEC.encode(value)
    found = CODEC.decode(data)
    assert typed(found) == typed(value)
    assert CODEC.encode(found) == data


@settings(max_examples=200, deadline=None)
@given(anything, st.data())
def test_flipped_bytes_never_raise_anything_unexpected(value, data):
    damaged = bytearray(CODEC.encode(value))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptDataError, UnknownStoredTypeError):
        CODEC.decode(bytes(damaged))


def test_an_os_thread_with_a_small_stack_reads_the_deepest_value():
    value = nested(63, lambda v: Send("n", v))
    found = []
    before = threading.stack_size(512 * 1024)
    try:
        worker = threading.Thread(target=lambda: found.append(again(value)))
        worker.start()
    finally:
        threading.stack_size(before)
    worker.join()
    assert found == [value]
