"""Messages: what they take, how they compare, how they are shown."""

import pytest
from pydantic import TypeAdapter, ValidationError

from durable_graph.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    join_chunks,
    message_chunk_to_message,
)

CALL = {"name": "f", "args": {"x": 1.5}, "id": "c1", "type": "tool_call"}


def piece(args, **more):
    return AIMessageChunk(tool_call_chunks=[{"args": args, "index": 0, **more}])


def test_content_may_be_positional_and_defaults_are_plain():
    message = HumanMessage("hi")
    assert (message.content, message.type, message.name, message.id) == ("hi", "human", None, None)
    assert message.additional_kwargs == message.response_metadata == {}
    assert repr(message) == "HumanMessage(content='hi')"


def test_messages_are_equal_by_type_and_value():
    assert HumanMessage("hi", id="1") == HumanMessage("hi", id="1")
    assert HumanMessage("hi", id="1") != HumanMessage("hi", id="2")
    assert HumanMessage("hi") != SystemMessage("hi")


def test_attributes_cannot_be_set():
    with pytest.raises(ValidationError, match="frozen"):
        HumanMessage("hi").id = "1"
    assert HumanMessage("hi").model_copy(update={"id": "1"}) == HumanMessage("hi", id="1")


@pytest.mark.parametrize("wrong", [b"bytes", 5, None])
def test_text_is_text(wrong):
    with pytest.raises(ValidationError):
        HumanMessage(wrong)


def test_an_unknown_field_is_refused():
    with pytest.raises(ValidationError, match="usage"):
        AIMessage("hi", usage={})


def test_a_tool_call_gets_the_keys_people_leave_out():
    assert AIMessage(tool_calls=[{"name": "f", "args": {"x": 1.5}, "id": "c1"}]).tool_calls == [CALL]
    assert AIMessage(tool_calls=[{"name": "f", "args": {}}]).tool_calls[0]["id"] is None
    with pytest.raises(ValidationError, match="args"):
        AIMessage(tool_calls=[{"name": "f", "args": "{}", "id": None}])


def test_what_a_tool_returned_becomes_content():
    assert ToolMessage(5, tool_call_id=7).content == "5"
    assert ToolMessage(5, tool_call_id=7).tool_call_id == "7"
    assert ToolMessage(("a", 1, {"type": "text", "text": "t"}), tool_call_id="1").content == [
        "a",
        "1",
        {"type": "text", "text": "t"},
    ]


def test_a_removal_needs_an_id():
    assert RemoveMessage("x") == RemoveMessage(id="x")
    with pytest.raises(ValidationError, match="id"):
        RemoveMessage()


def test_any_message_reads_json_and_checks_instances():
    messages = [AIMessage(tool_calls=[CALL]), ToolMessage("r", tool_call_id="c1"), RemoveMessage("1"), piece("{")]
    adapter = TypeAdapter(list[AnyMessage])
    found = adapter.validate_json(adapter.dump_json(messages))
    assert found == messages
    assert [type(one) for one in found] == [type(one) for one in messages]
    assert all(isinstance(one, AnyMessage) and isinstance(one, BaseMessage) for one in messages)


def test_text_leaves_other_blocks_out():
    assert HumanMessage(["a", {"type": "text", "text": "b"}, {"type": "image", "url": "u", "text": "c"}]).text == "ab"


def test_content_blocks_have_one_form():
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert HumanMessage(["a", url]).content_blocks == [
        {"type": "text", "text": "a"},
        {"type": "image", "mime_type": "image/png", "base64": "AA"},
    ]
    assert AIMessage(tool_calls=[CALL]).content_blocks == [CALL]
    used = {"type": "tool_use", "name": "f", "input": {"x": 1.5}, "id": "c1"}
    assert AIMessage([used], tool_calls=[CALL]).content_blocks == [CALL]


def test_a_message_is_shown_with_title_name_and_calls(capsys):
    AIMessage("hello", name="bob", tool_calls=[CALL]).pretty_print()
    assert capsys.readouterr().out.splitlines() == [
        "================================== Ai Message ==================================",
        "Name: bob",
        "",
        "hello",
        "Tool Calls:",
        "  f (c1)",
        " Call ID: c1",
        "  Args:",
        "    x: 1.5",
    ]


# --- chunks ----------------------------------------------------------------------------------------------------------


def test_texts_add_up_and_the_last_piece_marks_the_end():
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_token_details": {"cache_read": 1}}
    first = AIMessageChunk("a ", id="1", response_metadata={"model": "m"}, usage_metadata=usage)
    last = AIMessageChunk("b", response_metadata={"model": "m"}, usage_metadata=usage, chunk_position="last")
    whole = first + last
    assert (whole.content, whole.id, whole.chunk_position) == ("a b", "1", "last")
    assert first.chunk_position is None
    assert whole.response_metadata == {"model": "m"}
    assert whole.usage_metadata == {
        "input_tokens": 2,
        "output_tokens": 4,
        "total_tokens": 6,
        "input_token_details": {"cache_read": 2},
    }


def test_pieces_of_a_call_are_read_as_they_come():
    so_far = piece('{"x": 1, "y": [2', name="f", id="c1")
    assert so_far.tool_calls[0]["args"] == {"x": 1, "y": [2]}
    whole = so_far + piece(", 3]}")
    assert whole.to_message() == AIMessage(tool_calls=[{"name": "f", "args": {"x": 1, "y": [2, 3]}, "id": "c1"}])
    assert message_chunk_to_message(whole) == whole.to_message()


def test_a_call_that_never_becomes_json_is_invalid_at_the_end_only():
    broken = piece('{"x": ', name="f", id="c1")
    assert broken.invalid_tool_calls == []
    message = broken.to_message()
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"x": '
    assert "no JSON" in message.invalid_tool_calls[0]["error"]
    assert piece("[1]", name="f").to_message().invalid_tool_calls[0]["error"].endswith("but list")


def test_calls_are_told_apart_by_index_and_by_id():
    chunks = [piece("{}", name="f", id="1"), piece("{}", name="g", id="2")]  # a server that gives all the index 0
    chunks.append(AIMessageChunk(tool_call_chunks=[{"name": "h", "args": None, "id": "3", "index": 1}]))
    assert [call["name"] for call in join_chunks(chunks).tool_calls] == ["f", "g", "h"]


def test_blocks_with_one_index_are_one_block():
    one = AIMessageChunk([{"type": "text", "text": "a", "index": 0}])
    two = AIMessageChunk([{"type": "text", "text": "b", "index": 0}, {"type": "text", "text": "c", "index": 1}])
    assert (one + two).content == [
        {"type": "text", "text": "ab", "index": 0},
        {"type": "text", "text": "c", "index": 1},
    ]
    assert one.content == [{"type": "text", "text": "a", "index": 0}]


def test_only_chunks_add_up():
    with pytest.raises(TypeError):
        AIMessageChunk("a") + HumanMessage("b")
    with pytest.raises(ValueError, match="no chunks"):
        join_chunks([])
