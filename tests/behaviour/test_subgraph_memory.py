"""What a graph inside a node remembers: nothing, for ever, or not even within the run."""

import asyncio

import pytest

from durable_graph import START, Command, Send, StateGraph
from tests.behaviour.inside import DURABILITIES, Part, asking, calling, checkpoints, map_of, working
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, chain, parallel, thread

CFG = thread()


def counting(*, memory, **more):
    """A graph that says how often it was called, as far as it remembers."""

    def count(state):
        return {"number": state.get("number", 0) + 1}

    def tell(state):
        return {"log": [state["number"]]}

    return chain(Part, count=count, tell=tell, **more).compile(checkpointer=memory)


def last_said(face, inner):
    """A node that calls a graph and logs the last it said."""

    def node(state):
        return {"log": [inner.invoke({"log": []})["log"][-1]]}

    async def anode(state):
        return {"log": [(await inner.ainvoke({"log": []}))["log"][-1]]}

    return node if face.name == "sync" else anode


def turns(face, graph, count, **more):
    for _ in range(count - 1):
        face.invoke(graph, {"log": []}, CFG, **more)
    return face.invoke(graph, {"log": []}, CFG, **more)["log"]


# --- over turns -------------------------------------------------------------------------------------------------------


@DURABILITIES
@pytest.mark.parametrize(("memory", "expected"), [(None, [1, 1, 1]), (True, [1, 2, 3]), (False, [1, 1, 1])])
def test_a_graph_remembers_over_turns_as_it_was_compiled(face, backend, durability, memory, expected):
    graph = chain(sub=last_said(face, counting(memory=memory))).compile(backend.make())
    assert turns(face, graph, 3, durability=durability) == expected
    elsewhere = chain(sub=last_said(face, counting(memory=memory))).compile(backend.reopen())
    assert turns(face, elsewhere, 1, durability=durability) == [*expected, 4 if memory else 1]


@DURABILITIES
@pytest.mark.parametrize("memory", [None, True, False])
def test_a_graph_as_a_node_remembers_as_it_was_compiled(face, backend, durability, memory):
    inner = chain(Part, count=lambda s: {"number": s.get("number", 0) + 1, "log": [s.get("number", 0) + 1]})
    graph = chain(sub=inner.compile(checkpointer=memory)).compile(backend.make())
    numbers = [face.invoke(graph, {"log": []}, CFG, durability=durability)["log"][-1] for _ in range(3)]
    assert numbers == ([1, 2, 3] if memory else [1, 1, 1])


def test_false_stores_nothing_of_the_graph(face, backend):
    saver = backend.make()
    graph = chain(sub=calling(face, counting(memory=False))).compile(saver)
    face.invoke(graph, {"log": []}, CFG)
    assert set(checkpoints(saver)) == {""}
    assert face.get_state(graph, CFG, subgraphs=True).tasks == ()


@DURABILITIES
def test_memory_is_there_in_the_next_step_of_the_same_run(face, backend, durability):
    builder = StateGraph(Log).add_node("sub", last_said(face, counting(memory=True))).add_edge(START, "sub")
    builder.add_conditional_edges("sub", lambda s: "sub" if s["log"][-1] < 4 else "__end__")
    graph = builder.compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == [1, 2, 3, 4]


def test_threads_have_memories_of_their_own(face, backend):
    graph = chain(sub=last_said(face, counting(memory=True))).compile(backend.make())
    face.invoke(graph, {"log": []}, thread("a"))
    assert face.invoke(graph, {"log": []}, thread("b"))["log"] == [1]


def test_two_nodes_with_the_same_graph_have_memories_of_their_own(face, backend):
    inner = counting(memory=True)
    graph = chain(one=last_said(face, inner), two=last_said(face, inner)).compile(backend.make())
    assert turns(face, graph, 2) == [1, 1, 2, 2]


