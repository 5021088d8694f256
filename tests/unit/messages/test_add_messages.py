"""add_messages: what an update does to a list of messages."""

import copy

import pytest

from durable_graph.errors import InvalidConfigError, InvalidUpdateError
from durable_graph.messages import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    add_messages,
    convert_to_messages,
)
from durable_graph.messages.known_ids import KnownIds
from durable_graph.types import MISSING, Overwrite

A, B, C = HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")


def drop(key):
    return RemoveMessage(key)


@pytest.mark.parametrize(
    ("left", "right", "after"),
    [
        ([A], [B], [A, B]),
        ([A], B, [A, B]),
        ([A, B], [HumanMessage("new", id="1"), C], [HumanMessage("new", id="1"), B, C]),
        ([A, B], [drop("1")], [B]),
        ([A, B], [drop("1"), A], [A, B]),
        ([A], [B, drop("2")], [A]),
        ([A, B], [drop(REMOVE_ALL_MESSAGES), C], [C]),
        ([A], [B, drop(REMOVE_ALL_MESSAGES), C, drop(REMOVE_ALL_MESSAGES)], []),
        ([], [], []),
    ],
    ids=["append", "single", "replace", "remove", "remove, re-add", "add, remove", "all", "last all", "nothing"],
)
def test_an_update_does_this(left, right, after):
    assert add_messages(left, right) == after


def test_a_removal_of_what_is_not_there_is_an_error():
    with pytest.raises(InvalidUpdateError, match="'9'"):
        add_messages([A], [drop("9")])
    assert issubclass(InvalidUpdateError, ValueError)


@pytest.mark.parametrize("sides", [(None, [A]), ([A], None), ([A],)])
def test_one_side_alone_is_an_error(sides):
    with pytest.raises(ValueError, match="side"):
        add_messages(*sides)


def test_options_alone_give_a_reducer():
    assert add_messages() is add_messages
    shaped = add_messages(format="langchain-openai")
    assert shaped is add_messages(format="langchain-openai")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    [message] = shaped([], [HumanMessage(["a", picture], id="1")])
    assert message.content == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    with pytest.raises(InvalidConfigError, match="nonsense"):
        add_messages([], [], format="nonsense")


def test_messages_without_an_id_get_one_and_the_arguments_stay_as_they_are():
    left, right = [HumanMessage("a")], ["b"]
    before = copy.deepcopy((left, right))
    found = add_messages(left, right)
    assert (left, right) == before
    assert len({message.id for message in found} - {None}) == 2


def test_chunks_become_messages():
    assert type(add_messages([], [AIMessageChunk("a", id="1")])[0]) is AIMessage


# --- what people write for a message ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("hi", HumanMessage("hi")),
        (("user", "hi"), HumanMessage("hi")),
        (("human", "hi"), HumanMessage("hi")),
        (("ai", "hi"), AIMessage("hi")),
        ({"role": "system", "content": "s"}, SystemMessage("s")),
        ({"role": "developer", "content": "s"}, SystemMessage("s", additional_kwargs={"__openai_role__": "developer"})),
        ({"type": "human", "content": "hi", "id": "1"}, HumanMessage("hi", id="1")),
        ({"type": "human", "data": {"content": "hi"}}, HumanMessage("hi")),
        ({"role": "tool", "content": "r", "tool_call_id": "c"}, ToolMessage("r", tool_call_id="c")),
        ({"role": "assistant", "content": "a", "refusal": "no"}, AIMessage("a", additional_kwargs={"refusal": "no"})),
        ({"role": "assistant", "content": "a", "refusal": None}, AIMessage("a")),
    ],
)
def test_what_people_write_becomes_a_message(written, message):
    assert convert_to_messages([written]) == [message]
    assert convert_to_messages(written) == [message]


def test_calls_in_openais_form_are_read():
    def call(key, arguments):
        return {"id": key, "type": "function", "function": {"name": "f", "arguments": arguments}}

    [message] = convert_to_messages(
        {"role": "assistant", "content": None, "tool_calls": [call("1", '{"n": 12345678901234567890}'), call("2", "{")]}
    )
    assert message.content == ""
    assert message.tool_calls == [
        {"name": "f", "args": {"n": 12345678901234567890}, "id": "1", "type": "tool_call"},
    ]
    assert [(bad["id"], bad["args"]) for bad in message.invalid_tool_calls] == [("2", "{")]


@pytest.mark.parametrize("wrong", [5, None, ("boss", "hi"), {"content": "hi"}, {"role": "tool", "content": "r"}])
def test_anything_else_is_refused_with_a_cure(wrong):
    with pytest.raises(InvalidUpdateError, match=r"cannot be a message[\s\S]*role"):
        add_messages([], [wrong])


# --- the engine's side -----------------------------------------------------------------------------------------------


def test_a_prepared_update_has_ids_for_good():
    ready = add_messages.prepare(["a", HumanMessage("b")])
    assert all(message.id for message in ready)
    assert add_messages.prepare(ready) is ready
    assert add_messages([], ready) == ready
    [single] = add_messages.prepare("a")
    assert single.content == "a"
    assert add_messages.prepare(Overwrite([A, B, drop("1")])) == Overwrite([B])
    assert add_messages.prepare({"__overwrite__": [A]}) == Overwrite([A])


@pytest.mark.parametrize("length", [0, 3, 64, 65, 500])
def test_appends_are_reported_and_agree_with_the_reducer(length):
    value = [HumanMessage("x", id=f"m{index}") for index in range(length)]
    for step in range(3):
        write = [HumanMessage("y", id=f"new{step}"), AIMessage("z", id=f"more{step}")]
        assert add_messages.appended(value, [write]) == write
        assert add_messages(value, write) == value + write
        value += write
        assert add_messages.appended(value, [write]) is None


@pytest.mark.parametrize(
    "writes",
    [[[A, A]], [[A], [A]], [[drop("m1")]], [["raw"]], [A], [[HumanMessage("no id")]], [[AIMessageChunk("a", id="7")]]],
    ids=["twice", "twice in two", "removal", "raw", "no list", "no id", "chunk"],
)
def test_any_other_update_is_no_append(writes):
    assert add_messages.appended([HumanMessage("x", id="m1")], writes) is None
    assert add_messages.appended(MISSING, writes) is None


def test_ids_are_known_by_the_list_and_not_by_what_looks_like_it():
    known = KnownIds()
    one = [HumanMessage("x", id=str(index)) for index in range(100)]
    other = [*one[:50], HumanMessage("x", id="other"), *one[51:]]
    assert "50" in known.of(one)
    assert "50" not in known.of(other)
    one.append(A.model_copy(update={"id": "late"}))
    assert "late" in known.of(one)
    del one[60:]
    one += [HumanMessage("x", id=f"again{index}") for index in range(10)]
    assert "99" not in known.of(one)


def test_lists_nobody_holds_are_forgotten_and_the_rest_is_bounded():
    known = KnownIds(room=4)
    for index in range(10):
        known.of([HumanMessage("x", id=f"{index}.{number}") for number in range(65)])
    assert len(known) == 1
    held = [[HumanMessage("x", id=f"{index}.{number}") for number in range(65)] for index in range(10)]
    for messages in held:
        known.of(messages)
    assert len(known) == 4
