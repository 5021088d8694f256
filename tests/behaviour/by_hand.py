"""Graphs that are also run by hand: what each node does as plain Python, without the engine.

A `HandGraph` says what a graph is: its nodes as functions of what they see, and where each leads. `hand_run` runs it
with a while loop and a dict; `engine_graph` builds the same graph for the engine. So a test can ask for any starting
point what must come of it, and what must have run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from durable_graph import END, START, Send, StateGraph, interrupt, once
from tests.behaviour.small_graphs import Log


@dataclass(frozen=True)
class HandGraph:
    """nodes: name -> function(what it sees, `ask`, `once`) -> what it writes.

    leads: name -> function(state) -> targets: node names, and (node, arg) for a Send.
    """

    name: str
    nodes: dict[str, Callable[..., Any]]
    leads: dict[str, Callable[[dict[str, Any]], list[Any]]]
    given: dict[str, Any] = field(default_factory=lambda: {"log": ["in"]})


@dataclass
class Hand:
    """What came of a run by hand.

    waits: what is asked.   ran: nodes and recorded steps.   trail: values and tasks before each step, and at the end.
    """

    values: dict[str, Any]
    waits: list[str]
    ran: list[str]
    trail: list[tuple[dict[str, Any], list[Any]]]


class WaitsError(Exception):
    """A node run by hand asks something that nobody answered."""


def applied(values, writes):
    """The values after writes; the old ones stay as they are."""
    new = dict(values)
    for key, value in writes.items():
        new[key] = new[key] + value if key == "log" else value
    return new


def name_of(task):
    return task if isinstance(task, str) else task[0]


def mark(name, seen):
    """How a task is known among what ran."""
    return name if isinstance(seen, dict) else f"{name}<{seen}>"


def marks_of(tasks):
    return [mark(task, {}) if isinstance(task, str) else mark(*task) for task in tasks]


def in_order(tasks):
    """The tasks of a step: nodes by name, then Sends as they were sent."""
    sent = [task for task in tasks if not isinstance(task, str)]
    return [*sorted({task for task in tasks if isinstance(task, str)}), *sent]


def hand_run(graph, values, tasks, answers, known=()):
    """Run from these values and tasks: node names, and (node, arg) for Sends.

    answers: what is asked -> answer.   known: the marks of tasks that ran already in the first step: they run again
    only where an answer came, and their recorded steps never.
    """
    ran, trail, tasks = [], [], in_order(tasks)
    while tasks:
        trail.append((values, tasks))
        done, waits = [], []
        for task in tasks:
            name, seen = (task, values) if isinstance(task, str) else task
            if name == START:
                done.append((name, seen))
                continue
            attempt = Attempt(mark(name, seen), answers, known)
            try:
                done.append((name, graph.nodes[name](seen, attempt.ask, attempt.once)))
            except WaitsError as waiting:
                waits.append(str(waiting))
            ran += attempt.ran
        after = values
        for _, writes in done:
            after = applied(after, writes)
        if waits:
            return Hand(after, waits, ran, trail)
        tasks = in_order([target for name, writes in done for target in graph.leads[name](applied(values, writes))])
        values, known = after, ()
    return Hand(values, [], ran, [*trail, (values, [])])


class Attempt:
    def __init__(self, name, answers, known):
        self.name = name
        self.answers = answers
        self.known = name in known
        self.ran = [] if self.known else [name]

    def ask(self, question):
        if question not in self.answers:
            raise WaitsError(question)
        if self.known:
            self.ran.append(self.name)
        return self.answers[question]

    def once(self, key, function, word):
        if not self.known:
            self.ran.append(f"{key} {word}")
        return function(word)


def engine_graph(graph, marks):
    """The builder of the same graph. `marks` is told of all that runs."""
    builder = StateGraph(Log)
    for name in graph.nodes:
        builder.add_node(name, _node(graph, name, marks))
    for name, leads in graph.leads.items():
        if isinstance(leads, To):
            for target in leads.targets:
                builder.add_edge(name, target)
        else:
            builder.add_conditional_edges(name, _router(leads), [*graph.nodes, END])
    return builder


def _node(graph, name, marks):
    def recorded(key, function, word):
        def step(word):
            marks(f"{key} {word}")
            return function(word)

        return once(key, step, word)

    def run(seen):
        marks(mark(name, seen))
        return graph.nodes[name](seen, interrupt, recorded)

    return run


def _router(leads):
    def route(state):
        targets = leads(dict(state))
        return [Send(*target) if isinstance(target, tuple) else target for target in targets] or END

    return route


class To:
    """Leads to the same targets whatever the state is: edges, for the engine."""

    def __init__(self, *targets):
        self.targets = targets

    def __call__(self, state):
        return list(self.targets)


def says(word):
    """A node that adds its word and how much was said before."""
    return lambda seen, ask, once: {"log": [f"{word}{len(seen['log'])}"]}


def asks(word):
    """A node that does something once, asks, and adds what both gave."""
    return lambda seen, ask, once: {"log": [f"{once('before', str.upper, word)}:{ask('go?')}"]}


def item(seen, ask, once):
    """The second of the items asks."""
    return asks("i")(seen, ask, once) if seen == 2 else {"log": [f"item{seen}"]}


CHAIN = HandGraph(
    "chain",
    {"a": says("a"), "b": asks("b"), "c": says("c")},
    {START: To("a"), "a": To("b"), "b": To("c"), "c": To()},
)

BRANCH = HandGraph(
    "branch",
    {"look": says("look"), "left": asks("left"), "right": says("right"), "last": says("last")},
    {
        START: To("look"),
        "look": lambda state: ["right" if state.get("other") == "right" else "left"],
        "left": lambda state: ["right" if state["log"][-1].endswith("other") else "last"],
        "right": To("last"),
        "last": To(),
    },
)

FAN_OUT = HandGraph(
    "fan-out",
    {"plan": says("plan"), "work": item, "beside": says("beside"), "sum": says("sum")},
    {
        START: lambda state: ["plan"],
        "plan": lambda state: [("work", n) for n in (1, 2, 3)] + ["beside"],
        "work": To("sum"),
        "beside": To(),
        "sum": To(),
    },
)

GRAPHS = {graph.name: graph for graph in (CHAIN, BRANCH, FAN_OUT)}
