"""LangChain's messages and documents are stored, and come back in another process."""

import subprocess
import sys

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from checkpointers import SqliteSaver
from durable_graph import Command, interrupt
from tests.langchain.graphs import line, says, thread

VALUES = [
    SystemMessage("s"),
    HumanMessage([{"type": "text", "text": "t"}], id="h", name="n"),
    AIMessage("a", tool_calls=[{"name": "t", "args": {"x": (1,)}, "id": "1"}], usage_metadata=None),
    ToolMessage("r", tool_call_id="1", artifact=(1, 2), status="error"),
    RemoveMessage(id="h"),
    Document("d", metadata={"k": (1,)}, id="x"),
]

READ = """
import sys
if sys.argv[2] == "loaded":
    import langchain_core.messages, langchain_core.documents
from checkpointers import SqliteSaver
from durable_graph.errors import UnknownStoredTypeError
from tests.langchain.graphs import line, says, thread
graph = line({"work": says()}, checkpointer=SqliteSaver(sys.argv[1]))
try:
    for value in graph.get_state(thread()).values["log"]:
        print(repr(value))
except UnknownStoredTypeError as error:
    assert "langchain_core" not in sys.modules
    print(error)
"""


def read(path, how):
    command = [sys.executable, "-W", "error", "-c", READ, str(path), how]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_and_documents_come_back_as_they_were(face, backend):
    face.invoke(line({"work": says(*VALUES)}, checkpointer=backend.make()), {"log": []}, thread())
    found = face.get_state(line({"work": says()}, checkpointer=backend.reopen()), thread()).values["log"]
    assert found == VALUES
    assert [type(value) for value in found] == [type(value) for value in VALUES]
    assert found[2].tool_calls[0]["args"] == {"x": (1,)}
    assert found[3].artifact == (1, 2)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "runs.db"
    with SqliteSaver(path) as checkpointer:
        line({"work": says(*VALUES)}, checkpointer=checkpointer).invoke({"log": []}, thread())
    return path


def test_another_process_reads_them(stored):
    assert read(stored, "loaded").splitlines() == [repr(value) for value in VALUES]


def test_a_process_that_did_not_load_langchain_is_told_what_to_import(stored):
    said = read(stored, "not loaded")
    assert "Import it first: from langchain_core.messages import SystemMessage" in said
    assert "'log'" in said


def test_a_message_may_be_asked_and_answered(face, backend):
    graph = line({"work": lambda state: {"log": [interrupt(AIMessage("May I?"))]}}, checkpointer=backend.make())
    (asked,) = face.invoke(graph, {"log": []}, thread())["__interrupt__"]
    assert asked.value == AIMessage("May I?")
    assert face.invoke(graph, Command(resume=HumanMessage("yes")), thread())["log"] == [HumanMessage("yes")]


def test_a_node_cannot_change_a_stored_message_in_place(face, backend):
    def vandal(state):
        state["log"][0].content = "changed"
        return {"other": 1}

    graph = line({"work": vandal}, checkpointer=backend.make())
    assert face.invoke(graph, {"log": [HumanMessage("kept")]}, thread())["log"] == [HumanMessage("kept")]
