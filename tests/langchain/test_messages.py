"""LangChain's messages in our states: both families in one list."""

from typing import Annotated, TypedDict

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage, ToolMessage

from durable_graph import StateGraph
from durable_graph import messages as ours
from durable_graph.messages import MessagesState, add_messages

CFG = {"configurable": {"thread_id": "t"}}


class Ours(TypedDict):
    messages: Annotated[list[ours.AnyMessage], add_messages]


def one_node(node, schema=MessagesState, checkpointer=None):
    builder = StateGraph(schema).add_node("llm", node).add_edge("__start__", "llm").add_edge("llm", "__end__")
    return builder.compile(checkpointer=checkpointer)


def test_a_langchain_model_reads_a_state_that_was_asked_with_a_pair(face, backend):
    llm = GenericFakeChatModel(messages=iter([AIMessage("hello")]))
    graph = one_node(lambda state: {"messages": llm.invoke(state["messages"])}, checkpointer=backend.make())
    said = face.invoke(graph, {"messages": ("user", "hi")}, CFG)["messages"]
    assert [(type(one), one.content) for one in said] == [(HumanMessage, "hi"), (AIMessage, "hello")]
    assert all(one.id for one in said)
    assert face.get_state(graph, CFG).values["messages"] == said


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("hi", "human"),
        (("assistant", "hi"), "ai"),
        ({"role": "system", "content": "hi"}, "system"),
        ({"type": "human", "content": "hi"}, "human"),
    ],
)
def test_the_family_is_that_of_the_messages_already_there(written, kind):
    for first in (HumanMessage("a", id="1"), ours.HumanMessage("a", id="1")):
        added = add_messages([first], [written])[-1]
        assert (added.type, added.content) == (kind, "hi")
        assert type(added).__module__.startswith(type(first).__module__.split(".")[0])


def test_without_any_the_family_is_langchains_where_it_is_loaded():
    assert type(add_messages([], ["hi"])[0]) is HumanMessage


def test_a_declared_or_pinned_family_comes_first():
    there = [HumanMessage("a", id="1")]
    assert type(add_messages.prepare_for(list[ours.AnyMessage])("hi", there)[0]) is ours.HumanMessage
    assert type(add_messages.prepare_for(list[AnyMessage])("hi", [])[0]) is HumanMessage
    assert type(add_messages.prepare_for(list[AnyMessage], "ours")("hi", [])[0]) is ours.HumanMessage
    assert type(add_messages.prepare_for(list[ours.AnyMessage | HumanMessage])("hi", there)[0]) is HumanMessage


def test_both_families_live_in_one_list():
    mixed = add_messages([HumanMessage("a", id="1")], [ours.AIMessage("b", id="2")])
    assert [type(one) for one in mixed] == [HumanMessage, ours.AIMessage]
    changed = add_messages(mixed, [ours.HumanMessage("c", id="1"), RemoveMessage(id="2")])
    assert changed == [ours.HumanMessage("c", id="1")]
    assert add_messages.appended(mixed, [[AIMessage("d", id="3")]]) == [AIMessage("d", id="3")]


def test_langchains_messages_are_not_changed_to_give_them_ids():
    given = HumanMessage("a")
    assert add_messages([], [given])[0].id
    assert given.id is None


def test_langchains_chunks_become_messages():
    assert add_messages([], [AIMessageChunk(content="a", id="1")]) == [AIMessage("a", id="1")]


def test_transcripts_of_langchains_messages():
    call = {"name": "f", "args": {}, "id": "c"}
    history = [HumanMessage("q"), AIMessage("", tool_calls=[call]), ToolMessage("r", tool_call_id="c")]
    assert ours.trim_messages(history, max_tokens=1, token_counter=len) == []
    assert ours.filter_messages(history, include_types=[AIMessage]) == [history[1]]
    assert [one["role"] for one in ours.convert_to_openai_messages(history)] == ["user", "assistant", "tool"]


def test_what_people_see_of_a_message_is_the_same_in_both_families():
    call = {"name": "f", "args": {"x": 1}, "id": "c"}
    for make in (lambda m: m.AIMessage("hello", tool_calls=[call], name="n"), lambda m: m.HumanMessage("q")):
        import langchain_core.messages as theirs

        assert make(ours).pretty_repr() == make(theirs).pretty_repr()
