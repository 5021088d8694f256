"""A compiled graph as a node, or called inside one: one run, one thread, nothing of it done twice."""

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest

from durable_graph import START, Command, RetryPolicy, Send, StateGraph, get_config
from durable_graph.errors import GraphRecursionError, NoCheckpointerError
from tests.behaviour.inside import (
    DURABILITIES,
    afresh,
    asking,
    calling,
    checkpoints,
    deep,
    fresh,
    in_os_threads,
    map_of,
    working,
)
from tests.behaviour.making import both, says
from tests.behaviour.small_graphs import Log, Marks, chain, dump, thread

CFG = thread()


class Child(TypedDict, total=False):
    """A state with a key that the outer graph has and one that it has not."""

    log: Annotated[list[str], operator.add]
    own: int


def child(marks=None, **nodes):
    marks = marks or Marks()
    return chain(Child, **(nodes or {"c1": working(marks, "c1"), "c2": working(marks, "c2")})).compile()


# --- as a node --------------------------------------------------------------------------------------------------------


@DURABILITIES
def test_a_graph_as_a_node_runs_as_part_of_the_run(face, backend, durability):
    marks = Marks()
    graph = chain(a=says("a"), sub=child(marks, c1=lambda s: {"log": [f"saw {s['log']}"], "own": 1}), z=says("z"))
    result = face.invoke(graph.compile(backend.make()), {"log": ["in"]}, CFG, durability=durability)
    assert result == {"log": ["in", "a", "in", "a", "saw ['in', 'a']", "z"]}


def test_a_graph_as_a_node_runs_without_a_checkpointer(face):
    graph = chain(sub=child(c1=says("c1"))).compile()
    assert face.invoke(graph, {"log": []}) == {"log": ["c1"]}


def test_only_keys_that_both_states_have_are_handed_in_and_out(face, backend):
    seen = []
    inner = child(c1=lambda s: seen.append(sorted(s)) or {"own": 5, "log": ["c1"]}, c2=lambda s: seen.append(s["own"]))
    graph = chain(sub=inner).compile(backend.make())
    assert face.invoke(graph, {"answer": 1, "log": []}, CFG) == {"answer": 1, "log": ["c1"]}
    assert seen == [["log"], 5]


def test_the_input_of_a_graph_as_a_node_may_be_what_a_send_carries(face, backend):
    inner = child(c1=lambda s: {"log": [f"got {s['own']}"]})
    builder = StateGraph(Log).add_node("sub", inner)
    builder.add_conditional_edges(START, lambda _: [Send("sub", {"own": n}) for n in range(3)], ["sub"])
    assert face.invoke(builder.compile(backend.make()), {}, CFG)["log"] == ["got 0", "got 1", "got 2"]


def test_a_graph_whose_state_is_one_bare_value_can_be_a_node(face, backend):
    inner = StateGraph(int).add_node("add", lambda n: n + 1).add_edge(START, "add").compile()
    outer = StateGraph(int).add_node("sub", inner).add_edge(START, "sub").compile(backend.make())
    assert face.invoke(outer, 1, CFG) == 2


@DURABILITIES
@pytest.mark.parametrize("call", [fresh, afresh], ids=["sync node", "async node"])
def test_a_graph_called_inside_a_node_runs_as_part_of_the_run(face, backend, durability, call):
    saver = backend.make()
    graph = chain(a=says("a"), sub=call(child()), z=says("z")).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["a", "c1", "c2", "z"]
    assert set(checkpoints(saver)) == {"", "sub"}


def test_a_sync_node_of_an_async_run_and_an_async_node_of_a_sync_run_may_call_graphs_of_both_kinds(face, backend):
    for name, node in (("sync", fresh), ("async", afresh)):
        for body in both(lambda state: {"log": ["inner"]}):
            if name == "sync" and asyncio.iscoroutinefunction(body) and face.name == "sync":
                continue  # covered below: it runs on the private loop
            graph = chain(sub=node(chain(c=body).compile())).compile(backend.make())
            assert face.invoke(graph, {"log": []}, thread(f"{name} {body.__name__}"))["log"] == ["inner"]


def test_a_sync_node_of_a_sync_run_may_call_a_graph_of_async_nodes(backend):
    async def body(state):
        await asyncio.sleep(0)
        return {"log": ["inner"]}

    graph = chain(sub=fresh(chain(c=body).compile())).compile(backend.make())
    assert graph.invoke({"log": []}, CFG)["log"] == ["inner"]


