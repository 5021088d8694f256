"""Random graphs inside graphs, and what must come of them: the same, as plain Python without the engine.

A graph is a list of steps, a step a dict of nodes that run at the same time. A node works, asks, calls graphs, or is a
map of Sends of which each calls a graph. `by_hand` says what a turn logs; `built` makes the graph for the engine.
"""

import asyncio
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from durable_graph import START, Send, StateGraph, interrupt


class State(TypedDict, total=False):
    """`path`: which call of which graph this is."""

    log: Annotated[list[Any], operator.add]
    path: str


@dataclass
class Node:
    """`kind`: work | ask | call | map.   calls: the graphs it calls, in turn or (`together`) at the same time."""

    kind: str
    calls: list["Graph"] = field(default_factory=list)
    together: bool = False
    width: int = 0


@dataclass
class Graph:
    steps: list[dict[str, Node]]
    memory: bool | None = None

    @property
    def size(self):
        return sum(1 + sum(one.size for one in node.calls) for step in self.steps for node in step.values())


def random_graph(random, depth=3):
    steps = []
    for at in range(random.randint(1, 3)):
        if depth and random.random() < 0.2:
            steps.append({f"m{at}": Node("map", [random_graph(random, depth - 1)], width=random.randint(2, 3))})
            continue
        step = {}
        for name in random.sample("abc", random.choice([1, 1, 2])):
            kind = random.choice(["work", "work", "ask", "call", "call"] if depth else ["work", "ask"])
            calls = [random_graph(random, depth - 1) for _ in range(random.choice([1, 1, 2]))] if kind == "call" else []
            step[f"{name}{at}"] = Node(kind, calls, together=random.random() < 0.3)
        steps.append(step)
    return Graph(steps, random.choice([None, None, None, True, True, False]) if depth < 3 else None)


# --- by hand ----------------------------------------------------------------------------------------------------------


def answer_to(question):
    return f"yes to {question}"


def by_hand(graph, path, memory, *, stored=True):
    """What a call logs. `memory`: of the graphs inside the one that calls, by place; it is changed."""
    return _log_of(graph, path, {"log": [], "inside": memory}, stored=stored)


def _log_of(graph, path, own, *, stored):
    log = own["log"]
    for step in graph.steps:
        new = []
        for name in sorted(step):
            node, here = step[name], f"{path}/{name}"
            if node.kind == "work":
                new.append(here)
            elif node.kind == "ask":
                new.append(answer_to(here))
            else:
                places = [f"{here}:{n}" for n in range(node.width)] if node.kind == "map" else [here]
                new += [
                    [_called(inner, f"{place}.{n}", own, stored) for n, inner in enumerate(node.calls)]
                    for place in places
                ]
        log += new
    return list(log)


def _called(inner, place, own, stored):
    """One call: with the memory of its place in the graph that calls, or none."""
    stored = stored and inner.memory is not False
    key = place.rpartition("/")[2]
    kept = own["inside"].setdefault(key, {"log": [], "inside": {}}) if stored and inner.memory else None
    return _log_of(inner, place, kept or {"log": [], "inside": {}}, stored=stored)


# --- for the engine ---------------------------------------------------------------------------------------------------


def built(graph, ran, *, stored=True):
    """The graph's builder. `ran(path, stored)` is called by each node that works or has its answer."""
    builder, before = StateGraph(State), [START]
    stored = stored and graph.memory is not False
    for step in graph.steps:
        for name, node in step.items():
            body = _body(name, node, ran, stored)
            builder.add_node(name, body)
            if node.kind == "map":
                builder.add_node(f"to_{name}", lambda state: None)
                builder.add_conditional_edges(f"to_{name}", _sends(name, node.width), [name])
        for name, node in step.items():
            entry = f"to_{name}" if node.kind == "map" else name
            builder.add_edge(before[0] if len(before) == 1 else before, entry)
        before = sorted(step)
    return builder


def _sends(name, width):
    return lambda state: [Send(name, {"path": state["path"], "number": n}) for n in range(width)]


def _body(name, node, ran, stored):
    if node.kind == "work":

        def work(state):
            ran(f"{state['path']}/{name}", stored)
            return {"log": [f"{state['path']}/{name}"]}

        return work
    if node.kind == "ask":

        def ask(state):
            answer = interrupt(f"{state['path']}/{name}")
            ran(f"{state['path']}/{name}", stored)
            return {"log": [answer]}

        return ask
    inner = [built(one, ran, stored=stored).compile(checkpointer=one.memory) for one in node.calls]

    def places(state):
        here = f"{state['path']}/{name}"
        here = f"{here}:{state['number']}" if node.kind == "map" else here
        return [{"path": f"{here}.{n}"} for n in range(len(inner))]

    if node.together:

        async def together(state):
            calls = [graph.ainvoke(given) for graph, given in zip(inner, places(state), strict=True)]
            return {"log": [[one["log"] for one in await asyncio.gather(*calls)]]}

        return together

    def call(state):
        return {"log": [[graph.invoke(one)["log"] for graph, one in zip(inner, places(state), strict=True)]]}

    return call
