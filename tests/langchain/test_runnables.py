"""LangChain's runnables as nodes and routers."""

import asyncio
import operator
from typing import Annotated, Optional, TypedDict

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel, RunnablePassthrough

from durable_graph import START, Send, StateGraph, get_config
from tests.langchain.graphs import Log, fan, line, says


def model(*answers):
    """A chat model that answers these, one token at a time when somebody listens for tokens."""
    return GenericFakeChatModel(messages=iter(AIMessage(answer) for answer in answers))


def upper(state):
    return {"log": [state["log"][-1].upper()]}


async def aupper(state):
    return {"log": [state["log"][-1].upper()]}


class Talk(TypedDict, total=False):
    topic: str
    joke: str
    facts: dict


@pytest.mark.parametrize(
    "node",
    [RunnableLambda(upper), RunnableLambda(aupper), RunnableLambda(upper, aupper)],
    ids=["sync", "async", "both"],
)
def test_a_lambda_is_a_node_on_both_faces(face, node):
    assert face.invoke(line({"work": node}), {"log": ["a"]})["log"] == ["a", "A"]
    assert face.invoke(fan({"one": node, "two": node}), {"log": ["a"]})["log"] == ["a", "A", "A"]


def test_a_runnable_gives_its_name_to_the_node(face):
    graph = StateGraph(Log).add_node(RunnableLambda(upper)).add_edge(START, "upper").compile()
    assert face.invoke(graph, {"log": ["a"]})["log"] == ["a", "A"]


def test_prompt_model_and_parser_are_a_node(face, recorder):
    chain = (
        ChatPromptTemplate.from_template("A joke about {topic}")
        | model("Why did the chicken")
        | StrOutputParser()
        | (lambda text: {"joke": text})
    )
    graph = line({"joke": chain}, Talk)
    assert face.invoke(graph, {"topic": "hens"}, {"callbacks": [recorder]}) == {
        "topic": "hens",
        "joke": "Why did the chicken",
    }
    book = recorder.book
    assert book.path("GenericFakeChatModel") == ["LangGraph", "joke", "RunnableSequence", "GenericFakeChatModel"]
    assert book.one("GenericFakeChatModel").inputs == [[HumanMessage("A joke about hens")]]


def test_parallel_branches_of_a_runnable_are_keys_of_the_update(face):
    both = RunnableParallel(joke=lambda state: state["topic"] + "!", facts=RunnablePassthrough())
    assert face.invoke(line({"both": both}, Talk), {"topic": "t"}) == {
        "topic": "t",
        "joke": "t!",
        "facts": {"topic": "t"},
    }


def test_a_chat_model_is_a_node_of_a_graph_whose_state_is_a_list_of_messages(face, backend):
    def append(messages, more):
        return [*messages, *(more if isinstance(more, list) else [more])]

    graph = line({"model": model("Hi!")}, Annotated[list, append], checkpointer=backend.make())
    config = {"configurable": {"thread_id": "t"}}
    human, ai = face.invoke(graph, [HumanMessage("Hello")], config)
    assert (human, ai.content) == (HumanMessage("Hello"), "Hi!")
    assert face.get_state(graph, config).values == [human, ai]


@pytest.mark.parametrize("router", [RunnableLambda(lambda s: "b"), RunnableLambda(lambda s: [Send("b", s), "a"])])
def test_a_runnable_is_a_router(face, router):
    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b"))
    builder.add_conditional_edges(START, router, ["a", "b"])
    assert set(face.invoke(builder.compile(), {"log": []})["log"]) in ({"b"}, {"a", "b"})


def test_an_async_lambda_is_a_router_on_both_faces(face):
    async def route(state):
        return "b"

    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b")).add_edge(START, "a")
    builder.add_conditional_edges("a", RunnableLambda(route), ["b"])
    assert face.invoke(builder.compile(), {"log": []})["log"] == ["a", "b"]


# --- config -----------------------------------------------------------------------------------------------------------


def required(state, config: RunnableConfig):
    return {"log": [config["configurable"]["mine"]]}


