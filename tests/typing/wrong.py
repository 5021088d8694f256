# ruff: noqa: B018, T201 - written as users write
"""What users get wrong and a type checker tells them before anything runs: each line is expected to be an error, and an
expectation that is not met is an error itself (mypy: warn_unused_ignores; basedpyright:
reportUnnecessaryTypeIgnoreComment).
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TypedDict

from durable_graph import START, CompiledStateGraph, GraphOutput, RetryPolicy, Send, StateGraph


class State(TypedDict):
    count: int


class Other(TypedDict):
    name: str


def node(state: State) -> State:
    return state


builder = StateGraph(State).add_node(node).add_edge(START, "node")
graph = builder.compile()

builder.add_node("a", node, retry_policy=3)  # type: ignore[call-overload] # a number is no policy
builder.add_node("b", node, metdata={})  # type: ignore[call-overload] # misspelt argument
builder.add_node("c", 5)  # type: ignore[call-overload] # neither a function nor an object with invoke
builder.add_edge("node", 5)  # type: ignore[arg-type] # a node's name is text
builder.add_edge(5, "node")  # type: ignore[arg-type] # a node's name is text
builder.add_conditional_edges(7, lambda state: "node")  # type: ignore[arg-type] # a node's name is text
builder.compile(checkpointer=5)  # type: ignore[arg-type] # neither a checkpointer nor a URL
builder.compile(interrupt_before=5)  # type: ignore[arg-type] # names, or "*"
builder.compile(validate="all")  # type: ignore[arg-type] # "keys" or "values"

graph.invoke({"count": 1}, "thread")  # type: ignore[arg-type] # a config is a dict
graph.invoke({"count": 1}, stream_mode="value")  # type: ignore[arg-type] # unknown stream mode
graph.invoke({"count": 1}, durability="never")  # type: ignore[arg-type] # unknown durability
graph.invoke({"count": 1}, on_unfinished="drop")  # type: ignore[arg-type] # unknown policy
graph.invoke({"count": 1}, version="v9")  # type: ignore[arg-type] # unknown version
graph.stream({"count": 1}, stream_modes="values")  # type: ignore[call-arg] # misspelt argument
graph.get_state()  # type: ignore[call-arg] # which thread?
graph.get_state("thread")  # type: ignore[arg-type] # a config is a dict
graph.get_state({}).vlaues  # type: ignore[attr-defined] # misspelt attribute

wrong_state: CompiledStateGraph[Other] = graph  # type: ignore[assignment] # the state is State

RetryPolicy(max_attempts="3")  # type: ignore[arg-type] # a number of attempts
Send("node")  # type: ignore[call-arg] # a Send carries an input


def of_another_state(output: GraphOutput[State]) -> None:
    print(output.value["name"])  # type: ignore[typeddict-item] # State has no such key