def test_memory_has_one_line_of_checkpoints(face, backend):
    """A turn appends to the last one; nothing is copied."""
    saver = backend.make()
    graph = chain(sub=last_said(face, counting(memory=True))).compile(saver)
    turns(face, graph, 5)
    lanes = [lane.ns for lane in saver.load("t").lanes]
    assert lanes == ["", "sub"]


def test_every_turn_of_a_graph_without_memory_uses_the_same_lane(face, backend):
    saver = backend.make()
    graph = chain(sub=last_said(face, counting(memory=None))).compile(saver)
    turns(face, graph, 5)
    assert [lane.ns for lane in saver.load("t").lanes] == ["", "sub"]


# --- one memory per caller --------------------------------------------------------------------------------------------


@DURABILITIES
def test_three_parallel_sends_keep_a_memory_each(face, backend, durability):
    """In LangGraph all see in the second turn what the first caller did."""
    inner = chain(Part, hear=lambda s: {"log": [s["number"]]}).compile(checkpointer=True)

    def part(state):
        return {"log": [inner.invoke({"number": state["number"]})["log"]]}

    async def apart(state):
        return {"log": [(await inner.ainvoke({"number": state["number"]}))["log"]]}

    graph = map_of(3, part if face.name == "sync" else apart).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG, durability=durability)
    second = face.invoke(graph, {"log": []}, CFG, durability=durability)["log"][3:]
    assert second == [[0, 0], [1, 1], [2, 2]]


@DURABILITIES
def test_calls_of_one_node_keep_a_memory_each(face, backend, durability):
    inner = chain(Part, hear=lambda s: {"log": [s["number"]]}).compile(checkpointer=True)

    def node(state):
        return {"log": [inner.invoke({"number": n})["log"] for n in range(3)]}

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG, durability=durability)
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"][3:] == [[0, 0], [1, 1], [2, 2]]


def test_the_same_map_twice_in_a_resumed_run_does_not_replay_the_first_one(face, backend):
    marks = Marks()

    def work(state):
        marks(f"work {state['number']}")
        return {"log": [f"{state['number']}"]}

    inner = chain(Part, work=work, ask=asking(marks, "ask")).compile()

    def again(state):
        rounds = sum(word == "0" for word in state["log"])
        return [Send("part", {"number": n}) for n in range(2)] if rounds < 2 else "__end__"

    builder = StateGraph(Log).add_node("part", calling_with_number(inner)).add_node("join", lambda s: None)
    builder.add_conditional_edges(START, lambda _: [Send("part", {"number": n}) for n in range(2)], ["part"])
    graph = builder.add_edge("part", "join").add_conditional_edges("join", again, ["part", "__end__"])
    graph = graph.compile(backend.make())
    result, given = {}, {"log": []}
    for turn in "AB":
        result = face.invoke(graph, given, CFG)
        given = Command(resume={one.id: turn for one in result["__interrupt__"]})
    result = face.invoke(graph, given, CFG)
    assert result["log"] == ["0", "ask=A", "1", "ask=A", "0", "ask=B", "1", "ask=B"]
    assert marks.count("work 0") == marks.count("work 1") == 2


def calling_with_number(inner):
    return lambda part: {"log": inner.invoke({"number": part["number"], "log": []})["log"]}


# --- memory and what goes wrong ---------------------------------------------------------------------------------------


@DURABILITIES
def test_a_finished_sibling_keeps_its_memory_when_the_step_is_resumed(face, backend, durability):
    marks = Marks()
    done = counting(memory=True)
    waits = chain(Part, ask=asking(marks, "ask")).compile(checkpointer=True)
    graph = parallel(done=last_said(face, done), waits=last_said(face, waits)).compile(backend.make())
    for turn in (1, 2, 3):
        result = face.invoke(graph, {"log": []}, CFG, durability=durability)
        assert len(result["__interrupt__"]) == 1
        result = face.invoke(graph, Command(resume=turn), CFG, durability=durability)
        assert result["log"][-2:] == [turn, f"ask={turn}"]


