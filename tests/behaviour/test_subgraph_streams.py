"""What streams show of graphs inside nodes, and in which order."""

import asyncio

import pytest

from durable_graph import Command, get_stream_writer
from tests.behaviour.inside import DURABILITIES, Part, asking, calling, map_of
from tests.behaviour.making import says, until
from tests.behaviour.small_graphs import Marks, chain, thread

CFG = thread()
MODES = ["values", "updates", "custom", "tasks", "checkpoints", "debug"]


def telling(word):
    """A node that says a word on the custom stream."""

    def node(state):
        get_stream_writer()(word)
        return {"log": [word]}

    return node


def two_levels(face, saver=None, **options):
    bottom = chain(b=telling("b")).compile()
    middle = chain(m=telling("m"), deep=calling(face, bottom)).compile()
    return chain(sub=calling(face, middle), z=telling("z")).compile(saver, **options)


# --- order and shape --------------------------------------------------------------------------------------------------


@DURABILITIES
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_events_of_all_levels_come_in_the_order_in_which_they_happened(face, backend, durability, stored):
    graph = two_levels(face, backend.make() if stored else None)
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True, durability=durability)
    assert shown == [
        (("sub",), {"m": {"log": ["m"]}}),
        (("sub", "deep"), {"b": {"log": ["b"]}}),
        (("sub",), {"deep": {"log": ["b"]}}),
        ((), {"sub": {"log": ["m", "b"]}}),
        ((), {"z": {"log": ["z"]}}),
    ]


def test_several_modes_come_in_one_order(face, backend):
    graph = two_levels(face, backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True, stream_mode=["values", "updates", "custom"])
    assert shown == [
        ((), "values", {"log": []}),
        (("sub",), "values", {"log": []}),
        (("sub",), "custom", "m"),
        (("sub",), "updates", {"m": {"log": ["m"]}}),
        (("sub",), "values", {"log": ["m"]}),
        (("sub", "deep"), "values", {"log": []}),
        (("sub", "deep"), "custom", "b"),
        (("sub", "deep"), "updates", {"b": {"log": ["b"]}}),
        (("sub", "deep"), "values", {"log": ["b"]}),
        (("sub",), "updates", {"deep": {"log": ["b"]}}),
        (("sub",), "values", {"log": ["m", "b"]}),
        ((), "updates", {"sub": {"log": ["m", "b"]}}),
        ((), "values", {"log": ["m", "b"]}),
        ((), "custom", "z"),
        ((), "updates", {"z": {"log": ["z"]}}),
        ((), "values", {"log": ["m", "b", "z"]}),
    ]


def test_typed_parts_name_the_graph(face, backend):
    graph = two_levels(face, backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True, version="v2", stream_mode=["updates", "custom"])
    assert [(part["type"], part["ns"]) for part in shown] == [
        ("custom", ("sub",)),
        ("updates", ("sub",)),
        ("custom", ("sub", "deep")),
        ("updates", ("sub", "deep")),
        ("updates", ("sub",)),
        ("updates", ()),
        ("custom", ()),
        ("updates", ()),
    ]
    assert shown[2]["data"] == "b"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_mode_shows_graphs_inside_when_it_is_asked_to(face, backend, mode, version):
    graph = two_levels(face, backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True, stream_mode=mode, version=version)
    places = {part[0] if version == "v1" else part["ns"] for part in shown}
    assert places == {(), ("sub",), ("sub", "deep")}
    outer = face.stream(graph, {"log": []}, thread("other"), stream_mode=mode, version="v2")
    assert {part["ns"] for part in outer} == (places if mode == "custom" else {()})


def test_checkpoints_inside_name_their_graph_and_can_be_asked_for(face, backend):
    graph = two_levels(face, backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True, stream_mode="checkpoints")
    inner = [payload for ns, payload in shown if ns == ("sub", "deep")]
    assert [one["metadata"]["step"] for one in inner] == [-1, 0, 1]
    for one in inner:
        assert one["config"]["configurable"]["checkpoint_ns"] == "sub|deep"
        assert face.get_state(graph, one["config"]).values == one["values"]


