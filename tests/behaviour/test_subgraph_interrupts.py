"""Questions of graphs inside nodes are answered from the root, and no finished node inside runs twice."""

import asyncio

import pytest

from durable_graph import Command, StateGraph, interrupt
from durable_graph.errors import GraphInterrupt, InvalidValueError, UnknownInterruptError
from tests.behaviour.inside import (
    DURABILITIES,
    Part,
    afresh,
    asking,
    calling,
    deep,
    fresh,
    in_os_threads,
    map_of,
    working,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, parallel, thread

CFG = thread()


def questions(result):
    return [one.value for one in result.get("__interrupt__", ())]


# --- one question -----------------------------------------------------------------------------------------------------


@DURABILITIES
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_question_at_any_depth_is_answered_from_the_root(face, backend, durability, levels):
    builder, marks = deep(levels, lambda marks: {"pre": working(marks, "pre"), "ask": asking(marks, "ask", "q?")})
    first = face.invoke(builder.compile(backend.make()), {"log": []}, CFG, durability=durability)
    assert questions(first) == ["q?"]
    elsewhere = builder.compile(backend.reopen())
    result = face.invoke(elsewhere, Command(resume="A"), CFG, durability=durability)
    before = [f"before{level}" for level in reversed(range(levels))]
    after = [f"after{level}" for level in range(levels)]
    assert result == {"log": [*before, "pre", "ask=A", *after]}
    assert marks.seen == [*before, "pre", "ask began", "ask began", "ask", *after]


@pytest.mark.parametrize("memory", [None, True, False])
def test_a_question_is_answered_whatever_memory_its_graph_has(face, backend, memory):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile(checkpointer=memory)
    graph = chain(sub=calling(face, inner), z=says("z")).compile(backend.make())
    assert questions(face.invoke(graph, {"log": []}, CFG)) == ["c2?"]
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["c1", "c2=1", "z"]
    assert marks.count("c1") == (2 if memory is False else 1)


@DURABILITIES
def test_questions_one_after_the_other_inside_keep_their_answers(face, backend, durability):
    marks = Marks()

    def twice(state):
        return {"log": [interrupt("q2?"), interrupt("q3?")]}

    inner = chain(c1=asking(marks, "q1"), c2=twice, c3=working(marks, "c3")).compile()
    graph = chain(sub=inner, own=asking(marks, "own")).compile(backend.make())
    result, given = {}, {"log": []}
    for question, answer in (("q1?", 1), ("q2?", 2), ("q3?", 3), ("own?", 4)):
        result = face.invoke(graph, given, CFG, durability=durability)
        assert questions(result) == [question]
        given = Command(resume=answer)
    assert face.invoke(graph, given, CFG, durability=durability)["log"] == ["q1=1", 2, 3, "c3", "own=4"]
    assert marks.count("q1") == marks.count("c3") == 1


def test_a_node_may_ask_itself_before_and_after_the_graph_it_calls(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()

    def node(state):
        first = interrupt("first?")
        middle = inner.invoke({"log": []})["log"]
        return {"log": [first, *middle, interrupt("last?")]}

    graph = chain(n=node).compile(backend.make())
    given = {"log": []}
    for question, answer in (("first?", 1), ("c2?", 2), ("last?", 3)):
        assert questions(face.invoke(graph, given, CFG)) == [question]
        given = Command(resume=answer)
    assert face.invoke(graph, given, CFG)["log"] == [1, "c1", "c2=2", 3]
    assert marks.count("c1") == marks.count("c2") == 1


def test_two_graphs_of_one_node_ask_one_after_the_other(face, backend):
    """As LangGraph's users know it: the first one gives its stored result, without running its nodes again."""
    marks = Marks()
    one, two = (chain(**{name: asking(marks, name)}).compile() for name in ("one", "two"))

    def node(state):
        return {"log": [*one.invoke({"log": []})["log"], *two.invoke({"log": []})["log"]]}

    graph = chain(n=node).compile(backend.make())
    assert questions(face.invoke(graph, {"log": []}, CFG)) == ["one?"]
    assert questions(face.invoke(graph, Command(resume="A"), CFG)) == ["two?"]
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["one=A", "two=B"]
    assert marks.count("one") == marks.count("two") == 1


def test_a_loop_over_a_graph_that_asks_asks_in_every_round(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()

    def node(state):
        return {"log": [inner.invoke({"log": []})["log"][1] for _ in range(4)]}

    graph = chain(n=node).compile(backend.make())
    ids, given = set(), {"log": []}
    for number in range(4):
        (question,) = face.invoke(graph, given, CFG)["__interrupt__"]
        ids.add(question.id)
        given = Command(resume=number)
    assert face.invoke(graph, given, CFG)["log"] == ["c2=0", "c2=1", "c2=2", "c2=3"]
    assert len(ids) == 4
    assert marks.count("c1") == marks.count("c2") == 4


# --- several at once --------------------------------------------------------------------------------------------------


def two_inside(marks):
    """A graph whose two nodes ask at the same time."""
    return parallel(left=asking(marks, "left"), right=asking(marks, "right")).compile()


def test_one_answer_for_two_questions_of_one_graph_is_refused(face, backend):
    """LangGraph took one answer for two pauses of one task."""
    marks = Marks()
    graph = chain(sub=two_inside(marks)).compile(backend.make())
    assert questions(face.invoke(graph, {"log": []}, CFG)) == ["left?", "right?"]
    with pytest.raises(UnknownInterruptError, match="2 interrupts are open"):
        face.invoke(graph, Command(resume="yes"), CFG)
    assert marks.count("left") == marks.count("right") == 0


@DURABILITIES
def test_several_questions_inside_are_answered_together(face, backend, durability):
    marks = Marks()
    graph = chain(sub=two_inside(marks)).compile(backend.make())
    ids = asked(face.invoke(graph, {"log": []}, CFG, durability=durability)["__interrupt__"])
    answers = Command(resume={ids["left?"]: 1, ids["right?"]: 2})
    assert face.invoke(graph, answers, CFG, durability=durability)["log"] == ["left=1", "right=2"]
    assert marks.count("left") == marks.count("right") == 1


@DURABILITIES
@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")], ids="-".join)
def test_several_questions_inside_are_answered_one_by_one_in_any_order(face, backend, durability, order):
    marks = Marks()
    graph = chain(sub=two_inside(marks)).compile(backend.make())
    ids = asked(face.invoke(graph, {"log": []}, CFG, durability=durability)["__interrupt__"])
    first, second = order
    result = face.invoke(graph, Command(resume={ids[f"{first}?"]: first.upper()}), CFG, durability=durability)
    assert questions(result) == [f"{second}?"]
    assert [one.id for one in face.get_state(graph, CFG).interrupts] == [ids[f"{second}?"]]
    result = face.invoke(graph, Command(resume=second.upper()), CFG, durability=durability)
    assert result["log"] == ["left=LEFT", "right=RIGHT"]
    assert marks.count("left") == marks.count("right") == 1


@DURABILITIES
def test_graphs_in_parallel_sends_ask_at_once_and_are_answered_in_any_order(face, backend, durability):
    marks = Marks()

    def ask(state):
        marks(f"asked {state['number']}")
        return {"log": [f"{state['number']}={interrupt(state['number'])}"]}

    inner = chain(Part, pre=lambda s: marks(f"pre {s['number']}"), ask=ask).compile()
    graph = map_of(4, inner).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG, durability=durability)["__interrupt__"])
    assert sorted(ids) == [0, 1, 2, 3]
    result = face.invoke(graph, Command(resume={ids[2]: "C"}), CFG, durability=durability)
    assert sorted(questions(result)) == [0, 1, 3]
    result = face.invoke(graph, Command(resume={ids[3]: "D", ids[0]: "A"}), CFG, durability=durability)
    assert questions(result) == [1]
    result = face.invoke(graph, Command(resume="B"), CFG, durability=durability)
    assert result["log"] == ["0=A", "1=B", "2=C", "3=D"]
    assert [marks.count(f"pre {n}") for n in range(4)] == [1] * 4
    assert [marks.count(f"asked {n}") for n in range(4)] == [2] * 4


def test_a_graph_and_a_plain_node_ask_at_once(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "inner")).compile()
    graph = parallel(plain=asking(marks, "plain"), sub=fresh(inner)).compile(backend.make())
    ids = asked(face.invoke(graph, {"log": []}, CFG)["__interrupt__"])
    assert face.invoke(graph, Command(resume={ids["inner?"]: 1}), CFG)["__interrupt__"][0].id == ids["plain?"]
    assert face.invoke(graph, Command(resume={ids["plain?"]: 2}), CFG)["log"] == ["plain=2", "c1", "inner=1"]
    assert marks.count("c1") == 1