@DURABILITIES
def test_a_turn_that_fails_and_is_resumed_is_remembered_once(face, backend, durability):
    broken = [True]

    def shaky(state):
        if broken[0]:
            raise ValueError("no")

    inner = counting(memory=True, shaky=shaky)
    graph = chain(sub=last_said(face, inner)).compile(backend.make())
    broken[0] = False
    assert turns(face, graph, 1, durability=durability) == [1]
    broken[0] = True
    with pytest.raises(ValueError, match="no"):
        face.invoke(graph, {"log": []}, CFG, durability=durability)
    broken[0] = False
    assert face.invoke(graph, None, CFG, durability=durability)["log"] == [1, 2]
    assert turns(face, graph, 1, durability=durability) == [1, 2, 3]


@DURABILITIES
def test_an_abandoned_turn_is_forgotten(face, backend, durability):
    marks = Marks()
    inner = counting(memory=True, ask=asking(marks, "ask"))
    graph = chain(sub=calling(face, inner)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG, durability=durability)
    face.invoke(graph, Command(resume="A"), CFG, durability=durability)
    face.invoke(graph, {"log": []}, CFG, durability=durability)  # counts to 2, and waits
    face.invoke(graph, {"log": []}, CFG, durability=durability, on_unfinished="abandon")
    result = face.invoke(graph, Command(resume="B"), CFG, durability=durability)
    assert result["log"][-3:] == ["ask=A", 2, "ask=B"]


def test_a_waiting_graph_with_memory_keeps_what_it_did_before_and_in_this_turn(face, backend):
    marks = Marks()
    inner = chain(Part, c1=working(marks, "c1"), c2=asking(marks, "c2")).compile(checkpointer=True)
    graph = chain(sub=calling(face, inner)).compile(backend.make())
    for turn in (1, 2, 3):
        face.invoke(graph, {"log": []}, CFG)
        face.invoke(graph, Command(resume=turn), CFG)
        assert marks.count("c1") == marks.count("c2") == turn
    values = face.get_state(graph, thread(checkpoint_ns="sub")).values
    assert values["log"] == ["c1", "c2=1", "c1", "c2=2", "c1", "c2=3"]


def test_graphs_with_memory_inside_graphs_with_memory_remember_both(face, backend):
    bottom = counting(memory=True)

    def middle_node(state):
        return {"log": [bottom.invoke({"log": []})["log"][-1]], "number": state.get("number", 0) + 10}

    middle = chain(Part, m=middle_node, tell=lambda s: {"log": [s["number"]]}).compile(checkpointer=True)
    graph = chain(sub=lambda s: {"log": middle.invoke({"log": []})["log"][-2:]}).compile(backend.make())
    assert turns(face, graph, 3) == [1, 10, 2, 20, 3, 30]


def test_memory_inside_a_graph_without_memory_lasts_as_long_as_that_one(face, backend):
    """Its pins are in the checkpoints of the graph above, and that one starts anew."""
    bottom = counting(memory=True)
    builder = StateGraph(Log).add_node("m", last_said(face, bottom)).add_edge(START, "m")
    builder.add_conditional_edges("m", lambda s: "m" if len(s["log"]) < 3 else "__end__")
    middle = builder.compile()
    graph = chain(sub=calling(face, middle)).compile(backend.make())
    assert turns(face, graph, 2) == [1, 2, 3] * 2


def test_async_gather_of_graphs_with_memory_keeps_a_memory_for_each_place(backend):
    inner = chain(Part, hear=lambda s: {"log": [s["number"]]}).compile(checkpointer=True)

    async def node(state):
        found = await asyncio.gather(*(inner.ainvoke({"number": n}) for n in range(3)))
        return {"log": [one["log"] for one in found]}

    graph = chain(n=node).compile(backend.make())
    graph.invoke({"log": []}, CFG)
    assert graph.invoke({"log": []}, CFG)["log"][3:] == [[0, 0], [1, 1], [2, 2]]


