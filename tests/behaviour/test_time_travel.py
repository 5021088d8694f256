"""Going on from old checkpoints: branches, what they share and what they never see.

The matrix of all starting points is in `test_time_travel_matrix`.
"""

import asyncio

import pytest

from durable_graph import END, START, Command, Send, StateGraph, interrupt, once
from durable_graph.errors import (
    ThreadBusy,
    UnknownInterruptError,
    UnknownNodeError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, chain, dump, history, log, parallel, thread
from tests.behaviour.travelling import asking, where

CFG = thread()


# --- the same question, answered differently -------------------------------------------------------------------------


def test_one_question_answered_twice_gives_two_branches_and_the_head_is_the_last(face, backend):
    marks = Marks()
    builder = asking(marks)
    graph = builder.compile(backend.make())
    [asked] = face.invoke(graph, {"log": ["in"]}, CFG)["__interrupt__"]
    waiting = face.get_state(graph, CFG).config
    assert log(face.invoke(graph, Command(resume="first"), waiting)) == ["in", "a", "b:first", "c"]
    first = history(face, graph)
    other = builder.compile(backend.reopen())
    assert log(face.invoke(other, Command(resume="second"), waiting)) == ["in", "a", "b:second", "c"]
    assert log(face.invoke(graph, Command(resume={asked.id: "third"}), waiting)) == ["in", "a", "b:third", "c"]
    assert log(face.get_state(graph, CFG).values) == ["in", "a", "b:third", "c"]
    shown = history(face, graph)
    assert shown[: len(first)] == first
    ends = [log(one.values)[2] for one in shown if not one.next]
    assert ends == ["b:first", "b:second", "b:third"]
    assert marks.count("a") == 1


def test_a_replay_asks_again_under_the_same_id_and_each_branch_keeps_its_answer(face, backend):
    graph = asking(Marks()).compile(backend.make())
    [asked] = face.invoke(graph, {"log": []}, CFG)["__interrupt__"]
    waiting = face.get_state(graph, CFG).config
    face.invoke(graph, Command(resume="yes"), CFG)
    again = face.invoke(graph, None, waiting)
    assert again["__interrupt__"] == [asked]
    assert face.get_state(graph, CFG).next == ("b",)
    assert log(face.invoke(graph, Command(resume={asked.id: "no"}), CFG)) == ["a", "b:no", "c"]
    told = [task.answered for one in history(face, graph) for task in one.tasks if task.name == "b"]
    assert told == [(asked.id,), (asked.id,)]


@pytest.mark.parametrize("answer", [None, "", 0, False, {}, []], ids=repr)
def test_a_falsy_answer_on_a_branch_is_an_answer(face, backend, answer):
    got = []
    graph = chain(ask=lambda state: got.append(interrupt("?"))).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG).config
    face.invoke(graph, Command(resume="first"), CFG)
    face.invoke(graph, Command(resume=answer), waiting)
    assert got == ["first", answer]
    assert type(got[1]) is type(answer)


def test_on_a_branch_of_several_questions_some_can_be_answered_and_the_rest_asks_again(face, backend):
    def ask(name):
        return lambda state: {"log": [f"{name}:{interrupt(name)}"]}

    graph = parallel(x=ask("x"), y=ask("y")).compile(backend.make())
    asked = {one.value: one.id for one in face.invoke(graph, {}, CFG)["__interrupt__"]}
    waiting = face.get_state(graph, CFG).config
    face.invoke(graph, Command(resume={asked["x"]: 1, asked["y"]: 1}), CFG)
    with pytest.raises(UnknownInterruptError, match="2 interrupts are open"):
        face.invoke(graph, Command(resume="which?"), waiting)
    half = face.invoke(graph, Command(resume={asked["x"]: 2}), waiting)
    assert ([one.value for one in half["__interrupt__"]], half["log"]) == (["y"], ["x:2"])
    assert log(face.invoke(graph, Command(resume=3), CFG)) == ["x:2", "y:3"]


