"""Graphs for the scripted driver. Every write carries a mark of its own: "<node:how much was written before>"."""

import operator
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from checkpointers import InMemorySaver
from durable_graph import END, START, Command, RetryPolicy, Send, StateGraph, interrupt


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]
    last: str


@dataclass
class Case:
    """A graph, its input, and the world outside of it, which no crash resets."""

    name: str
    graph: object
    given: dict
    world: Counter

    def answer(self, asked):
        return f"yes to {asked.value}"


def worker(name):
    def run(state):
        return {"log": [f"<{name}:{len(state['log'])}>"], "total": 1}

    return run


def mapped(arg):
    return {"log": [f"<mapped:{arg['after']}.{arg['item']}>"], "total": arg["item"]}


def asking(name, times=1):
    def run(state):
        answers = [plain(interrupt(f"<{name} asks:{len(state['log'])}.{number}>")) for number in range(times)]
        return {"log": [f"<{name}:{answer}>" for answer in answers], "total": 1}

    return run


def plain(text):
    return text.replace("<", "").replace(">", "")


def chain(builder, world):
    for name in "abc":
        builder.add_node(name, worker(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("b", "c")


def fan_out(builder, world):
    for name in ("a", "b", "c", "join"):
        builder.add_node(name, worker(name))
    for name in "abc":
        builder.add_edge(START, name)
    builder.add_edge(["a", "b", "c"], "join")


def send_map(builder, world):
    def spread(state):
        return [Send("mapped", {"item": item, "after": len(state["log"])}) for item in (1, 2, 3)]

    builder.add_node("split", worker("split"))
    builder.add_node("mapped", mapped)
    builder.add_node("reduce", worker("reduce"))
    builder.add_edge(START, "split")
    builder.add_conditional_edges("split", spread, ["mapped"])
    builder.add_edge("mapped", "reduce")


def loop(builder, world):
    def again(state):
        return "work" if state["total"] < 4 else END

    builder.add_node("work", worker("work"))
    builder.add_node("ask", asking("ask"))
    builder.add_edge(START, "work")
    builder.add_edge("work", "ask")
    builder.add_conditional_edges("ask", again, ["work", END])


def two_questions(builder, world):
    builder.add_node("left", asking("left"))
    builder.add_node("right", asking("right"))
    builder.add_node("beside", worker("beside"))
    builder.add_node("after", worker("after"))
    for name in ("left", "right", "beside"):
        builder.add_edge(START, name)
    builder.add_edge(["left", "right"], "after")


def retry(builder, world):
    def flaky(state):
        world["flaky"] += 1
        if world["flaky"] <= 2:
            raise ConnectionError("no line")
        return worker("flaky")(state)

    def turn(state):
        return Command(update=worker("turn")(state) | {"last": "<turn last>"}, goto="after")

    builder.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=50.0))
    builder.add_node("beside", worker("beside"))
    builder.add_node("turn", turn)
    builder.add_node("after", worker("after"))
    builder.add_edge(START, "flaky")
    builder.add_edge(START, "beside")
    builder.add_edge("flaky", "turn")


def on_itself(builder, world):
    builder.add_node("again", worker("again"))
    builder.add_node("beside", worker("beside"))
    builder.add_edge(START, "again")
    builder.add_edge(START, "beside")
    builder.add_conditional_edges("again", lambda state: "again" if state["total"] < 4 else END, ["again", END])


def make(build):
    world = Counter()
    builder = StateGraph(State)
    build(builder, world)
    return Case(build.__name__, builder.compile(checkpointer=InMemorySaver()), {"log": ["<given>"], "last": "x"}, world)


CASES = [make(build) for build in (chain, fan_out, send_map, loop, two_questions, retry)]

ON_ITSELF = make(on_itself)