def test_graphs_at_the_same_time_in_one_async_node_ask_at_once(face, backend):
    """The first one that asks ends `gather`; the others are heard all the same."""
    marks = Marks()

    async def ask(state):
        await asyncio.sleep(0.01 * state["other"])
        marks(state["other"])
        return {"log": [interrupt(state["other"])]}

    inner = chain(pre=lambda s: marks("pre"), ask=ask).compile()

    async def node(state):
        found = await asyncio.gather(*(inner.ainvoke({"other": n}) for n in range(3)))
        return {"log": [result["log"] for result in found]}

    graph = chain(n=node).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert sorted(ids) == [0, 1, 2]
    result = face.invoke(graph, Command(resume={ids[1]: "B", ids[0]: "A", ids[2]: "C"}), CFG)
    assert result["log"] == [["A"], ["B"], ["C"]]
    assert marks.count("pre") == 3


def test_graphs_at_the_same_time_in_os_threads_of_one_node_ask_at_once(face, backend):
    marks = Marks()
    inner = chain(pre=lambda s: marks("pre"), ask=lambda s: {"log": [interrupt(s["other"])]}).compile()

    def node(state):
        return {"log": in_os_threads([lambda n=n: inner.invoke({"other": n})["log"] for n in range(3)])}

    graph = chain(n=node).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert sorted(ids) == [0, 1, 2]
    assert questions(face.invoke(graph, Command(resume={ids[1]: "B"}), CFG)) != [1]
    left = asked(face.get_state(graph, CFG).interrupts)
    result = face.invoke(graph, Command(resume={left[0]: "A", left[2]: "C"}), CFG)
    assert result["log"] == [["A"], ["B"], ["C"]]
    assert marks.count("pre") == 3