def optional(state, config: Optional[RunnableConfig] = None):  # noqa: UP045 - as people write it
    return required(state, config)


def union(state, config: RunnableConfig | None = None):
    return required(state, config)


def keyword(state, *, config: RunnableConfig):
    return required(state, config)


def alone(config: RunnableConfig):
    return required(None, config)


def keyword_alone(*, config: RunnableConfig):
    return required(None, config)


async def asynchronous(state, config: RunnableConfig):
    return required(state, config)


def ambient(state):
    return required(state, get_config())


NODES = [required, optional, union, keyword, alone, keyword_alone, asynchronous, ambient]


@pytest.mark.parametrize("node", NODES)
def test_a_node_gets_the_config_that_it_names(face, node):
    assert face.invoke(line({"work": node}), {"log": []}, {"configurable": {"mine": 1}})["log"] == [1]


@pytest.mark.parametrize("node", [required, union, asynchronous])
def test_a_function_in_a_lambda_gets_the_config_too(face, node):
    graph = line({"work": RunnableLambda(node)})
    assert face.invoke(graph, {"log": []}, {"configurable": {"mine": 1}})["log"] == [1]


def test_a_router_gets_the_config(face):
    def route(state, config: RunnableConfig):
        return config["configurable"]["mine"]

    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b"))
    builder.add_conditional_edges(START, route, ["a", "b"])
    assert face.invoke(builder.compile(), {"log": []}, {"configurable": {"mine": "b"}})["log"] == ["b"]


def test_tags_and_metadata_reach_a_runnable_that_is_called_without_a_config(face):
    seen = []
    spy = RunnableLambda(lambda text, config: seen.append(config) or text)

    def node(state):
        return {"log": [spy.invoke("x")]}

    face.invoke(line({"work": node}), {"log": []}, {"tags": ["mine"], "metadata": {"user": 1}})
    (config,) = seen
    assert config["tags"] == ["mine"]
    assert config["metadata"].items() >= {"user": 1, "langgraph_node": "work"}.items()


# --- tokens -----------------------------------------------------------------------------------------------------------


def ask_without_config(state):
    return {"log": [model("a b c").invoke("?").content]}


async def aask_without_config(state):
    return {"log": [(await model("a b c").ainvoke("?")).content]}


def ask_with_config(state, config):
    return {"log": [model("a b c").invoke("?", config).content]}


def stream_in_node(state):
    return {"log": ["".join(chunk.content for chunk in model("a b c").stream("?"))]}


ASKING = [ask_without_config, aask_without_config, ask_with_config, stream_in_node]


async def tokens_of(graph):
    """The tokens that astream_events shows of a graph: (node, token)."""
    runnable = RunnableLambda(graph.invoke, graph.ainvoke)
    return [
        (event["metadata"]["langgraph_node"], event["data"]["chunk"].content)
        async for event in runnable.astream_events({"log": []}, version="v2")
        if event["event"] == "on_chat_model_stream" and event["data"]["chunk"].content
    ]


@pytest.mark.parametrize("node", ASKING)
def test_tokens_reach_astream_events(node):
    found = asyncio.run(tokens_of(fan({"one": node, "two": node})))
    for name in ("one", "two"):
        assert [token for where, token in found if where == name] == ["a", " ", "b", " ", "c"]


def test_tokens_reach_handlers(face, any_recorder):
    face.invoke(line({"work": stream_in_node}), {"log": []}, {"callbacks": [any_recorder]})
    assert "".join(any_recorder.book.one("GenericFakeChatModel").tokens) == "a b c"


def test_a_reducer_of_the_operator_module_adds_messages(face, backend):
    class State(TypedDict):
        messages: Annotated[list, operator.add]

    def node(state):
        return {"messages": [model("Hi!").invoke(state["messages"])]}

    graph = line({"model": node}, State, checkpointer=backend.make())
    found = face.invoke(graph, {"messages": [HumanMessage("Hello")]}, {"configurable": {"thread_id": "t"}})
    assert [message.content for message in found["messages"]] == ["Hello", "Hi!"]
