"""A chat in a state: what nodes write to a list of messages, and what another process then finds."""

from typing import Annotated

import pytest
from pydantic import BaseModel

from durable_graph import StateGraph
from durable_graph.errors import InvalidUpdateError
from durable_graph.messages import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    AnyMessage,
    HumanMessage,
    MessagesState,
    RemoveMessage,
    add_messages,
)

CFG = {"configurable": {"thread_id": "t"}}


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []


def chat(*answers, schema=MessagesState, checkpointer=None):
    builder = StateGraph(schema)
    names = [f"n{index}" for index in range(len(answers))]
    for name, answer in zip(names, answers, strict=True):
        builder.add_node(name, lambda state, answer=answer: {"messages": answer})
    for before, after in zip(["__start__", *names], [*names, "__end__"], strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("schema", [MessagesState, Model])
def test_a_turn_in_any_form_becomes_messages_with_ids_that_stay(face, backend, schema):
    graph = chat(AIMessage("hello"), schema=schema, checkpointer=backend.make())
    face.invoke(graph, {"messages": ("user", "hi")}, CFG)
    face.invoke(graph, {"messages": [{"role": "user", "content": "again"}]}, CFG)
    found = face.get_state(chat("x", schema=schema, checkpointer=backend.reopen()), CFG).values["messages"]
    assert [(type(one), one.content) for one in found] == [
        (HumanMessage, "hi"),
        (AIMessage, "hello"),
        (HumanMessage, "again"),
        (AIMessage, "hello"),
    ]
    assert len({one.id for one in found} - {None}) == 4
    assert face.get_state(graph, CFG).values["messages"] == found


def test_messages_are_replaced_and_removed_by_id(face, backend):
    graph = chat(
        [AIMessage("draft", id="a")],
        [AIMessage("final", id="a"), RemoveMessage("h")],
        checkpointer=backend.make(),
    )
    said = face.invoke(graph, {"messages": [HumanMessage("hi", id="h")]}, CFG)
    assert said["messages"] == [AIMessage("final", id="a")]
    wiped = chat([RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("new", id="n")], checkpointer=backend.reopen())
    assert face.invoke(wiped, {"messages": "more"}, CFG)["messages"] == [HumanMessage("new", id="n")]


def test_a_long_chat_is_the_same_for_another_process(face, backend):
    graph = chat([AIMessage("x")], checkpointer=backend.make())
    for turn in range(40):
        said = face.invoke(graph, {"messages": [HumanMessage(str(turn))]}, CFG)["messages"]
    assert len(said) == 80
    assert len({one.id for one in said}) == 80
    assert face.get_state(chat("x", checkpointer=backend.reopen()), CFG).values["messages"] == said


def test_a_removal_of_an_unknown_id_names_key_and_cure(face):
    with pytest.raises(InvalidUpdateError, match="'nobody'") as caught:
        face.invoke(chat([RemoveMessage("nobody")]), {"messages": "hi"})
    assert "n0" in str(caught.value)