def test_calls_that_come_in_another_order_after_a_resume_find_their_own_graphs(face, backend):
    """Who is first depends on the network; each call goes on with what it did before, told by its input."""
    marks, order = Marks(), [[0, 1, 2]]

    def node(state):
        results = {}
        for n in order[0]:
            try:
                results[n] = inner.invoke({"other": n})["log"]
            except GraphInterrupt:
                continue  # the node stops at its end all the same
        return {"log": [results[n] for n in sorted(results)]}

    inner = chain(pre=lambda s: marks(f"pre {s['other']}"), ask=lambda s: {"log": [s["other"], interrupt(s["other"])]})
    inner = inner.compile()
    graph = chain(n=node).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    order[0] = [2, 0, 1]
    assert asked(face.invoke(graph, Command(resume={ids[1]: "B"}), CFG)["__interrupt__"]) == {0: ids[0], 2: ids[2]}
    order[0] = [1, 2, 0]
    result = face.invoke(graph, Command(resume={ids[0]: "A", ids[2]: "C"}), CFG)
    assert result["log"] == [[0, "A"], [1, "B"], [2, "C"]]
    assert [marks.count(f"pre {n}") for n in range(3)] == [1, 1, 1]


def test_a_call_whose_input_is_another_one_after_a_resume_goes_on_all_the_same(face, backend):
    """The clock, say: it is told by its place."""
    marks, times = Marks(), iter(range(100))
    inner = chain(c1=lambda s: marks("c1") or {"log": [s["other"]]}, c2=asking(marks, "c2")).compile()

    def node(state):
        first = inner.invoke({"other": next(times)})["log"]
        return {"log": [first, inner.invoke({"other": next(times)})["log"]]}

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume="A"), CFG)
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == [[0, "c2=A"], [2, "c2=B"]]
    assert marks.count("c1") == 2


# --- breakpoints inside -----------------------------------------------------------------------------------------------


@DURABILITIES
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
def test_a_breakpoint_inside_stops_the_whole_run(face, backend, durability, when, levels):
    marks = Marks()
    place = {"interrupt_before": ["c2"], "interrupt_after": ["c1"]}[when]
    inner = chain(c1=working(marks, "c1"), c2=working(marks, "c2")).compile(**{when: place})
    for _ in range(levels - 1):
        inner = chain(middle=fresh(inner)).compile()
    graph = chain(a=lambda s: marks("a"), sub=calling(face, inner), z=working(marks, "z")).compile(backend.make())
    first = face.invoke(graph, {"log": []}, CFG, durability=durability)
    assert first == {"log": []}
    assert marks.seen == ["a", "c1"]
    shown = face.get_state(graph, CFG, subgraphs=True)
    assert shown.next == ("sub",)
    bottom = shown.tasks[0].state
    for _ in range(levels - 1):
        bottom = bottom.tasks[0].state
    assert bottom.next == ("c2",)
    assert face.invoke(graph, None, CFG, durability=durability)["log"] == ["c1", "c2", "z"]
    assert marks.seen == ["a", "c1", "c2", "z"]


def test_a_breakpoint_inside_shows_in_the_stream_of_the_root(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=working(marks, "c2")).compile(interrupt_before=["c2"])
    graph = chain(sub=inner).compile(backend.make())
    assert face.stream(graph, {"log": []}, CFG) == [{"__interrupt__": ()}]
    assert face.stream(graph, None, CFG) == [{"sub": {"log": ["c1", "c2"]}}]


