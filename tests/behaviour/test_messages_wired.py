"""Messages in a running graph: ids are given once, and nobody sees edits in place."""

from durable_graph import StateGraph
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
