"""LangChain's chat models inside nodes, in the stream mode "messages"."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableLambda

from durable_graph import START, StateGraph
from durable_graph.models import ChatModel, ScriptedChatModel


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


INPUT = {"messages": [HumanMessage("q", id="q")]}
WORDS = [("llm", "hello"), ("llm", " "), ("llm", "big")]


def fake(*answers):
    return GenericFakeChatModel(messages=iter(AIMessage(answer) for answer in answers))


def node(model, *, awaited=False):
    async def acall(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return acall if awaited else lambda state: {"messages": [model.invoke(state["messages"])]}


def chain(name, body):
    graph = StateGraph(State)
    graph.add_node(name, body)
    graph.add_edge(START, name)
    return graph.compile()


def shown(parts):
    return [(metadata["langgraph_node"], message.content) for message, metadata in parts]


@pytest.mark.parametrize("awaited", [False, True], ids=["invoke", "ainvoke"])
def test_a_model_streams_inside_a_node_and_its_answer_is_shown_once(face, awaited):
    parts = face.stream(chain("llm", node(fake("hello big"), awaited=awaited)), INPUT, stream_mode="messages")
    assert shown(parts) == WORDS
    assert all(isinstance(message, AIMessageChunk) for message, _ in parts)
    assert parts[0][1]["ls_model_type"] == "chat"


def test_a_model_in_a_chain_streams_too(face):
    bound = RunnableLambda(lambda messages: messages) | fake("hello big")
    assert shown(face.stream(chain("llm", node(bound)), INPUT, stream_mode="messages")) == WORDS


def test_a_graph_inside_a_node_streams_each_token_once(face):
    graph = chain("sub", chain("llm", node(fake("hello big"))))
    assert shown(face.stream(graph, INPUT, stream_mode="messages")) == WORDS


def test_nostream_keeps_an_answer_out_of_the_stream(face):
    quiet = fake("hello big").with_config(tags=["nostream"])
    assert face.stream(chain("llm", node(quiet)), INPUT, stream_mode="messages") == []


def test_who_does_not_listen_changes_nothing(face):
    answers = [face.invoke(chain("llm", node(fake("hello big"))), INPUT)["messages"][-1].content]
    parts = face.stream(chain("llm", node(fake("hello big"))), INPUT, stream_mode="values")
    assert [*answers, parts[-1]["messages"][-1].content] == ["hello big"] * 2


def test_a_model_that_fails_fails_the_node(face):
    def broken(_messages):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        face.stream(chain("llm", node(RunnableLambda(broken) | fake())), INPUT, stream_mode="messages")


def test_a_langchain_model_is_a_chat_model():
    assert isinstance(fake(), ChatModel)


def test_a_scripted_model_may_answer_with_langchains_messages(face):
    model = ScriptedChatModel([AIMessage("hello big")])
    [(message, _)] = face.stream(chain("llm", node(model)), INPUT, stream_mode="messages")
    assert isinstance(message, AIMessage)
    assert message.content == "hello big"
