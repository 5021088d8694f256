"""Random graphs against a naive model of the semantics: nothing but supersteps, edges, and writes applied in order."""

import operator
import warnings
from contextlib import suppress
from typing import Annotated

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from checkpointers import InMemorySaver
from durable_graph import END, START, GraphRecursionError, Send, StateGraph
from durable_graph.core.opening import unfinished
from tests.property.driver import AtRandom, CrashError, Disk, Driver

NAMES = ["n0", "n1", "n2", "n3", "n4"]
LIMIT = 6
WIDTH = 12
PROFILE = settings(derandomize=True, deadline=None, database=None, max_examples=120)

State = TypedDict(
    "State",
    {
        "log": Annotated[list, operator.add],
        "total": Annotated[int, operator.add],
        **{f"of_{name}": str for name in NAMES},
    },
    total=False,
)


@st.composite
def plans(draw):
    """A graph as plain data.

    edges: (source, target). barriers: (sources, target). routers: node -> rows of targets; which row holds is decided
    by what the node sees. A target is a node, END, or (node, number of Sends). silent: nodes that write nothing.
    """
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    node = st.sampled_from(names)
    target = st.one_of(node, st.just(END), st.tuples(node, st.integers(1, 2)))
    rows = st.lists(st.lists(target, max_size=2), min_size=1, max_size=3)
    pair = st.lists(node, min_size=2, max_size=3, unique=True).map(tuple)
    barriers = (
        st.lists(st.tuples(pair, st.one_of(node, st.just(END))), max_size=2, unique=True)
        if len(names) > 1
        else st.just([])
    )
    plan = {
        "names": names,
        "starts": draw(st.lists(node, min_size=1, max_size=2, unique=True)),
        "edges": draw(st.lists(st.tuples(node, st.one_of(node, st.just(END))), max_size=4, unique=True)),
        "barriers": draw(barriers),
        "routers": draw(st.dictionaries(st.sampled_from([START, *names]), rows, max_size=3)),
        "silent": draw(st.sets(node, max_size=1)),
        "given": {"log": draw(st.lists(st.text("xyz", max_size=1), max_size=2)), "total": draw(st.integers(0, 2))},
    }
    plan["trail"] = model(plan)
    return plan


def behave(plan, name, seen):
    """What a node writes. `seen` is the state, or the input of a Send."""
    if name in plan["silent"]:
        return {}
    if "item" in seen:
        return {"log": [f"{name}<{seen['item']}>"], "total": 1}
    return {
        "log": [f"{name}:{len(seen['log'])}", *seen.get(f"of_{name}", "")[:1]],
        "total": 1,
        f"of_{name}": name[::-1],
    }


def routes(plan, name, state):
    rows = plan["routers"].get(name, [[]])
    row = rows[(len(state["log"]) + state["total"]) % len(rows)]
    for number, target in enumerate(row):
        if isinstance(target, tuple):
            yield from ((target[0], f"{name}.{number}.{item}") for item in range(target[1]))
        else:
            yield target


# --- the model -------------------------------------------------------------------------------------------------------


def applied(state, writes):
    """The state after writes, in their order; the old one stays as it is."""
    new = dict(state)
    for key, value in writes.items():
        new[key] = new[key] + value if key in ("log", "total") else value
    return new


def model(plan):
    """(step, values, next) of every checkpoint."""
    state = {"log": [], "total": 0}
    trail = [(-1, state, (START,))]
    arrived = {barrier: set() for barrier in plan["barriers"]}
    tasks, step = [(START, plan["given"])], -1
    while tasks and step < LIMIT:
        pulled, sent, after = set(), [], state
        for name, given_ in tasks:
            seen = state if given_ is None else given_
            writes = given_ if name == START else behave(plan, name, seen)
            for target in routes(plan, name, applied(state, writes)):
                sent.append(target) if isinstance(target, tuple) else pulled.add(target)
            pulled.update(plan["starts"] if name == START else [])
            pulled.update(target for source, target in plan["edges"] if source == name)
            for sources, target in plan["barriers"]:
                if name in sources:
                    arrived[sources, target].add(name)
            after = applied(after, writes)
        for (sources, target), there in arrived.items():
            if there == set(sources):
                pulled.add(target)
                there.clear()
        state, step = after, step + 1
        tasks = [(name, None) for name in sorted(pulled - {END})] + [(name, {"item": item}) for name, item in sent]
        assume(len(tasks) <= WIDTH)  # Sends that send multiply
        trail.append((step, state, tuple(name for name, _ in tasks)))
    return trail


# --- the real thing --------------------------------------------------------------------------------------------------


def build(plan):
    builder = StateGraph(State)
    node = lambda name: lambda state: behave(plan, name, state)
    router = lambda name: (
        lambda state: [
            Send(target[0], {"item": target[1]}) if isinstance(target, tuple) else target
            for target in routes(plan, name, state)
        ]
    )
    for name in plan["names"]:
        builder.add_node(name, node(name))
    for name in plan["starts"]:
        builder.add_edge(START, name)
    for source, target in plan["edges"]:
        builder.add_edge(source, target)
    for sources, target in plan["barriers"]:
        builder.add_edge(list(sources), target)
    for name in plan["routers"]:
        builder.add_conditional_edges(name, router(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a random graph has nodes that nothing leads to
        return builder.compile(checkpointer=InMemorySaver())


def run(driver, plan):
    """Run to the end or to the limit."""
    head = driver.disk.head()
    left = LIMIT if head is None else LIMIT - max(head.step.step, 0)
    if left and (head is None or unfinished(head)):
        with suppress(GraphRecursionError):
            driver.run(plan["given"] if head is None else None, config={"recursion_limit": left})


@PROFILE
@given(plans(), st.integers(0, 1000), st.booleans(), st.booleans())
def test_a_random_graph_does_what_the_semantics_say_in_any_order(plan, seed, eager, at_once):
    graph, disk = build(plan), Disk()
    run(Driver(graph, disk, AtRandom(seed), eager=eager, at_once=at_once), plan)
    assert disk.trail(graph) == plan["trail"]


@PROFILE
@given(plans(), st.integers(0, 1000), st.booleans())
def test_a_random_graph_that_crashed_anywhere_goes_on_as_the_semantics_say(plan, seed, sync):
    graph, disk, accidents = build(plan), Disk(), AtRandom(seed)
    crash = lambda moment, effect: CrashError() if not accidents.pick(15) else None
    try:
        run(Driver(graph, disk, accidents, sync=sync, fault=crash), plan)
    except CrashError:
        disk.crash(accidents)
        run(Driver(graph, disk, accidents, sync=sync), plan)
    assert disk.trail(graph) == plan["trail"]


@PROFILE
@given(plans())
def test_a_random_graph_ends_alike_without_a_checkpointer(plan):
    graph = build(plan)
    graph.checkpointer = None
    _, values, following = plan["trail"][-1]
    if following:
        with pytest.raises(GraphRecursionError) as caught:
            graph.invoke(plan["given"], {"recursion_limit": LIMIT})
        assert caught.value.state == values
    else:
        assert graph.invoke(plan["given"], {"recursion_limit": LIMIT}) == values
