"""Graphs inside nodes that are crashed and killed. What a node does outside is in the ledger."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from durable_graph import START, Command, RetryPolicy, Send, StateGraph, interrupt
from durable_graph.testing import Ledger

LEDGER = Ledger()


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    number: int
    turn: int


def noting(name, *words):
    """A node that leaves a trace, and one for each number where it has one."""

    def node(state):
        LEDGER.append(name, str(state.get("number", "")))
        return {"log": [*words] or [name]}

    return node


def asking(name):
    def node(state):
        answer = interrupt(name)
        LEDGER.append(name, str(state.get("number", "")))
        return {"log": [f"{name}={answer}"]}

    return node


def chain(**nodes):
    builder, before = StateGraph(State), START
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(before, name)
        before = name
    return builder


def fresh(graph):
    return lambda state: {"log": graph.invoke({"log": [], "number": state.get("number", 0)})["log"]}


def three_deep():
    """A question at the bottom of three levels."""
    graph = chain(b1=noting("b1"), ask=asking("ask"), b3=noting("b3")).compile()
    for level in range(2):
        before, after = f"before{level}", f"after{level}"
        graph = chain(**{before: noting(before), f"g{level}": fresh(graph), after: noting(after)}).compile()
    return chain(first=noting("first"), sub=fresh(graph), last=noting("last"))


def stateful_map():
    """Two rounds of three Sends, each to a graph with a memory of its own."""
    inner = chain(hear=lambda s: {"log": [s["number"]]}, note=noting("note")).compile(checkpointer=True)

    def part(state):
        return {"log": [inner.invoke({"number": state["number"]})["log"]]}

    def plan(state):
        if state.get("turn", 0) == 2:
            return []
        return [Send("part", {"number": n}) for n in range(3)]

    builder = StateGraph(State).add_node("part", part).add_edge(START, "turn")
    builder.add_node("turn", lambda s: {"turn": s.get("turn", -1) + 1}).add_edge("part", "turn")
    return builder.add_conditional_edges("turn", plan, ["part"])


def several():
    """A node that calls two graphs, one of them in a loop; the node is tried again once."""
    one, two = chain(o1=noting("o1"), o2=noting("o2")).compile(), chain(t1=noting("t1"), t2=asking("t2")).compile()
    tries = []

    def node(state):
        found = [word for _ in range(2) for word in one.invoke({"log": []})["log"]]
        found += two.invoke({"log": []})["log"]
        tries.append(1)
        if len(tries) % 2:
            raise ConnectionError("again")
        return {"log": found}

    builder = StateGraph(State).add_node("n", node, retry_policy=RetryPolicy(0.0, jitter=False)).add_edge(START, "n")
    return builder.add_node("z", noting("z")).add_edge("n", "z")


def together():
    """Graphs that run at the same time in one async node; they come in another order each time."""

    async def work(state):
        LEDGER.append("work", str(state["number"]))
        return {"log": [f"w{state['number']}"]}

    inner = chain(work=work, ask=lambda s: {"log": [interrupt(s["number"])]}).compile()
    order = []

    async def node(state):
        order.append(1)
        numbers = [0, 1, 2] if len(order) % 2 else [2, 0, 1]
        found = await asyncio.gather(*(inner.ainvoke({"number": n, "log": []}) for n in numbers))
        return {"log": [one["log"] for _, one in sorted(zip(numbers, found, strict=True), key=lambda pair: pair[0])]}

    return chain(n=node, z=noting("z"))


def up():
    """A node inside says to the outermost graph where to go."""

    def say(state):
        LEDGER.append("say", "")
        return Command(graph="top", update={"log": ["up"]}, goto="x")

    middle = chain(m=noting("m"), deep=chain(d=noting("d"), say=say).compile()).compile()
    builder = StateGraph(State).add_node("sub", middle, destinations=["x"]).add_edge(START, "sub")
    builder.add_node("x", noting("x"))
    return builder.compile(name="top")


SHAPES = {three_deep: ["yes"], stateful_map: (), several: ["A"], together: lambda asked: f"a{asked.value}", up: ()}
"""Each with the answers to what it asks."""

ALONE = (
    "b1",
    "ask",
    "b3",
    "before0",
    "before1",
    "after0",
    "after1",
    "first",
    "last",
    "o1",
    "o2",
    "t1",
    "t2",
    "m",
    "d",
    "say",
    "x",
    "z",
)
"""Nodes that run alone: what they did is stored with the very next write."""
