"""Messages in a running graph: ids are given once, and nobody sees edits in place."""

import pytest

from durable_graph import START, Command, InvalidUpdateError, StateGraph, interrupt, push_message
from durable_graph.errors import OutsideRunError
from durable_graph.messages import AIMessage, MessagesState

CFG = {"configurable": {"thread_id": "t"}}


def test_ids_are_the_same_in_updates_and_in_the_state(face, backend):
    builder = StateGraph(MessagesState)
    builder.add_node("work", lambda state: {"messages": "hello"})
    builder.add_edge("__start__", "work").add_edge("work", "__end__")
    graph = builder.compile(checkpointer=backend.make())
    [update] = face.stream(graph, {"messages": "hi"}, CFG, stream_mode="updates")
    told = update["work"]["messages"]
    assert told[0].id
    assert face.get_state(graph, CFG).values["messages"][1:] == told


def test_a_node_that_edits_a_message_in_place_reaches_nobody_else(face, backend):
    def edit(state):
        state["messages"][0].tool_calls[0]["args"]["x"] = "edited"
        state["messages"][0].additional_kwargs["k"] = 1

    builder = StateGraph(MessagesState).add_node("edit", edit).add_edge("__start__", "edit").add_edge("edit", "__end__")
    graph = builder.compile(checkpointer=backend.make())
    given = AIMessage("", id="1", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}])
    assert face.invoke(graph, {"messages": [given]}, CFG)["messages"][0].tool_calls[0]["args"] == {"x": 1}
    assert face.get_state(graph, CFG).values["messages"] == [given]


# --- messages before a node returns ----------------------------------------------------------------------------------


def pushing(*pushed, state_key="messages"):
    """A graph whose node pushes messages, asks whether to go on, and then returns one more."""

    def say(state):
        for one in pushed:
            push_message(one, state_key=state_key)
        interrupt("Go on?")
        return {"messages": AIMessage("last", id="last")}

    return StateGraph(MessagesState).add_node("say", say).add_edge(START, "say")


def test_a_pushed_message_is_shown_at_once_and_stands_before_what_the_node_returns(face, backend):
    graph = pushing(AIMessage("first", id="first")).compile(backend.make())
    shown = face.stream(graph, {"messages": []}, CFG, stream_mode="messages")
    assert [(message.id, about["langgraph_node"]) for message, about in shown] == [("first", "say")]
    assert face.get_state(graph, CFG).values["messages"] == []
    shown = face.stream(graph, Command(resume="yes"), CFG, stream_mode="messages")
    assert [message.id for message, _ in shown] == ["first", "last"]  # the node ran again
    assert [one.id for one in face.get_state(graph, CFG).values["messages"]] == ["first", "last"]


def test_a_message_can_be_only_shown(face, backend):
    graph = pushing(AIMessage("first", id="first"), state_key=None).compile(backend.make())
    face.invoke(graph, {"messages": []}, CFG)
    assert [one.id for one in face.invoke(graph, Command(resume="yes"), CFG)["messages"]] == ["last"]


def test_a_pushed_message_without_an_id_is_refused(face, backend):
    graph = pushing(AIMessage("first")).compile(backend.make())
    with pytest.raises(ValueError, match="node 'say' pushes a message without an id"):
        face.invoke(graph, {"messages": []}, CFG)
    with pytest.raises(OutsideRunError, match="outside of a node"):
        push_message(AIMessage("first", id="first"))


def test_a_message_pushed_to_a_key_that_is_not_there_is_refused(face, backend):
    graph = pushing(AIMessage("first", id="first"), state_key="chat").compile(backend.make())
    face.invoke(graph, {"messages": []}, CFG)
    with pytest.raises(InvalidUpdateError, match="'chat'"):
        face.invoke(graph, Command(resume="yes"), CFG)
