"""Messages are stored exactly, and small."""

import subprocess
import sys

import pytest

from durable_graph.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from durable_graph.persistence.codec import CODEC

CALL = {"name": "f", "args": {"n": 10**20, "x": 1.0, "b": b"\0", "t": (1,)}, "id": "c1"}
MESSAGES = [
    HumanMessage(""),
    HumanMessage(["a", {"type": "image", "data": b"\0\xff"}], id="1", name="n"),
    SystemMessage("s", additional_kwargs={"k": {1: 2}}, response_metadata={"m": None}),
    AIMessage("", tool_calls=[CALL], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "1", "error": "e"}]),
    AIMessageChunk("a", tool_call_chunks=[{"name": "f", "args": "{", "id": "1", "index": 0}], chunk_position="last"),
    ToolMessage("r", tool_call_id="c1", artifact=0, status="error"),
    ToolMessage("r", tool_call_id="c1", artifact=(1, {2})),
    RemoveMessage("1"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_comes_back_as_it_was(message):
    found = CODEC.decode(CODEC.encode(message))
    assert found == message
    assert repr(found) == repr(message)
    assert type(found) is type(message)
    assert CODEC.encode(found) == CODEC.encode(message)
    assert found.model_copy(update={"id": "2"}).id == "2"
    assert found.model_dump() == message.model_dump()


def test_a_revived_message_shares_nothing():
    data = CODEC.encode(HumanMessage("a"))
    CODEC.decode(data).additional_kwargs["k"] = 1
    assert CODEC.decode(data).additional_kwargs == {}


def test_a_short_message_takes_few_bytes():
    assert len(CODEC.encode(HumanMessage("x" * 20, id="f" * 32))) <= 64
    assert len(CODEC.encode(AIMessage("x" * 20, id="f" * 32))) <= 64
    assert len(CODEC.encode(ToolMessage("x" * 20, id="f" * 32, tool_call_id="c1"))) <= 90


def test_the_format_in_databases_does_not_change():
    message = ToolMessage("r", id="i", tool_call_id="c")
    assert CODEC.encode(message).hex() == "c7152c93a172a16981ac746f6f6c5f63616c6c5f6964a163"


def test_reading_needs_nothing_imported_before():
    data = CODEC.encode(MESSAGES[3]).hex()
    code = f"from durable_graph.persistence.codec import CODEC\nprint(repr(CODEC.decode(bytes.fromhex({data!r}))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(MESSAGES[3])


def test_importing_the_package_loads_neither_pydantic_nor_langchain():
    code = "import sys, durable_graph.messages; print([m for m in ('pydantic', 'langchain_core') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
