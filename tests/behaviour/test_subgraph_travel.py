"""Looking into graphs inside nodes, editing them, and travelling in them."""

import itertools

import pytest

from durable_graph import Command, interrupt
from durable_graph.errors import InvalidConfigError, UnfinishedRunError, UnknownInterruptError
from durable_graph.testing.life import Crashed, Life, WatchedCheckpointer
from durable_graph.testing.playing import call_in_life
from tests.behaviour.inside import Part, asking, deep, fresh, map_of, working
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, parallel, thread

CFG = thread()


def inside(ns, **more):
    return thread(checkpoint_ns=ns, **more)


def levels(snapshot):
    """The snapshots of a snapshot, from the outermost to the innermost graph."""
    found = [snapshot]
    while found[-1].tasks and hasattr(found[-1].tasks[0].state, "values"):
        found.append(found[-1].tasks[0].state)
    return found


@pytest.fixture
def three_deep(backend):
    """A graph three levels deep that waits at the bottom, and what ran."""
    builder, marks = deep(3, lambda marks: {"pre": working(marks, "pre"), "ask": asking(marks, "ask", "q?")})
    return builder.compile(backend.make()), marks


# --- looking ----------------------------------------------------------------------------------------------------------


def test_the_live_state_shows_every_level(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    shown = levels(face.get_state(graph, CFG, subgraphs=True))
    assert [one.next for one in shown] == [("g2",), ("g1",), ("g0",), ("ask",)]
    assert [one.values["log"] for one in shown] == [["before2"], ["before1"], ["before0"], ["pre"]]
    assert [one.config["configurable"]["checkpoint_ns"] for one in shown] == ["", "g2", "g2|g1", "g2|g1|g0"]
    assert len({one.interrupts[0].id for one in shown}) == 1


def test_without_subgraphs_a_task_names_the_config_of_its_graph(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    (task,) = face.get_state(graph, CFG).tasks
    assert task.state == {"configurable": {"thread_id": "t", "checkpoint_ns": "g2"}}
    assert face.get_state(graph, task.state).next == ("g1",)


def test_the_state_of_each_level_can_be_asked_for(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    for one in levels(face.get_state(graph, CFG, subgraphs=True)):
        ns = one.config["configurable"]["checkpoint_ns"]
        assert face.get_state(graph, inside(ns)).values == one.values
        assert face.get_state(graph, one.config).values == one.values
        assert levels(face.get_state(graph, inside(ns), subgraphs=True))[-1].next == ("ask",)


def test_the_history_of_each_level_can_be_asked_for(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    face.invoke(graph, Command(resume="A"), CFG)
    trail = [(one.metadata["source"], one.metadata["step"], one.next) for one in face.get_state_history(graph, CFG)]
    assert trail[0] == ("loop", 3, ())
    for ns, last in (("g2", 3), ("g2|g1", 3), ("g2|g1|g0", 2)):
        history = face.get_state_history(graph, inside(ns))
        assert [one.metadata["step"] for one in history] == list(range(last, -2, -1))
        assert history[-1].parent_config is None
        for newer, older in itertools.pairwise(history):
            assert newer.parent_config == older.config
        limited = face.get_state_history(graph, inside(ns), limit=2, before=history[0].config)
        assert [one.config for one in limited] == [one.config for one in history[1:3]]


def test_a_historical_state_shows_what_ran_inside_at_every_level(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    face.invoke(graph, Command(resume="A"), CFG)
    (before,) = [one for one in face.get_state_history(graph, CFG) if one.next == ("g2",)]
    for ns, node, last in (("g2", "g1", "after1"), ("g2|g1", "g0", "after0"), ("g2|g1|g0", None, "ask=A")):
        _, inner = levels(face.get_state(graph, before.config, subgraphs=True))
        assert (inner.values["log"][-1], inner.next) == (last, ())
        assert inner.config["configurable"]["checkpoint_ns"] == ns
        if node:
            (before,) = [one for one in face.get_state_history(graph, inside(ns)) if one.next == (node,)]


def test_the_state_of_a_run_that_failed_inside_shows_where(face, backend):
    def fails(state):
        raise ValueError("no")

    graph = chain(sub=chain(c1=says("c1"), c2=fails).compile()).compile(backend.make())
    with pytest.raises(ValueError, match="no"):
        face.invoke(graph, {"log": []}, CFG)
    outer, inner = levels(face.get_state(graph, CFG, subgraphs=True))
    assert outer.tasks[0].error == inner.tasks[0].error == "ValueError('no')"
    assert inner.next == ("c2",)


def test_the_state_of_a_run_whose_process_died_inside_shows_how_far_the_graph_came(face, backend):
    saver, life = backend.make(), Life(1, dies_at=1, counted=frozenset({"effect"}))
    inner = chain(c1=says("c1"), c2=lambda s: life.effect("died here") or {"log": ["c2"]}).compile()
    graph = chain(a=says("a"), sub=fresh(inner)).compile(WatchedCheckpointer(saver, life))
    with pytest.raises(Crashed):
        call_in_life(life, lambda: face.invoke(graph, {"log": []}, CFG))
    again = chain(a=says("a"), sub=fresh(chain(c1=says("c1"), c2=says("c2")).compile())).compile(saver)
    shown = levels(face.get_state(again, CFG, subgraphs=True))
    assert [(one.values["log"], one.next) for one in shown] == [(["a"], ("sub",)), (["c1"], ("c2",))]
    assert face.invoke(again, None, CFG)["log"] == ["a", "c1", "c2"]


def test_parallel_graphs_are_shown_each_in_its_task(face, backend):
    inner = chain(Part, c1=lambda s: {"log": [s["number"]]}, c2=lambda s: interrupt(s["number"])).compile()
    graph = map_of(3, inner).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    shown = face.get_state(graph, CFG, subgraphs=True)
    assert [task.state.values["log"] for task in shown.tasks] == [[0], [1], [2]]
    found = [task.state.config["configurable"]["checkpoint_ns"] for task in shown.tasks]
    assert found == ["part:0", "part:1", "part:2"]
    assert face.get_state(graph, inside("part:1")).values == {"log": [1], "number": 1}


def test_the_graphs_of_one_node_can_each_be_looked_at(face, backend):
    """Also where two have different states: the checkpoint says whose it is."""
    one = chain(Part, c=lambda s: {"number": 1}).compile()
    two = chain(Log, d=lambda s: {"answer": 2}).compile()

    def node(state):
        for _ in range(2):
            one.invoke({"log": []})
        two.invoke({"log": []})

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    values = [face.get_state(graph, inside(ns)).values for ns in ("n", "n:+1", "n:+2")]
    assert values == [{"log": [], "number": 1}, {"log": [], "number": 1}, {"log": [], "answer": 2}]
    assert face.get_state_history(graph, inside("n:+2"))[0].values == {"log": [], "answer": 2}


@pytest.mark.parametrize("ns", ["nope", "sub|nope", "sub|", "|sub", "sub|deep|more", "plain"])
def test_an_unknown_namespace_is_a_clear_error(face, backend, ns):
    middle = chain(deep=chain(c=says("c")).compile()).compile()
    graph = chain(sub=middle, plain=says("p")).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    told = r"leads to no graph inside(.|\n)*'sub', 'sub\|deep'"
    with pytest.raises(InvalidConfigError, match=told):
        face.get_state(graph, inside(ns))
    with pytest.raises(InvalidConfigError, match=told):
        face.update_state(graph, inside(ns), {"log": ["x"]})
    with pytest.raises(InvalidConfigError, match=told):
        face.invoke(graph, None, inside(ns))
    with pytest.raises(InvalidConfigError, match=told):
        list(graph.get_subgraphs(namespace=ns))


def test_a_namespace_that_has_nothing_stored_yet_shows_an_empty_state(face, backend):
    graph = chain(a=says("a"), sub=chain(c=says("c")).compile()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG, interrupt_before=["sub"])
    shown = face.get_state(graph, inside("sub"))
    assert (shown.values, shown.next, shown.metadata) == ({}, (), None)
    with pytest.raises(InvalidConfigError, match="has no checkpoint of the graph 'sub' inside it"):
        face.invoke(graph, None, inside("sub"))


# --- editing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", range(4))
def test_a_waiting_graph_is_edited_at_any_level_and_the_root_goes_on_with_it(face, three_deep, level):
    graph, marks = three_deep
    face.invoke(graph, {"log": []}, CFG)
    shown = levels(face.get_state(graph, CFG, subgraphs=True))
    edited = face.update_state(graph, shown[level].config, {"log": [f"edit{level}"]})
    ns = shown[level].config["configurable"]["checkpoint_ns"]
    assert edited["configurable"]["checkpoint_ns"] == ns
    assert face.get_state(graph, edited).values["log"][-1] == f"edit{level}"
    now = face.get_state(graph, CFG, subgraphs=True)
    assert [one.value for one in now.interrupts] == ["q?"]
    assert levels(now)[level].values["log"][-1] == f"edit{level}"
    result = face.invoke(graph, Command(resume="A"), CFG)
    plain = ["before2", "before1", "before0", "pre", "ask=A", "after0", "after1", "after2"]
    assert result["log"] == [
        *plain[: min(level, 2) + 1 + (level == 3)],
        f"edit{level}",
        *plain[min(level, 2) + 1 + (level == 3) :],
    ]
    assert marks.count("pre") == marks.count("before0") == 1


def test_an_edit_inside_leaves_the_thread_waiting(face, backend):
    saver = backend.make()
    graph = chain(sub=chain(c=asking(Marks(), "c")).compile()).compile(saver)
    face.invoke(graph, {"log": []}, CFG)
    face.update_state(graph, inside("sub"), {"log": ["x"]}, as_node="c")  # the graph inside is over with it
    assert saver.load("t").thread.status == "waiting"
    with pytest.raises(UnfinishedRunError):
        face.invoke(graph, {"log": []}, CFG)
    assert face.invoke(graph, None, CFG)["log"] == ["x"]


def test_an_edit_in_the_place_of_a_waiting_node_inside_answers_for_it(face, backend):
    marks = Marks()
    graph = chain(sub=chain(c1=working(marks, "c1"), c2=asking(marks, "c2"), c3=working(marks, "c3")).compile())
    graph = graph.compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    face.update_state(graph, inside("sub"), {"log": ["by hand"]}, as_node="c2")
    assert face.invoke(graph, None, CFG)["log"] == ["c1", "by hand", "c3"]
    assert marks.count("c2") == 0


def test_an_edit_of_an_older_checkpoint_inside_is_where_the_root_goes_on(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=working(marks, "c2"), c3=asking(marks, "c3")).compile()
    graph = chain(sub=inner).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    (older,) = [one for one in face.get_state_history(graph, inside("sub")) if one.next == ("c2",)]
    face.update_state(graph, older.config, {"log": ["edit"]})
    assert levels(face.get_state(graph, CFG, subgraphs=True))[1].next == ("c2",)
    result = face.invoke(graph, None, CFG)
    assert [one.value for one in result["__interrupt__"]] == ["c3?"]
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["c1", "edit", "c2", "c3=1"]
    assert marks.count("c1") == 1


def test_an_edit_of_a_graph_of_an_earlier_turn_does_not_reach_the_one_that_waits(face, backend):
    marks = Marks()
    graph = chain(sub=chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    face.invoke(graph, Command(resume="A"), CFG)
    (older,) = [one for one in face.get_state_history(graph, inside("sub")) if one.next == ("c2",)]
    face.invoke(graph, {"log": []}, CFG)
    face.update_state(graph, older.config, {"log": ["edit"]})
    result = face.invoke(graph, Command(resume="B"), CFG)
    assert result["log"][-2:] == ["c1", "c2=B"]
    assert marks.count("c1") == 2


def test_the_right_graph_of_a_node_is_edited(face, backend):
    one = chain(Part, c=lambda s: {"number": 1}).compile()
    two = chain(Log, d=asking(Marks(), "d")).compile()

    def node(state):
        one.invoke({"log": []})
        one.invoke({"log": []})
        return {"log": two.invoke({"log": []})["log"]}

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    face.update_state(graph, inside("n:+2"), {"answer": 5, "log": ["edit"]})
    assert face.get_state(graph, inside("n:+2")).values == {"log": ["edit"], "answer": 5}
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["edit", "d=1"]


# --- travelling -------------------------------------------------------------------------------------------------------


def test_running_from_an_old_root_checkpoint_starts_the_graph_anew(face, backend):
    marks = Marks()
    graph = chain(sub=chain(c1=working(marks, "c1"), c2=working(marks, "c2")).compile(), z=says("z"))
    graph = graph.compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    (before,) = [one for one in face.get_state_history(graph, CFG) if one.next == ("sub",)]
    assert face.invoke(graph, None, before.config)["log"] == ["c1", "c2", "z"]
    assert marks.seen == ["c1", "c2"] * 2


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_running_from_a_checkpoint_inside_runs_what_comes_after_it_only(face, backend, depth):
    bottom = {"b1": "b1", "b2": "b2", "b3": "b3"}
    builder, marks = deep(depth, lambda marks: {name: working(marks, name) for name in bottom})
    graph = builder.compile(backend.make())
    whole = face.invoke(graph, {"log": []}, CFG)["log"]
    ns = "|".join(f"g{level}" for level in reversed(range(depth)))
    (place,) = [one for one in face.get_state_history(graph, inside(ns)) if one.next == ("b2",)]
    marks.seen.clear()
    assert face.invoke(graph, None, place.config)["log"] == whole
    assert marks.seen == ["b2", "b3", *(f"after{level}" for level in range(depth))]
    assert face.get_state(graph, CFG).values["log"] == whole


def test_running_from_a_checkpoint_of_a_middle_level_runs_the_graphs_below_anew(face, backend):
    builder, marks = deep(2, lambda marks: {"b1": working(marks, "b1")})
    graph = builder.compile(backend.make())
    whole = face.invoke(graph, {"log": []}, CFG)["log"]
    (place,) = [one for one in face.get_state_history(graph, inside("g1")) if one.next == ("g0",)]
    marks.seen.clear()
    assert face.invoke(graph, None, place.config)["log"] == whole
    assert marks.seen == ["b1", "after0", "after1"]


def test_an_edited_checkpoint_inside_is_run_from(face, backend):
    marks = Marks()
    graph = chain(sub=fresh(chain(c1=working(marks, "c1"), c2=working(marks, "c2")).compile()), z=working(marks, "z"))
    graph = graph.compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    (place,) = [one for one in face.get_state_history(graph, inside("sub")) if one.next == ("c2",)]
    edited = face.update_state(graph, place.config, {"log": ["edit"]})
    marks.seen.clear()
    assert face.invoke(graph, None, edited)["log"] == ["c1", "edit", "c2", "z"]
    assert marks.seen == ["c2", "z"]
    assert face.invoke(graph, None, place.config)["log"] == ["c1", "c2", "z"]


def test_another_answer_on_an_old_root_checkpoint(face, three_deep):
    graph, marks = three_deep
    face.invoke(graph, {"log": []}, CFG)
    first = face.invoke(graph, Command(resume="A"), CFG)["log"]
    (before,) = [one for one in face.get_state_history(graph, CFG) if one.next == ("g2",)]
    marks.seen.clear()
    second = face.invoke(graph, Command(resume="B"), before.config)["log"]
    assert first == [word if word != "ask=B" else "ask=A" for word in second]
    assert "ask=B" in second
    assert marks.seen == ["ask began", "ask", "after0", "after1", "after2"]
    assert face.invoke(graph, Command(resume="C"), before.config)["log"][4] == "ask=C"
    assert face.get_state(graph, CFG).values["log"][4] == "ask=C"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_another_answer_on_a_checkpoint_inside(face, three_deep, level):
    graph, marks = three_deep
    face.invoke(graph, {"log": []}, CFG)
    shown = levels(face.get_state(graph, CFG, subgraphs=True))
    first = face.invoke(graph, Command(resume="A"), CFG)["log"]
    marks.seen.clear()
    second = face.invoke(graph, Command(resume="B"), shown[level].config)["log"]
    assert second == ["ask=B" if word == "ask=A" else word for word in first]
    assert marks.seen == ["ask began", "ask", "after0", "after1", "after2"]


def test_each_of_two_questions_inside_can_be_answered_anew(face, backend):
    marks = Marks()
    inner = chain(c1=asking(marks, "q1"), c2=working(marks, "c2"), c3=asking(marks, "q3")).compile()
    graph = chain(sub=inner, z=working(marks, "z")).compile(backend.make())
    ids = asked(face.invoke(graph, {"log": []}, CFG)["__interrupt__"])
    ids |= asked(face.invoke(graph, Command(resume="A"), CFG)["__interrupt__"])
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["q1=A", "c2", "q3=B", "z"]
    (before,) = [one for one in face.get_state_history(graph, CFG) if one.next == ("sub",)]
    marks.seen.clear()
    assert face.invoke(graph, Command(resume={ids["q3?"]: "C"}), before.config)["log"] == ["q1=A", "c2", "q3=C", "z"]
    assert marks.seen == ["q3 began", "q3", "z"]
    marks.seen.clear()
    result = face.invoke(graph, Command(resume={ids["q1?"]: "D"}), before.config)
    assert [one.value for one in result["__interrupt__"]] == ["q3?"]
    assert marks.seen == ["q1 began", "q1", "c2", "q3 began"]
    assert face.invoke(graph, Command(resume="E"), CFG)["log"] == ["q1=D", "c2", "q3=E", "z"]
    both = Command(resume={ids["q1?"]: "F", ids["q3?"]: "G"})
    result = face.invoke(graph, both, before.config)
    result = result if "__interrupt__" not in result else face.invoke(graph, Command(resume="G"), CFG)
    assert result["log"] == ["q1=F", "c2", "q3=G", "z"]


def test_an_answer_on_a_checkpoint_inside_is_for_what_is_asked_there(face, backend):
    marks = Marks()
    inner = chain(c1=asking(marks, "q1"), c2=asking(marks, "q2")).compile()
    graph = chain(sub=inner).compile(backend.make())
    for given in ({"log": []}, Command(resume="A"), Command(resume="B")):
        result = face.invoke(graph, given, CFG)
    assert result["log"] == ["q1=A", "q2=B"]
    by_next = {one.next: one.config for one in face.get_state_history(graph, inside("sub"))}
    assert face.invoke(graph, Command(resume="C"), by_next[("c2",)])["log"] == ["q1=A", "q2=C"]
    result = face.invoke(graph, Command(resume="D"), by_next[("c1",)])
    assert [one.value for one in result["__interrupt__"]] == ["q2?"]
    assert face.invoke(graph, Command(resume="E"), CFG)["log"] == ["q1=D", "q2=E"]
    with pytest.raises(UnknownInterruptError, match="nothing to resume"):
        face.invoke(graph, Command(resume="F"), by_next[("__start__",)])


def test_an_answer_for_the_graph_that_waits_is_no_branch(face, backend):
    """Naming the graph inside, where the thread stands, is the same as naming the thread."""
    marks = Marks()
    graph = chain(sub=chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    task = face.get_state(graph, CFG).tasks[0]
    assert face.invoke(graph, Command(resume="A"), task.state)["log"] == ["c1", "c2=A"]
    assert [one.metadata["source"] for one in face.get_state_history(graph, CFG)] == ["loop", "loop", "input"]
    face.invoke(graph, {"log": []}, CFG)
    newest = face.get_state(graph, inside("sub")).config
    assert face.invoke(graph, Command(resume="B"), newest)["log"][-1] == "c2=B"
    assert "fork" not in [one.metadata["source"] for one in face.get_state_history(graph, CFG)]


def test_two_branches_that_wait_inside_are_answered_each_for_itself(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()
    graph = chain(a=says("a"), sub=fresh(inner)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    waiting, before, _ = face.get_state_history(graph, CFG)
    fork = face.update_state(graph, before.config, {"log": ["fork"]})
    result = face.invoke(graph, None, fork)
    assert [one.value for one in result["__interrupt__"]] == ["c2?"]
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["fork", "a", "c1", "c2=B"]
    assert face.invoke(graph, Command(resume="A"), waiting.config)["log"] == ["a", "c1", "c2=A"]
    assert marks.count("c1") == 2


def test_an_edit_of_the_root_while_a_graph_waits_keeps_what_the_graph_did(face, backend):
    marks = Marks()
    inner = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()
    graph = chain(a=says("a"), sub=fresh(inner)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    for word in ("one", "two"):
        face.update_state(graph, CFG, {"log": [word]}, as_node="a")
    assert levels(face.get_state(graph, CFG, subgraphs=True))[1].next == ("c2",)
    assert face.invoke(graph, Command(resume="A"), CFG)["log"] == ["a", "one", "two", "c1", "c2=A"]
    assert marks.count("c1") == 1


def test_a_sibling_that_finished_is_not_run_again_by_another_answer_inside(face, backend):
    """Its node is, as on every branch; the graph it called is not."""
    marks = Marks()
    done = chain(d=working(marks, "done")).compile()
    waits = chain(c1=working(marks, "c1"), c2=asking(marks, "c2")).compile()
    graph = parallel(done=fresh(done), waits=fresh(waits)).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    face.invoke(graph, Command(resume="A"), CFG)
    (before,) = [one for one in face.get_state_history(graph, CFG) if one.next == ("done", "waits")]
    assert face.invoke(graph, Command(resume="B"), before.config)["log"] == ["done", "c1", "c2=B"]
    assert marks.count("done") == marks.count("c1") == 1


def test_a_checkpoint_id_of_another_level_is_refused(face, three_deep):
    graph, _ = three_deep
    face.invoke(graph, {"log": []}, CFG)
    shown = levels(face.get_state(graph, CFG, subgraphs=True))
    wrong = inside("g2", checkpoint_id=shown[3].config["configurable"]["checkpoint_id"])
    with pytest.raises(InvalidConfigError, match="has no checkpoint"):
        face.invoke(graph, None, wrong)
    with pytest.raises(InvalidConfigError, match="has no checkpoint"):
        face.update_state(graph, wrong, {"log": ["x"]})
