"""What single calls cost on top of their supersteps: most calls of an agent's service are short."""

import asyncio
import gc
import itertools

import pytest

import durable_graph
from checkpointers import InMemorySaver
from durable_graph import Command
from tests.performance import graphs
from tests.performance.counting import calls_of

INVOKE = {"none": 195, "memory": 420, "sqlite": 490}
ROUND_TRIP = {"memory": 840, "sqlite": 930}
"""The answer to a question, to the next question."""
EDIT = {"memory": 500, "sqlite": 575}

WARM_UP = 5
SEVERAL = 40
"""An average: the rows that a thread is read from grow until the next BASE."""


@pytest.fixture(params=["none", "memory", "sqlite"])
def store(request):
    """(name, checkpointer)."""
    return request.param, saver_of(request, request.param)


@pytest.fixture(params=["memory", "sqlite"])
def durable(request):
    """(name, checkpointer)."""
    return request.param, saver_of(request, request.param)


def saver_of(request, name):
    if name == "sqlite":
        return request.getfixturevalue("database")[1]
    return InMemorySaver() if name == "memory" else None


def counted(work, times=1):
    """The calls that a run of `work` makes on average, after others have warmed it up."""

    def all_of_them():
        for _ in range(times):
            work()

    for _ in range(WARM_UP):
        work()
    return calls_of(all_of_them) / times


def invoking(saver):
    graph, numbers = graphs.loop(durable_graph, checkpointer=saver), itertools.count()
    return lambda: graph.invoke({"n": 1}, graphs.config(f"thread-{next(numbers)}"))


def answering(saver):
    graph, config = graphs.ask(durable_graph, checkpointer=saver), graphs.config("thread")
    graph.invoke({"n": 1000}, config)
    return lambda: graph.invoke(Command(resume=True), config)


def editing(saver):
    graph, config = graphs.loop(durable_graph, checkpointer=saver), graphs.config("thread")
    graph.invoke({"n": 1}, config)
    return lambda: graph.update_state(config, {"n": 0})


def test_an_invoke_of_one_node(store):
    name, saver = store
    assert counted(invoking(saver)) <= INVOKE[name]


def test_a_round_trip_to_a_human(durable):
    name, saver = durable
    assert counted(answering(saver), SEVERAL) <= ROUND_TRIP[name]


def test_an_edit(durable):
    name, saver = durable
    assert counted(editing(saver), SEVERAL) <= EDIT[name]


# --- memory that only the garbage collector could free: its work grows with everything that lives -------------------


@pytest.mark.parametrize("works", [invoking, answering, editing])
def test_a_call_that_is_over_leaves_no_garbage(works):
    assert garbage_of(works(InMemorySaver())) == 0


def test_an_awaited_call_that_is_over_leaves_no_garbage():
    async def measure():
        graph, numbers = graphs.loop(durable_graph, asynchronous=True, checkpointer=InMemorySaver()), itertools.count()
        call = graph.ainvoke
        for _ in range(WARM_UP):
            await call({"n": 1}, graphs.config(f"thread-{next(numbers)}"))
        gc.collect()
        gc.disable()
        await call({"n": 1}, graphs.config("thread"))
        return gc.collect()

    try:
        assert asyncio.run(measure()) == 0
    finally:
        gc.enable()


def garbage_of(work):
    """How many objects one call leaves that refer to each other in a circle, or hang on such."""
    for _ in range(WARM_UP):
        work()
    gc.collect()
    gc.disable()
    try:
        work()
        return gc.collect()
    finally:
        gc.enable()