# --- memory and travelling --------------------------------------------------------------------------------------------


def at_turn(face, graph, number):
    """The config of the checkpoint at which turn `number` had ended."""
    done = [one for one in face.get_state_history(graph, CFG) if not one.next]
    return done[::-1][number - 1].config


@DURABILITIES
def test_travelling_the_parent_back_restores_the_memory_of_that_time(face, backend, durability):
    graph = chain(sub=last_said(face, counting(memory=True))).compile(backend.make())
    turns(face, graph, 3, durability=durability)
    back = at_turn(face, graph, 1)
    assert face.invoke(graph, {"log": []}, back, durability=durability)["log"] == [1, 2]
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == [1, 2, 3]


def test_running_a_step_again_starts_from_the_memory_before_it(face, backend):
    graph = chain(sub=last_said(face, counting(memory=True)), z=says("z")).compile(backend.make())
    turns(face, graph, 3)
    before = [one for one in face.get_state_history(graph, CFG) if one.next == ("sub",)][::-1]
    assert face.invoke(graph, None, before[1].config)["log"] == [1, "z", 2, "z"]
    assert face.invoke(graph, {"log": []}, CFG)["log"] == [1, "z", 2, "z", 3, "z"]


def test_a_fork_remembers_what_was_before_it_and_the_other_branch_is_untouched(face, backend):
    graph = chain(sub=last_said(face, counting(memory=True))).compile(backend.make())
    turns(face, graph, 2)
    ends = {1: at_turn(face, graph, 1), 2: at_turn(face, graph, 2)}
    fork = face.update_state(graph, ends[1], {"log": ["fork"]}, as_node="sub")
    assert face.invoke(graph, {"log": []}, fork)["log"] == [1, "fork", 2]
    assert face.invoke(graph, {"log": []}, CFG)["log"] == [1, "fork", 2, 3]
    assert face.invoke(graph, {"log": []}, ends[2])["log"] == [1, 2, 3]
    assert face.invoke(graph, {"log": []}, ends[1])["log"] == [1, 2]


def test_forks_of_forks_remember_their_own_line(face, backend):
    inner = chain(Part, hear=lambda s: {"log": [s["number"]]}).compile(checkpointer=True)
    graph = chain(sub=lambda s: {"answer": inner.invoke({"number": s["other"]})["log"]}).compile(backend.make())

    def turn(number, config=CFG):
        return face.invoke(graph, {"other": number}, config)["answer"]

    ends = {}
    assert turn(1) == [1]
    ends["1"] = face.get_state(graph, CFG).config
    assert turn(2) == [1, 2]
    ends["12"] = face.get_state(graph, CFG).config
    assert turn(3, ends["1"]) == [1, 3]
    ends["13"] = face.get_state(graph, CFG).config
    assert turn(4, ends["13"]) == [1, 3, 4]
    ends["134"] = face.get_state(graph, CFG).config
    assert turn(5, ends["13"]) == [1, 3, 5]
    assert turn(6, ends["134"]) == [1, 3, 4, 6]
    assert turn(7, ends["12"]) == [1, 2, 7]
    assert turn(8, ends["1"]) == [1, 8]
    assert turn(9) == [1, 8, 9]


def test_the_other_branchs_checkpoints_inside_stay_as_they_were(face, backend):
    graph = chain(sub=last_said(face, counting(memory=True))).compile(backend.make())
    turns(face, graph, 2)
    inside = thread(checkpoint_ns="sub")
    before = {one.config["configurable"]["checkpoint_id"]: one for one in face.get_state_history(graph, inside)}
    face.invoke(graph, {"log": []}, at_turn(face, graph, 1))
    after = {one.config["configurable"]["checkpoint_id"]: one for one in face.get_state_history(graph, inside)}
    assert {key: after[key].values for key in before} == {key: one.values for key, one in before.items()}
    assert len(after) > len(before)