def test_a_stream_inside_a_node_runs_as_part_of_the_run(face, backend):
    inner = child()

    def node(state):
        return {"log": [str(update) for update in inner.stream({"log": []})]}

    async def anode(state):
        return {"log": [str(update) async for update in inner.astream({"log": []})]}

    saver = backend.make()
    graph = chain(sub=node if face.name == "sync" else anode).compile(saver)
    expected = ["{'c1': {'log': ['c1']}}", "{'c2': {'log': ['c2']}}"]
    assert face.invoke(graph, {"log": []}, CFG)["log"] == expected
    assert checkpoints(saver) == {"": 3, "sub": 4}


def test_a_batch_inside_a_node_runs_as_part_of_the_run(face, backend):
    inner = child(c1=lambda s: {"log": [f"c{s['own']}"]})

    def node(state):
        return {"log": [r["log"][0] for r in inner.batch([{"own": n} for n in range(4)])]}

    async def anode(state):
        return {"log": [r["log"][0] for r in await inner.abatch([{"own": n} for n in range(4)])]}

    saver = backend.make()
    graph = chain(sub=node if face.name == "sync" else anode).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["c0", "c1", "c2", "c3"]
    assert set(checkpoints(saver)) == {"", "sub", "sub:+1", "sub:+2", "sub:+3"}


def test_a_graph_bound_to_a_config_and_one_in_a_partial_run_as_part_of_the_run(face, backend):
    seen = []
    inner = child(c1=lambda s: seen.append(get_config()["tags"]) or {"log": ["c1"]}).with_config(tags=["mine"])
    saver = backend.make()
    graph = chain(sub=inner).compile(saver)
    assert face.invoke(graph, {"log": []}, {**CFG, "tags": ["outer"]})["log"] == ["c1"]
    assert sorted(seen[0]) == ["mine", "outer"]


# --- several ----------------------------------------------------------------------------------------------------------


@DURABILITIES
def test_every_task_starts_its_graph_anew(face, backend, durability):
    seen = []
    inner = child(c1=lambda s: seen.append(s.get("own")) or {"own": 1, "log": ["c1"]})
    builder = StateGraph(Log).add_node("sub", calling(face, inner)).add_edge(START, "sub")
    builder.add_conditional_edges("sub", lambda s: "sub" if len(s["log"]) < 3 else "__end__")
    graph = builder.compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["c1"] * 3
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["c1"] * 4
    assert seen == [None] * 4


@DURABILITIES
def test_one_node_may_call_several_graphs_one_after_the_other(face, backend, durability):
    one, two = child(c=says("one")), child(d=says("two"))
    saver = backend.make()

    def node(state):
        return {"log": [*one.invoke({})["log"], *two.invoke({})["log"], *one.invoke({})["log"]]}

    async def anode(state):
        found = [await one.ainvoke({}), await two.ainvoke({}), await one.ainvoke({})]
        return {"log": [word for result in found for word in result["log"]]}

    graph = chain(n=node if face.name == "sync" else anode).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["one", "two", "one"]
    assert set(checkpoints(saver)) == {"", "n", "n:+1", "n:+2"}


@DURABILITIES
def test_a_loop_inside_one_node_starts_the_graph_anew_each_time(face, backend, durability):
    inner = child(c1=lambda s: {"own": s.get("own", 0) + 1}, c2=lambda s: {"log": [s["own"]]})

    def node(state):
        return {"log": [inner.invoke({"log": []})["log"][0] for _ in range(5)]}

    graph = chain(n=node).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == [1] * 5


@DURABILITIES
def test_graphs_may_run_at_the_same_time_in_one_async_node(face, backend, durability):
    async def slow(state):
        await asyncio.sleep(0.002 * (3 - state["own"]))
        return {"log": [f"c{state['own']}"]}

    inner = child(c1=slow, c2=says("end"))

    async def node(state):
        found = await asyncio.gather(*(inner.ainvoke({"own": n}) for n in range(4)))
        return {"log": [result["log"] for result in found]}

    graph = chain(n=node).compile(backend.make())
    expected = [[f"c{n}", "end"] for n in range(4)]
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == expected


@DURABILITIES
def test_graphs_may_run_at_the_same_time_in_os_threads_of_one_node(face, backend, durability):
    inner = child(c1=lambda s: {"log": [f"c{s['own']}"]}, c2=says("end"))

    def node(state):
        return {"log": in_os_threads([lambda n=n: inner.invoke({"own": n})["log"] for n in range(8)])}

    saver = backend.make()
    graph = chain(n=node).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == [[f"c{n}", "end"] for n in range(8)]
    assert len(checkpoints(saver)) == 9