def test_parallel_graphs_are_told_apart_by_their_path(face, backend):
    inner = chain(Part, c=lambda s: {"log": [s["number"]]}).compile()
    graph = map_of(3, lambda s: {"log": inner.invoke({"number": s["number"]})["log"]}).compile(backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True)
    inside = {ns: payload for ns, payload in shown if ns}
    assert inside == {(f"part:{n}",): {"c": {"log": [n]}} for n in range(3)}


def test_several_graphs_of_one_node_are_told_apart(face, backend):
    one, two = chain(a=says("a")).compile(), chain(b=says("b")).compile()

    def node(state):
        return {"log": [*one.invoke({"log": []})["log"], *two.invoke({"log": []})["log"]]}

    graph = chain(n=node).compile(backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True)
    assert shown[:2] == [(("n",), {"a": {"log": ["a"]}}), (("n:+1",), {"b": {"log": ["b"]}})]


def test_a_question_inside_shows_at_every_level(face, backend):
    graph = chain(sub=chain(ask=asking(Marks(), "ask", "q?")).compile()).compile(backend.make())
    shown = face.stream(graph, {"log": []}, CFG, subgraphs=True)
    assert [(ns, [one.value for one in payload["__interrupt__"]]) for ns, payload in shown] == [
        (("sub",), ["q?"]),
        ((), ["q?"]),
    ]
    assert face.stream(graph, Command(resume=1), CFG, subgraphs=True) == [
        (("sub",), {"ask": {"log": ["ask=1"]}}),
        ((), {"sub": {"log": ["ask=1"]}}),
    ]


def test_a_command_for_the_graph_above_shows_as_what_the_outer_node_wrote(face, backend):
    inner = chain(up=lambda s: Command(graph=Command.PARENT, update={"log": ["up"]})).compile()
    graph = chain(sub=inner).compile(backend.make())
    shown = face.stream(graph, {"log": []}, CFG)
    assert shown == [{"sub": {"log": ["up"]}}]


# --- custom events ----------------------------------------------------------------------------------------------------


def test_custom_events_inside_are_always_seen(face, backend):
    graph = two_levels(face, backend.make())
    assert face.stream(graph, {"log": []}, CFG, stream_mode="custom") == ["m", "b", "z"]
    shown = face.stream(graph, {"log": []}, CFG, stream_mode=["custom", "updates"])
    assert [payload for mode, payload in shown if mode == "custom"] == ["m", "b", "z"]
    assert {node for mode, payload in shown if mode == "updates" for node in payload} == {"sub", "z"}


def test_custom_events_inside_a_graph_that_stores_nothing_are_seen(face, backend):
    inner = chain(c=telling("c")).compile(checkpointer=False)
    graph = chain(sub=inner).compile(backend.make())
    assert face.stream(graph, {"log": []}, CFG, stream_mode="custom", version="v2") == [
        {"type": "custom", "ns": ("sub",), "data": "c"}
    ]


def test_custom_events_come_while_the_graph_inside_still_runs(backend):
    """In an async run, where the reader is on the same loop."""
    seen = []

    async def node(state):
        get_stream_writer()("first")
        await until(lambda: seen)
        return {"log": ["c"]}

    graph = chain(sub=chain(c=node).compile()).compile(backend.make())

    async def main():
        async for event in graph.astream({"log": []}, CFG, stream_mode="custom"):
            seen.append(event)  # noqa: PERF401 - one by one: the node waits for the first

    asyncio.run(asyncio.wait_for(main(), 30))
    assert seen == ["first"]


# --- a stream inside a node -------------------------------------------------------------------------------------------


def reading(face, inner, kept, **options):
    """A node that streams a graph and keeps what it saw."""

    def node(state):
        kept.extend(inner.stream({"log": []}, **options))
        return {"log": ["read"]}

    async def anode(state):
        kept.extend([one async for one in inner.astream({"log": []}, **options)])
        return {"log": ["read"]}

    return node if face.name == "sync" else anode