def test_on_a_branch_of_a_node_that_asked_twice_the_first_answer_is_asked_for_by_its_id(face, backend):
    def ask(state):
        return {"log": [interrupt("one"), interrupt("two")]}

    graph = chain(ask=ask).compile(backend.make())
    [one] = face.invoke(graph, {}, CFG)["__interrupt__"]
    waiting = face.get_state(graph, CFG).config
    [two] = face.invoke(graph, Command(resume="a"), CFG)["__interrupt__"]
    face.invoke(graph, Command(resume="b"), CFG)
    only_first = face.invoke(graph, Command(resume={one.id: "A"}), waiting)
    assert [asked.id for asked in only_first["__interrupt__"]] == [two.id]
    assert log(face.invoke(graph, Command(resume={one.id: "A", two.id: "B"}), waiting)) == ["A", "B"]
    assert log(face.get_state(graph, CFG).values) == ["A", "B"]


def test_an_answer_to_a_question_the_branch_does_not_ask_is_an_error_and_never_dropped(face, backend):
    question = ["old"]
    graph = chain(ask=lambda state: {"log": [interrupt(question[0])]}).compile(backend.make())
    [asked] = face.invoke(graph, {}, CFG)["__interrupt__"]
    waiting = face.get_state(graph, CFG).config
    face.invoke(graph, Command(resume="yes"), CFG)
    question[0] = "new"
    with pytest.raises(Exception, match=asked.id):
        face.invoke(graph, Command(resume={asked.id: "yes"}), waiting)


def test_a_branch_that_was_answered_may_ask_in_a_later_step_of_the_same_node(face, backend):
    def ask(state):
        return {"log": [interrupt(f"question {len(state['log'])}")]}

    builder = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: "ask" if len(state["log"]) < 3 else END, ["ask", END])
    graph = builder.compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    waiting = face.get_state(graph, CFG).config
    for answer in "abc":
        face.invoke(graph, Command(resume=answer), CFG)
    [second] = face.invoke(graph, Command(resume="A"), waiting)["__interrupt__"]
    assert second.value == "question 1"
    face.invoke(graph, Command(resume="B"), CFG)
    assert face.invoke(graph, Command(resume="C"), CFG)["log"] == ["A", "B", "C"]