@DURABILITIES
def test_graphs_may_run_in_parallel_sends(face, backend, durability):
    inner = child(c1=lambda s: {"log": [f"c{s['own']}"]}, c2=says("end"))

    def node(part):
        return {"log": [inner.invoke({"own": part["number"]})["log"]]}

    async def anode(part):
        return {"log": [(await inner.ainvoke({"own": part["number"]}))["log"]]}

    graph = map_of(12, node if face.name == "sync" else anode).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == [[f"c{n}", "end"] for n in range(12)]


@DURABILITIES
def test_graphs_may_be_three_levels_deep(face, backend, durability):
    builder, marks = deep(3, lambda marks: {"bottom": working(marks, "bottom")})
    saver = backend.make()
    result = face.invoke(builder.compile(saver), {"log": []}, CFG, durability=durability)
    path = ["before2", "before1", "before0", "bottom", "after0", "after1", "after2"]
    assert result["log"] == marks.seen == path
    assert set(checkpoints(saver)) == {"", "g2", "g2|g1", "g2|g1|g0"}


# --- limits and errors ------------------------------------------------------------------------------------------------


def test_the_recursion_limit_holds_for_each_run_inside(face, backend):
    marks = Marks()
    builder = StateGraph(Log).add_node("turn", working(marks, "turn")).add_edge(START, "turn")
    inner = builder.add_conditional_edges("turn", lambda s: "turn").compile()
    graph = chain(a=says("a"), sub=inner).compile(backend.make())
    with pytest.raises(GraphRecursionError, match=r"4 supersteps ran, turn would be next") as caught:
        face.invoke(graph, {"log": []}, {**CFG, "recursion_limit": 4})
    assert marks.count("turn") == 4
    assert "'sub'" in "".join(caught.value.__notes__)
    assert face.get_state(graph, CFG).next == ("sub",)


@DURABILITIES
@pytest.mark.parametrize("as_node", [True, False], ids=["as a node", "called"])
def test_an_error_inside_names_its_path_and_a_resume_runs_no_finished_node_again(face, backend, durability, as_node):
    marks, broken = Marks(), [True]

    def fails(state):
        marks("fails")
        if broken[0]:
            raise ValueError("no")
        return {"log": ["mended"]}

    bottom = chain(b1=working(marks, "b1"), b2=fails, b3=working(marks, "b3")).compile()
    middle = chain(m1=working(marks, "m1"), deep=fresh(bottom), m3=working(marks, "m3")).compile()
    node = middle if as_node else calling(face, middle)
    graph = chain(a=lambda s: marks("a"), sub=node, z=working(marks, "z")).compile(backend.make())
    with pytest.raises(ValueError, match="no") as caught:
        face.invoke(graph, {"log": []}, CFG, durability=durability)
    notes = [note for note in caught.value.__notes__ if note.startswith("During task")]
    assert [note.split("'")[1] for note in notes] == ["b2", "deep", "sub"]
    shown = face.get_state(graph, CFG, subgraphs=True)
    assert shown.next == ("sub",)
    assert shown.tasks[0].error == "ValueError('no')"
    assert shown.tasks[0].state.tasks[0].state.next == ("b2",)
    broken[0] = False
    result = face.invoke(graph, None, CFG, durability=durability)
    assert result["log"] == ["m1", "b1", "mended", "b3", "m3", "z"]
    assert [(name, marks.count(name)) for name in ("a", "m1", "b1", "fails", "b3", "m3", "z")] == [
        ("a", 1),
        ("m1", 1),
        ("b1", 1),
        ("fails", 2),
        ("b3", 1),
        ("m3", 1),
        ("z", 1),
    ]


@DURABILITIES
def test_a_retry_of_the_outer_node_does_not_run_finished_graphs_again(face, backend, durability):
    marks = Marks()
    one, two = chain(c=working(marks, "one")).compile(), chain(d=working(marks, "two")).compile()

    def node(state):
        marks("node")
        found = [*one.invoke({"log": []})["log"], *two.invoke({"log": []})["log"]]
        if marks.count("node") < 3:
            raise ConnectionError("again")
        return {"log": found}

    builder = StateGraph(Log)
    builder.add_node("n", node, retry_policy=RetryPolicy(0.001, jitter=False)).add_edge(START, "n")
    assert face.invoke(builder.compile(backend.make()), {"log": []}, CFG, durability=durability)["log"] == [
        "one",
        "two",
    ]
    assert (marks.count("node"), marks.count("one"), marks.count("two")) == (3, 1, 1)