def test_a_sibling_of_a_graph_at_a_breakpoint_keeps_its_result(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=working(marks, "c2")).compile(interrupt_before="*")
    graph = parallel(other=working(marks, "other"), sub=inner).compile(backend.make())
    for _ in range(2):
        assert face.invoke(graph, None if marks.seen else {"log": []}, CFG)["log"] == ["other"]
    assert face.invoke(graph, None, CFG)["log"] == ["other", "c1", "c2"]
    assert sorted(marks.seen) == ["c1", "c2", "other"]


# --- bad answers, swallowed interrupts --------------------------------------------------------------------------------


@DURABILITIES
@pytest.mark.parametrize("levels", [1, 2])
def test_an_answer_that_does_not_fit_is_void_and_the_question_open_again(face, backend, durability, levels):
    marks = Marks()

    def ask(state):
        return {"log": [interrupt("how many?", response_schema=int)]}

    inner = chain(c1=working(marks, "c1"), c2=ask).compile()
    for _ in range(levels - 1):
        inner = chain(middle=fresh(inner)).compile()
    graph = chain(sub=calling(face, inner)).compile(backend.make())
    (first,) = face.invoke(graph, {"log": []}, CFG, durability=durability)["__interrupt__"]
    with pytest.raises(InvalidValueError, match="does not fit"):
        face.invoke(graph, Command(resume="many"), CFG, durability=durability)
    assert [one.id for one in face.get_state(graph, CFG).interrupts] == [first.id]
    assert face.invoke(graph, Command(resume=3), CFG, durability=durability)["log"] == ["c1", 3]
    assert marks.count("c1") == 1


@pytest.mark.parametrize("how", ["except", "gather"])
def test_a_question_inside_that_the_node_swallows_stops_the_run_all_the_same(face, backend, how):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()

    async def node(state):
        if how == "gather":
            (found,) = await asyncio.gather(inner.ainvoke({"log": []}), return_exceptions=True)
        else:
            try:
                found = await inner.ainvoke({"log": []})
            except GraphInterrupt as error:
                found = error
        return {"log": found["log"] if isinstance(found, dict) else ["swallowed"]}

    graph = chain(n=node).compile(backend.make())
    assert questions(face.invoke(graph, {"log": []}, CFG)) == ["c2?"]
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["c1", "c2=1"]
    assert marks.count("c1") == 1


def test_an_exception_group_of_questions_is_no_failure(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()

    async def node(state):
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(inner.ainvoke({"log": []}))]
        return {"log": jobs[0].result()["log"]}

    graph = chain(n=node).compile(backend.make())
    assert questions(face.invoke(graph, {"log": []}, CFG)) == ["c2?"]
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["c1", "c2=1"]


def test_a_graph_that_runs_on_after_its_node_asked_is_waited_for(face, backend):
    """Its result is stored before the run gives the thread back, so it does not run again."""
    marks = Marks()

    async def slow(state):
        await asyncio.sleep(0.05)
        marks("slow")
        return {"log": ["slow"]}

    quick, late = chain(q=asking(marks, "quick")).compile(), chain(s=slow).compile()

    async def node(state):
        found = await asyncio.gather(quick.ainvoke({"log": []}), late.ainvoke({"log": []}))
        return {"log": [*found[0]["log"], *found[1]["log"]]}

    graph = chain(n=node).compile(backend.make())

    async def main():
        first = await graph.ainvoke({"log": []}, CFG)
        assert marks.count("slow") == 1
        second = await graph.ainvoke(Command(resume=1), CFG)
        return first, second

    first, second = asyncio.run(main())
    assert questions(first) == ["quick?"]
    assert second["log"] == ["quick=1", "slow"]
    assert marks.count("slow") == 1


def test_new_input_for_a_run_that_waits_inside_may_abandon_it(face, backend):
    marks = Marks()
    graph = chain(sub=chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    assert questions(face.invoke(graph, {"log": []}, CFG, on_unfinished="abandon")) == ["c2?"]
    assert marks.count("c1") == 2
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["c1", "c2=1"]


def test_a_graph_without_a_checkpointer_above_it_cannot_ask(face):
    from durable_graph.errors import NoCheckpointerError

    inner = chain(c=asking(Marks(), "c")).compile()
    with pytest.raises(NoCheckpointerError, match="can never go on"):
        face.invoke(chain(sub=inner).compile(), {"log": []})


def test_an_async_node_that_asks_inside_may_be_called_from_both_faces(face, backend):
    async def ask(state):
        await asyncio.sleep(0)
        return {"log": [interrupt("q?")]}

    inner = StateGraph(Log).add_node("ask", ask).set_entry_point("ask").compile()
    graph = chain(sub=afresh(inner)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == [1]