def test_updates_and_routes_of_a_command_apply_on_the_branch_alone(face, backend):
    graph = asking(Marks()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    waiting = face.get_state(graph, CFG).config
    face.invoke(graph, Command(resume="yes"), CFG)
    before = history(face, graph)
    done = face.invoke(graph, Command(resume="no", update={"other": "told"}, goto="c"), waiting)
    assert (done["log"], done["other"]) == (["a", "b:no", "c", "c"], "told")
    assert history(face, graph)[: len(before)] == before
    assert "other" not in where(before, next=()).values


# --- branches of branches --------------------------------------------------------------------------------------------


def test_forks_of_forks_go_on_from_what_their_own_branch_did(face, backend):
    graph = asking(Marks()).compile(backend.make())
    face.invoke(graph, {"log": ["1"]}, CFG)
    face.invoke(graph, Command(resume="1"), CFG)
    after_b = where(history(face, graph), next=("c",))
    second = face.update_state(graph, after_b.config, {"log": ["2"]})
    face.invoke(graph, None, second)
    third = face.update_state(graph, second, {"log": ["3"]})
    assert log(face.invoke(graph, None, third)) == ["1", "a", "b:1", "2", "3", "c"]
    assert log(face.invoke(graph, None, second)) == ["1", "a", "b:1", "2", "c"]
    assert log(face.invoke(graph, None, after_b.config)) == ["1", "a", "b:1", "c"]
    ends = [log(one.values) for one in history(face, graph) if not one.next]
    assert [len(one) for one in ends] == [4, 5, 6, 5, 4]


def test_the_lineage_of_a_checkpoint_goes_across_lanes_back_to_its_input(face, backend):
    graph = asking(Marks()).compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    face.invoke(graph, Command(resume="x"), CFG)
    for _ in range(3):
        newest = where(history(face, graph)[::-1], next=("c",))
        face.invoke(graph, None, newest.config)
    head = face.get_state(graph, CFG)
    line = face.get_state_history(graph, head.config)
    assert [one.metadata["source"] for one in line] == ["loop", "fork", "fork", "fork", "loop", "loop", "loop", "input"]
    assert [one.parent_config for one in line] == [*(one.config for one in line[1:]), None]
    assert line[0] == face.get_state(graph, head.config)
    everything = face.get_state_history(graph, CFG)
    assert [one for one in everything if one in line] == line
    assert face.get_state_history(graph, head.config, limit=2) == line[:2]
    assert face.get_state_history(graph, head.config, filter={"source": "input"}) == line[-1:]


def test_the_first_checkpoint_of_a_fork_can_be_forked_and_so_can_the_input_of_a_second_turn(face, backend):
    graph = asking(Marks()).compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    face.invoke(graph, None, history(face, graph)[0].config)
    fork = where(history(face, graph), source="fork")
    assert (fork.next, fork.tasks[0].result) == ((START,), {"log": ["in"]})
    assert log(face.invoke(graph, None, fork.config)) == ["in", "a"]
    assert log(face.invoke(graph, Command(resume="y"), CFG)) == ["in", "a", "b:y", "c"]
    face.invoke(graph, {"log": ["more"]}, CFG)
    second = [one for one in history(face, graph) if one.metadata["source"] == "input"][-1]
    assert log(face.invoke(graph, None, second.config)) == ["in", "a", "b:y", "c", "more", "a"]


def test_new_input_on_an_old_checkpoint_is_a_branch_that_starts_there(face, backend):
    marks = Marks()
    graph = asking(marks).compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    face.invoke(graph, Command(resume="x"), CFG)
    before = history(face, graph)
    after_a = where(before, next=("b",))
    marks.seen.clear()
    waits = face.invoke(graph, {"log": ["new"]}, after_a.config)
    assert (log(waits), marks.seen) == (["in", "a", "new", "a"], ["a", "b"])
    shown = history(face, graph)
    assert shown[: len(before)] == before
    made = shown[len(before) :]
    assert [one.metadata["source"] for one in made] == ["input", "loop", "loop"]
    assert [one.metadata["step"] for one in made] == [2, 3, 4]
    assert made[0].parent_config == after_a.config
    assert log(face.invoke(graph, Command(resume="z"), CFG)) == ["in", "a", "new", "a", "b:z", "c"]


def test_going_on_at_the_end_of_an_older_branch_is_a_branch_too(face, backend):
    graph = asking(Marks()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    old = face.get_state(graph, CFG)
    face.invoke(graph, None, history(face, graph)[1].config)
    newer = face.get_state(graph, CFG)
    before = history(face, graph)
    assert log(face.invoke(graph, Command(resume="old"), old.config)) == ["a", "b:old", "c"]
    assert history(face, graph)[: len(before)] == before
    assert face.get_state(graph, newer.config) == face.get_state(graph, newer.config)
    assert where(before, config=old.config).tasks[0].interrupts == old.interrupts
    assert log(face.invoke(graph, Command(resume="new"), newer.config)) == ["a", "b:new", "c"]


def test_the_head_is_what_was_written_last_wherever_it_branched_off(face, backend):
    graph = chain(a=says("a"), b=says("b")).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    first, *_ = history(face, graph)
    for count in range(4):
        edited = face.update_state(graph, history(face, graph)[count % 3].config, {"log": [str(count)]})
        assert face.get_state(graph, CFG).config == edited
    assert log(face.invoke(graph, {"log": ["turn"]}, CFG, on_unfinished="abandon"))[:2] != []
    assert face.get_state(graph, first.config) == first


# --- what a branch never sees ----------------------------------------------------------------------------------------


def test_a_branch_sees_no_result_answer_or_recorded_step_of_another(face, backend):
    marks = Marks()

    def slow(state):
        marks("step")
        return marks.count("step")

    def ask(state):
        return {"log": [f"ask {once('step', slow, 0)} {interrupt('?')}"]}

    def beside(state):
        marks("beside")
        return {"log": [f"beside {marks.count('beside')}"]}

    graph = parallel(ask=ask, beside=beside).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG)
    assert marks.seen.count("step") == marks.seen.count("beside") == 1
    face.update_state(graph, where(history(face, graph), next=(START,)).config, {"other": 1})
    replayed = face.invoke(graph, None, waiting.config)
    assert (log(replayed), marks.count("step"), marks.count("beside")) == (["beside 2"], 2, 2)
    assert log(face.invoke(graph, Command(resume="!"), CFG)) == ["ask 2 !", "beside 2"]
    assert (marks.count("step"), marks.count("beside")) == (2, 2)
    old = next(one for one in history(face, graph) if one.config == waiting.config)
    assert [task.result for task in old.tasks] == [None, {"log": ["beside 1"]}]


def test_a_long_list_grown_on_two_branches_is_stored_apart(face, backend):
    big = [f"{n} of the first part, long enough to be stored apart" for n in range(20)]
    graph = chain(a=says(*big), b=says("b"), c=says("c")).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    before_b, before_c = (where(history(face, graph), next=(name,)) for name in "bc")
    face.invoke(graph, None, face.update_state(graph, before_b.config, {"log": ["x" * 300]}))
    face.invoke(graph, None, face.update_state(graph, before_c.config, {"log": ["y" * 300]}))
    ends = [log(one.values) for one in history(face, graph) if not one.next]
    assert ends == [[*big, "b", "c"], [*big, "x" * 300, "b", "c"], [*big, "b", "y" * 300, "c"]]
    assert face.get_state(graph, before_c.config) == before_c


def test_what_a_node_changed_in_place_on_a_branch_reaches_no_other(face, backend):
    def a(state):
        state["other"].append("a")
        return {"other": state["other"]}

    graph = chain(a=a, b=a).compile(backend.make())
    face.invoke(graph, {"other": ["in"]}, CFG)
    before = history(face, graph)
    for one in before:
        face.invoke(graph, None, one.config)
    assert history(face, graph)[: len(before)] == before
    assert [one.values["other"] for one in history(face, graph) if not one.next] == [["in", "a", "a"]] * 4


# --- breakpoints, streams, provenance, changed graphs ----------------------------------------------------------------


def test_a_replay_stops_at_breakpoints_of_its_call_and_goes_on(face, backend):
    graph = chain(a=says("a"), b=says("b"), c=says("c")).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    start, *_ = history(face, graph)
    before_b = where(history(face, graph), next=("b",))
    assert log(face.invoke(graph, None, start.config, interrupt_before=["b"])) == ["a"]
    assert face.get_state(graph, CFG).next == ("b",)
    assert log(face.invoke(graph, None, CFG)) == ["a", "b", "c"]
    assert log(face.invoke(graph, None, before_b.config, interrupt_before=["b"])) == ["a"]
    assert (face.get_state(graph, CFG).next, face.get_state(graph, CFG).metadata["source"]) == (("b",), "fork")
    assert log(face.invoke(graph, None, CFG, interrupt_before=["b"])) == ["a", "b", "c"]
    assert log(face.invoke(graph, None, before_b.config, interrupt_after=["b"])) == ["a", "b"]


def test_a_replay_streams_what_runs_on_its_branch(face, backend):
    graph = chain(a=says("a"), b=says("b")).compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    before_b = where(history(face, graph), next=("b",))
    events = face.stream(graph, None, before_b.config, stream_mode=["values", "updates", "checkpoints"])
    assert [event for event in events if event[0] == "updates"] == [("updates", {"b": {"log": ["b"]}})]
    assert [log(event[1]) for event in events if event[0] == "values"] == [["in", "a"], ["in", "a", "b"]]
    told = [event[1] for event in events if event[0] == "checkpoints"]
    shown = history(face, graph)[-2:]
    assert [one["config"] for one in told] == [one.config for one in shown]
    assert [one["metadata"]["source"] for one in told] == ["fork", "loop"]
    assert told[0]["parent_config"] == before_b.config


def test_history_tells_where_every_result_came_from(face, backend):
    tries = []

    def b(state):
        tries.append(once("look", lambda: "seen"))
        answer = interrupt("go?")
        return {"log": [answer]}

    graph = chain(a=says("a"), b=b).compile(backend.make(), version="7")
    [asked] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.invoke(graph, Command(resume="yes"), CFG)
    task = where(history(face, graph), next=("b",)).tasks[0]
    assert (task.name, task.attempt, task.answered, task.calls, task.error) == ("b", 1, (asked.id,), ("look",), None)
    assert task.started is not None
    assert task.duration is not None
    assert task.duration >= 0.0
    assert task.version == "7"
    assert task.result == {"log": ["yes"]}
    assert len(tries) == 2


def test_a_checkpoint_of_an_older_graph_is_gone_on_with_by_the_new_one(face, backend):
    face.invoke(chain(a=says("a"), b=says("b")).compile(backend.make()), {"log": []}, CFG)
    newer = chain(a=says("A"), b=says("B"), c=says("C")).compile(backend.reopen())
    before = history(face, newer)
    assert log(face.invoke(newer, None, before[0].config)) == ["A", "B", "C"]
    assert log(face.invoke(newer, None, where(before, next=("b",)).config)) == ["a", "B", "C"]
    assert history(face, newer)[: len(before)] == before


def test_a_checkpoint_whose_node_is_gone_is_refused_and_nothing_is_stored(face, backend):
    saver = backend.make()
    face.invoke(chain(a=says("a"), b=says("b")).compile(saver), {"log": []}, CFG)
    newer = chain(a=says("a"), other=says("o")).compile(backend.reopen())
    before_b = where(history(face, newer), next=("b",))
    rows = dump(saver)
    for given in (None, Command(goto="a")):
        with pytest.raises(UnknownNodeError, match="goes on at node 'b'"):
            face.invoke(newer, given, before_b.config)
    assert dump(saver) == rows
    edited = face.update_state(newer, before_b.config, {"log": ["x"]}, as_node="a")
    assert face.get_state(newer, edited).next == ("other",)


def test_sends_and_barriers_are_taken_along(face, backend):
    builder = StateGraph(Log).add_node("work", lambda n: {"log": [n]}).add_node("end", says("end"))
    for name in ("x", "y"):
        builder.add_node(name, says(name)).add_edge(START, name)
    builder.add_node("z", says("z")).add_edge("y", "z").add_edge(["x", "z"], "end")
    builder.add_conditional_edges("x", lambda state: [Send("work", n) for n in (1, 2)], ["work"])
    builder.add_edge("work", END)
    graph = builder.compile(backend.make())
    whole = face.invoke(graph, {"log": []}, CFG)
    assert log(whole) == ["x", "y", "z", 1, 2, "end"]
    for one in history(face, graph):
        assert face.invoke(graph, None, one.config) == whole


def test_travellers_on_one_loop_take_turns_or_are_told_that_the_thread_is_busy(backend):
    async def b(state):
        await asyncio.sleep(0.01)
        return {"log": ["b"]}

    graph = chain(a=says("a"), b=b).compile(backend.make())

    async def main():
        await graph.ainvoke({"log": []}, CFG)
        old = [one async for one in graph.aget_state_history(CFG)][-2].config
        return await asyncio.gather(*(graph.ainvoke(None, old) for _ in range(4)), return_exceptions=True)

    found = asyncio.run(main())
    done = [one for one in found if not isinstance(one, BaseException)]
    assert done
    assert all(one == {"log": ["a", "b"]} for one in done)
    assert all(isinstance(one, ThreadBusy) for one in found if isinstance(one, BaseException))