@DURABILITIES
def test_a_graph_that_runs_on_when_its_node_is_tried_again_does_not_disturb_the_next_attempt(backend, durability):
    """`gather` raises the first error and leaves the others running."""
    marks = Marks()

    async def slow(state):
        marks("slow")
        await asyncio.sleep(0.03)
        return {"log": ["slow"]}

    def shaky(state):
        marks("shaky")
        if marks.count("shaky") < 4:
            raise ConnectionError("again")
        return {"log": ["steady"]}

    bad = chain(s=shaky).compile()
    good = chain(a=lambda s: {"log": ["a"]}, b=slow, c=slow, d=lambda s: {"log": ["d"]}).compile()

    async def node(state):
        found = await asyncio.gather(good.ainvoke({"log": []}), bad.ainvoke({"log": []}))
        return {"log": [one["log"] for one in found]}

    builder = StateGraph(Log).add_node("n", node, retry_policy=RetryPolicy(0.02, 1.0, max_attempts=9, jitter=False))
    graph = builder.add_edge(START, "n").compile(backend.make())

    async def main():
        result = await graph.ainvoke({"log": []}, CFG, durability=durability)
        await asyncio.sleep(0.1)  # what still runs comes to its end
        return result

    assert asyncio.run(main())["log"] == [["a", "slow", "slow", "d"], ["steady"]]
    history = list(graph.get_state_history(thread(checkpoint_ns="n")))
    assert history[0].values["log"] == ["a", "slow", "slow", "d"]


@DURABILITIES
def test_a_graph_that_runs_on_when_the_run_has_failed_stores_nothing_more(backend, durability):
    marks, saver = Marks(), backend.make()
    failed = asyncio.Event()

    async def slow(state):
        await failed.wait()
        marks("slow")
        return {"log": ["slow"]}

    def broken(state):
        if not marks.count("mended"):
            raise ValueError("no")

    bad, good = chain(b=broken).compile(), chain(s=slow, t=lambda s: marks("after")).compile()

    async def node(state):
        found = await asyncio.gather(good.ainvoke({"log": []}), bad.ainvoke({"log": []}))
        return {"log": found[0]["log"]}

    graph = chain(n=node).compile(saver)

    async def main():
        with pytest.raises(ValueError, match="no"):
            await graph.ainvoke({"log": []}, CFG, durability=durability)
        before = dump(saver)
        failed.set()
        await asyncio.sleep(0.1)
        assert marks.seen == ["slow"]
        assert dump(saver) == before
        marks("mended")
        return await graph.ainvoke(None, CFG, durability=durability)

    assert asyncio.run(main())["log"] == ["slow"]


@DURABILITIES
def test_a_retry_goes_on_inside_where_the_graph_failed(face, backend, durability):
    marks = Marks()

    def shaky(state):
        marks("shaky")
        if marks.count("shaky") < 3:
            raise ConnectionError("again")
        return {"log": ["steady"]}

    inner = chain(c1=working(marks, "c1"), c2=shaky).compile()
    builder = StateGraph(Log)
    builder.add_node("n", calling(face, inner), retry_policy=RetryPolicy(0.001, jitter=False)).add_edge(START, "n")
    result = face.invoke(builder.compile(backend.make()), {"log": []}, CFG, durability=durability)
    assert result["log"] == ["c1", "steady"]
    assert (marks.count("c1"), marks.count("shaky")) == (1, 3)


def test_an_error_inside_that_the_node_handles_is_no_error_of_the_run(face, backend):
    def fails(state):
        raise ValueError("no")

    inner = chain(c1=fails).compile()

    def node(state):
        try:
            inner.invoke({"log": []})
        except ValueError as error:
            return {"log": [str(error)]}

    graph = chain(n=node, z=says("z")).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["no", "z"]


def test_values_that_cannot_be_stored_are_refused_inside_too(face, backend):
    graph = chain(sub=child(c1=lambda s: {"log": [object()]})).compile(backend.make())
    with pytest.raises(TypeError, match="'c1' wrote to key 'log'"):
        face.invoke(graph, {"log": []}, CFG)


def test_a_resumed_node_gets_what_its_finished_graph_gave(face, backend):
    """In the graph's shape and types, though it does not run again."""
    marks = Marks()
    inner = chain(c=working(marks, "c", ("a", "tuple"))).compile()

    def node(state):
        found = inner.invoke({"log": []})["log"]
        return {"log": [found, asking(marks, "n")(state)["log"][0]]}

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == [[("a", "tuple")], "n=1"]
    assert marks.count("c") == 1


def test_true_as_the_checkpointer_of_the_outermost_graph_is_refused(face):
    graph = chain(a=says("a")).compile(checkpointer=True)
    with pytest.raises(NoCheckpointerError, match=r"checkpointer=True and is not called inside a node"):
        face.invoke(graph, {"log": []}, CFG)