@pytest.mark.parametrize("outside", ["updates", "custom", None])
def test_a_stream_inside_a_node_shows_its_caller_what_it_asked_for(face, backend, outside):
    kept = []
    inner = chain(a=telling("a"), b=telling("b")).compile()
    graph = chain(sub=reading(face, inner, kept, stream_mode=["updates", "custom"])).compile(backend.make())
    if outside is None:
        face.invoke(graph, {"log": []}, CFG)
    else:
        shown = face.stream(graph, {"log": []}, CFG, stream_mode=outside, subgraphs=True)
        expected = [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}] if outside == "updates" else ["a", "b"]
        assert [payload for ns, payload in shown if ns == ("sub",)] == expected
    assert kept == [
        ("custom", "a"),
        ("updates", {"a": {"log": ["a"]}}),
        ("custom", "b"),
        ("updates", {"b": {"log": ["b"]}}),
    ]


def test_the_caller_inside_sees_no_modes_that_only_the_outside_wants(face, backend):
    kept = []
    inner = chain(a=telling("a")).compile()
    graph = chain(sub=reading(face, inner, kept)).compile(backend.make())
    shown = face.stream(graph, {"log": []}, CFG, stream_mode=["values", "tasks", "custom"], subgraphs=True)
    assert {mode for ns, mode, _ in shown if ns} == {"values", "tasks", "custom"}
    assert kept == [{"a": {"log": ["a"]}}]


def test_the_caller_inside_sees_graphs_below_with_paths_from_the_root(face, backend):
    kept = []
    middle = chain(deep=chain(b=says("b")).compile(), m=says("m")).compile()
    graph = chain(sub=reading(face, middle, kept, subgraphs=True)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    assert kept == [
        (("sub", "deep"), {"b": {"log": ["b"]}}),
        ((), {"deep": {"log": ["b"]}}),
        ((), {"m": {"log": ["m"]}}),
    ]


# --- closing ----------------------------------------------------------------------------------------------------------


def test_a_stream_inside_that_is_left_early_stops_that_graph_only(face, backend):
    marks = Marks()

    def second(state):
        marks("second")

    inner = chain(a=says("a"), b=second).compile()

    def node(state):
        for _ in inner.stream({"log": []}):
            break
        return {"log": ["left"]}

    async def anode(state):
        stream = inner.astream({"log": []})
        async for _ in stream:
            break
        await stream.aclose()
        return {"log": ["left"]}

    graph = chain(sub=node if face.name == "sync" else anode, z=says("z")).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["left", "z"]
    assert marks.count("second") == 0


@DURABILITIES
def test_the_outer_stream_that_is_left_inside_a_graph_can_be_gone_on_with(face, backend, durability):
    marks = Marks()

    def noted(name):
        def node(state):
            marks(name)
            return {"log": [name]}

        return node

    inner = chain(a=noted("a"), b=noted("b"), c=noted("c")).compile()
    graph = chain(sub=calling(face, inner), z=noted("z")).compile(backend.make())
    if face.name == "sync":
        for _ in graph.stream({"log": []}, CFG, subgraphs=True, durability=durability):
            break
    else:

        async def main():
            stream = graph.astream({"log": []}, CFG, subgraphs=True, durability=durability)
            async for _ in stream:
                break
            await stream.aclose()

        asyncio.run(main())
    assert face.invoke(graph, None, CFG, durability=durability)["log"] == ["a", "b", "c", "z"]
    assert marks.count("a") == marks.count("z") == 1


def test_a_cancelled_run_stops_inside_and_can_be_gone_on_with(backend):
    marks, began = Marks(), []

    async def slow(state):
        marks("slow")
        began.append(True)
        if marks.count("slow") == 1:
            await asyncio.sleep(60)
        return {"log": ["slow"]}

    inner = chain(a=lambda s: marks("a") or {"log": ["a"]}, b=slow).compile()
    graph = chain(sub=inner).compile(backend.make())

    async def main():
        run = asyncio.create_task(graph.ainvoke({"log": []}, CFG))
        await until(lambda: began)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await graph.ainvoke(None, CFG)

    assert asyncio.run(main())["log"] == ["a", "slow"]
    assert marks.count("a") == 1
