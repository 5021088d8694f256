"""Editing a thread that waits: its questions, what siblings did and what was recorded go along with what still runs."""

import pytest

from durable_graph import END, START, Command, Send, StateGraph, StateUpdate, get_runtime, interrupt, once
from durable_graph.errors import UnknownInterruptError
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, log, parallel, thread

CFG = thread()
DURABILITIES = ("sync", "async", "exit")


def asks(name, marks=None, shows=None):
    """A node that asks; `shows` is a key whose value the question shows."""

    def node(state):
        if marks is not None:
            marks(name)
        shown = "" if shows is None else f" with {state.get(shows)}"
        return {"log": [f"{name}:{interrupt(f'{name}?{shown}')}"]}

    return node


def marked(name, marks):
    return lambda state: marks(name) or {"log": [name]}


def state_of(face, graph):
    return face.get_state(graph, CFG)


# --- as the node before ---


@pytest.mark.parametrize("durability", DURABILITIES)
def test_the_question_stays_listed_and_its_answer_arrives(face, backend, durability):
    builder = chain(a=says("a"), b=asks("b"), c=says("c"))
    graph = builder.compile(backend.make())
    [before] = face.invoke(graph, {}, CFG, durability=durability)["__interrupt__"]
    face.update_state(graph, CFG, {"other": "note"})
    other = builder.compile(backend.reopen())
    for state in (state_of(face, other), face.get_state_history(other, CFG)[0]):
        assert (state.interrupts, state.next, state.values["other"]) == ((before,), ("b",), "note")
    assert face.invoke(other, None, CFG, durability=durability)["__interrupt__"] == [before]
    done = face.invoke(other, Command(resume={before.id: "yes"}), CFG, durability=durability)
    assert (log(done), done["other"]) == (["a", "b:yes", "c"], "note")


def test_the_answer_arrives_by_the_old_id_when_the_question_shows_what_was_edited(face, backend):
    graph = chain(a=says("a"), b=asks("b", shows="other")).compile(backend.make())
    [before] = face.invoke(graph, {"other": "old"}, CFG)["__interrupt__"]
    assert before.value == "b? with old"
    face.update_state(graph, CFG, {"other": "new"})
    face.update_state(graph, CFG, {"other": "newer"})
    assert log(face.invoke(graph, Command(resume={before.id: "yes"}), CFG)) == ["a", "b:yes"]


def test_a_question_with_another_key_is_another_question_and_gets_no_answer_by_its_place(face, backend):
    def node(state):
        return {"log": [interrupt("Pay?", key=state["other"])]}

    graph = chain(b=node).compile(backend.make())
    [before] = face.invoke(graph, {"other": "10 coins"}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"other": "1000 coins"}, as_node=START)
    [after] = face.invoke(graph, Command(resume={before.id: "yes"}), CFG)["__interrupt__"]
    assert (after.value, after.id != before.id) == ("Pay?", True)
    assert log(face.invoke(graph, Command(resume={after.id: "no"}), CFG)) == ["no"]


def test_the_answer_arrives_when_its_own_command_changed_what_the_question_shows(face, backend):
    graph = parallel(x=asks("x", shows="other"), y=asks("y")).compile(backend.make())
    ids = asked(face.invoke(graph, {"other": "old"}, CFG)["__interrupt__"])
    waits = face.invoke(graph, Command(resume={ids["x? with old"]: "yes"}, update={"other": "new"}), CFG)
    assert (log(waits), waits["other"], asked(waits["__interrupt__"])) == (["x:yes"], "new", {"y?": ids["y?"]})


def test_routers_of_an_edit_see_what_a_command_brought(face, backend):
    builder = parallel(x=asks("x"), y=asks("y")).add_node("left", says("left")).add_node("right", says("right"))
    builder.add_conditional_edges("y", lambda state: state.get("other", "right"), ["left", "right"])
    graph = builder.compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.invoke(graph, Command(resume={ids["x?"]: 1}, update={"other": "left"}), CFG)
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="y")
    assert (state_of(face, graph).next, log(state_of(face, graph).values)) == (("left",), ["x:1", "edited"])


def test_of_several_questions_each_gets_its_own_answer_though_all_texts_changed(face, backend):
    def b(state):
        return {"log": [interrupt(f"{n} of {state.get('other')}") for n in (1, 2, 3)]}

    graph = chain(a=says("a"), b=b).compile(backend.make())
    [first] = face.invoke(graph, {"other": "old"}, CFG)["__interrupt__"]
    [second] = face.invoke(graph, Command(resume={first.id: "one"}), CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"other": "new"})
    assert state_of(face, graph).interrupts == (second,)
    [third] = face.invoke(graph, Command(resume={second.id: "two"}), CFG)["__interrupt__"]
    assert third.value == "3 of new"
    assert log(face.invoke(graph, Command(resume="three"), CFG)) == ["a", "one", "two", "three"]


def test_results_of_finished_siblings_go_along_and_are_not_made_again(face, backend):
    marks = Marks()
    builder = parallel(ask=asks("ask"), x=marked("x", marks), y=marked("y", marks)).add_node("join", says("join"))
    graph = builder.add_edge(["ask", "x", "y"], "join").compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"other": 1})
    live = state_of(face, graph)
    assert (live.next, log(live.values)) == (("ask",), ["x", "y"])
    historical = face.get_state_history(graph, CFG)[0]
    assert (historical.next, log(historical.values)) == (("ask", "x", "y"), [])
    assert [task.result for task in historical.tasks] == [None, {"log": ["x"]}, {"log": ["y"]}]
    assert log(face.invoke(graph, Command(resume="!"), CFG)) == ["ask:!", "x", "y", "join"]
    assert sorted(marks.seen) == ["x", "y"]


def test_recorded_steps_go_along_and_are_not_done_again(face, backend):
    marks = Marks()

    def b(state):
        once("charge", marks, "charged")
        return {"log": [interrupt("ship?")]}

    graph = chain(a=says("a"), b=b).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"other": 1})
    assert state_of(face, graph).tasks[0].calls == ("charge",)
    assert log(face.invoke(graph, Command(resume="yes"), CFG)) == ["a", "yes"]
    assert marks.seen == ["charged"]


def test_recorded_steps_of_a_node_that_was_cut_short_go_along_too(face, backend):
    marks, keys = Marks(), []

    def b(state):
        keys.append(get_runtime().idempotency_key)
        once("charge", marks, "charged")
        if len(keys) == 1:
            raise KeyboardInterrupt
        return {"log": ["b"]}

    graph = chain(a=says("a"), b=b).compile(backend.make())
    with pytest.raises(KeyboardInterrupt):
        face.invoke(graph, {}, CFG)
    before = state_of(face, graph).tasks[0].id
    face.update_state(graph, CFG, {"other": 1})
    assert state_of(face, graph).tasks[0].id == before
    assert log(face.invoke(graph, None, CFG)) == ["a", "b"]
    assert marks.seen == ["charged"]
    assert keys[0] == keys[1]


def test_a_sibling_that_failed_stays_listed_and_runs_again(face, backend):
    broken = [True]

    def bad(state):
        if broken:
            raise ValueError(broken.pop())
        return {"log": ["mended"]}

    graph = parallel(ask=asks("ask"), bad=bad).compile(backend.make())
    with pytest.raises(ValueError, match="True"):
        face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"other": 1})
    assert {task.name: task.error for task in state_of(face, graph).tasks}["bad"] == "ValueError('True')"
    face.invoke(graph, None, CFG)
    assert log(face.invoke(graph, Command(resume="!"), CFG)) == ["ask:!", "mended"]


def test_what_a_command_brought_to_the_waiting_step_goes_into_the_edit(face, backend):
    graph = parallel(x=asks("x"), y=asks("y")).add_node("more", says("more")).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.invoke(graph, Command(resume={ids["x?"]: 1}, update={"other": "brought"}, goto="more"), CFG)
    face.update_state(graph, CFG, {"answer": "edited"}, as_node=START)
    state = state_of(face, graph)
    assert (state.values["other"], state.values["answer"]) == ("brought", "edited")
    assert [one.id for one in state.interrupts] == [ids["y?"]]
    done = face.invoke(graph, Command(resume={ids["y?"]: 2}), CFG)
    assert sorted(log(done)) == ["more", "x:1", "y:2"]


def test_the_edit_has_the_last_word_over_what_finished_siblings_wrote(face, backend):
    wrote = lambda state: {"other": "sibling", "log": ["sibling"]}
    graph = chain(a=says("a")).add_node("ask", asks("ask")).add_node("quick", wrote).add_edge("a", "ask")
    graph = graph.add_edge("a", "quick").compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"other": "edit"}, as_node="ask")
    state = state_of(face, graph)
    assert (state.values["other"], log(state.values), state.next) == ("edit", ["a", "sibling"], ())


# --- as the node that waits ---


def test_as_the_waiting_node_the_edit_is_its_result_and_its_question_is_closed(face, backend):
    marks = Marks()
    graph = chain(a=says("a"), b=asks("b", marks), c=says("c")).compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    waiting = state_of(face, graph)
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="b")
    state = state_of(face, graph)
    assert (state.next, state.interrupts, log(state.values)) == (("c",), (), ["a", "edited"])
    old = next(one for one in face.get_state_history(graph, CFG) if one.config == waiting.config)
    assert [(task.id, task.result) for task in old.tasks] == [(waiting.tasks[0].id, {"log": ["edited"]})]
    with pytest.raises(UnknownInterruptError, match="nothing to resume"):
        face.invoke(graph, Command(resume={before.id: "late"}), CFG)
    assert log(face.invoke(graph, None, CFG)) == ["a", "edited", "c"]
    assert marks.seen == ["b"]


def test_siblings_that_wait_stay_with_their_questions_and_those_that_finished_are_closed(face, backend):
    marks = Marks()
    builder = parallel(x=asks("x", marks), y=asks("y", marks), z=marked("z", marks)).add_node("after", says("after"))
    graph = builder.add_edge("x", "after").compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="x")
    state = state_of(face, graph)
    assert (state.next, log(state.values)) == (("after", "y"), ["z", "edited"])
    assert asked(state) == {"y?": ids["y?"]}
    waits = face.invoke(graph, None, CFG)
    assert (log(waits), asked(waits["__interrupt__"])) == (["z", "edited", "after"], {"y?": ids["y?"]})
    assert log(face.invoke(graph, Command(resume={ids["y?"]: 1}), CFG)) == ["z", "edited", "after", "y:1"]
    assert sorted(marks.seen) == ["x", "y", "y", "z"]


def test_what_finished_siblings_lead_to_runs_with_what_the_edit_leads_to(face, backend):
    builder = parallel(x=asks("x"), y=says("y")).add_node("join", says("join")).add_node("own", says("own"))
    builder.add_edge("x", "join").add_edge("y", "join")
    graph = builder.add_conditional_edges("y", lambda state: ["own"], ["own"]).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="x")
    assert state_of(face, graph).next == ("join", "own")
    assert log(face.invoke(graph, None, CFG)) == ["y", "edited", "join", "own"]


def test_a_task_that_comes_after_never_gets_the_answers_keys_or_steps_of_the_one_before(face, backend):
    """`loop` leads to itself: the new task has the node and the place of the old one, and nothing else of it."""
    keys, marks = [], Marks()

    def loop(state):
        keys.append(get_runtime().idempotency_key)
        once("step", marks, "step")
        return {"log": [interrupt("one"), interrupt("two")]}

    builder = parallel(loop=loop, beside=asks("beside"))
    builder.add_conditional_edges("loop", lambda state: "loop" if len(state["log"]) < 2 else END, ["loop", END])
    graph = builder.compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    second = asked(face.invoke(graph, Command(resume={ids["one"]: "old"}), CFG)["__interrupt__"])
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="loop")
    assert asked(state_of(face, graph)) == {"beside?": ids["beside?"]}
    for gone in (ids["one"], second["two"]):
        with pytest.raises(UnknownInterruptError):
            face.invoke(graph, Command(resume={gone: "late"}), CFG)
    again = asked(face.invoke(graph, None, CFG)["__interrupt__"])
    assert again.keys() == {"one", "beside?"}
    assert again["one"] != ids["one"]
    again = asked(face.invoke(graph, Command(resume={again["one"]: "new"}), CFG)["__interrupt__"])
    assert again["two"] != second["two"]
    done = face.invoke(graph, Command(resume={again["two"]: "2", ids["beside?"]: "b"}), CFG)
    assert log(done) == ["edited", "beside:b", "new", "2"]
    assert len(set(keys[:2])) == 1
    assert len(set(keys[2:])) == 1
    assert keys[0] != keys[2]
    assert marks.seen == ["step", "step"]


# --- Sends ---


def fan_out(marks, *waiting):
    """plan sends 0..3; those named ask. Each leads to `sum`."""

    def work(n):
        marks((n, get_runtime().idempotency_key))
        once("step", marks, f"step {n}")
        return {"log": [f"{n}:{interrupt(n) if n in waiting else 'quiet'}"]}

    def route(state):
        return [Send("work", n) for n in state.get("other") or range(4)]

    builder = chain(plan=says("plan")).add_node("work", work).add_node("sum", says("sum")).add_edge("work", "sum")
    builder.add_node("beside", says("beside")).add_edge("plan", "beside")
    return builder.add_conditional_edges("plan", route, ["work"])


def test_as_another_node_pending_sends_stay_with_their_questions_and_results(face, backend):
    marks = Marks()
    graph = fan_out(marks, 2).compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    ran = len(marks.seen)
    face.update_state(graph, CFG, {"answer": 1}, as_node="sum")
    assert (state_of(face, graph).next, state_of(face, graph).interrupts) == (("work",), (before,))
    done = log(face.invoke(graph, Command(resume={before.id: "!"}), CFG))
    assert done == ["plan", "beside", "0:quiet", "1:quiet", "2:!", "3:quiet", "sum"]
    assert marks.seen[ran:] == [next(one for one in marks.seen if one[0] == 2)]


def test_as_the_node_that_sent_them_its_router_decides_anew_and_equal_ones_keep_what_they_have(face, backend):
    marks = Marks()
    graph = fan_out(marks, 2).compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"answer": 1}, as_node="plan")
    state = state_of(face, graph)
    assert (state.next, state.interrupts) == (("work",), (before,))
    ran = len(marks.seen)
    face.update_state(graph, CFG, {"other": [0, 1, 9]}, as_node="plan")
    state = face.get_state_history(graph, CFG)[0]
    assert state.next == ("beside", "work", "work", "work")
    assert [task.result for task in state.tasks] == [
        {"log": ["beside"]},
        {"log": ["0:quiet"]},
        {"log": ["1:quiet"]},
        None,
    ]
    done = log(face.invoke(graph, None, CFG))
    assert done == ["plan", "beside", "0:quiet", "1:quiet", "9:quiet", "sum"]
    assert next(one for one in marks.seen[ran:] if isinstance(one, tuple))[0] == 9
    assert len(marks.seen) == ran + 2


def test_as_one_of_the_sends_the_others_keep_ids_answers_keys_and_steps(face, backend):
    marks = Marks()
    graph = fan_out(marks, 0, 1, 2, 3).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    tasks = {task.interrupts[0].value: task.id for task in state_of(face, graph).tasks if task.interrupts}
    keys = dict(one for one in marks.seen if isinstance(one, tuple))
    marks.seen.clear()
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="work", task_id=tasks[1])
    state = state_of(face, graph)
    assert asked(state) == {n: ids[n] for n in (0, 2, 3)}
    assert {task.interrupts[0].value: task.id for task in state.tasks if task.interrupts} == {
        n: tasks[n] for n in (0, 2, 3)
    }
    waits = face.invoke(graph, Command(resume={ids[2]: "two"}), CFG)
    assert asked(waits["__interrupt__"]) == {n: ids[n] for n in (0, 3)}
    assert [one for one in marks.seen if one != "step 2"] == [(2, keys[2])]
    face.update_state(graph, CFG, {"log": ["edited too"]}, as_node="work", task_id=tasks[0])
    assert asked(state_of(face, graph)) == {3: ids[3]}
    marks.seen.clear()
    done = log(face.invoke(graph, Command(resume={ids[3]: "three"}), CFG))
    assert [one for one in done if one != "sum"] == ["plan", "beside", "edited", "2:two", "edited too", "3:three"]
    assert marks.seen == [(3, keys[3])]
    assert done[-1] == "sum"


def test_without_a_task_id_the_first_send_that_has_not_finished_is_meant(face, backend):
    graph = fan_out(Marks(), 2, 3).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="work")
    assert asked(state_of(face, graph)) == {3: ids[3]}
    assert log(state_of(face, graph).values) == ["plan", "beside", "0:quiet", "1:quiet", "edited"]


def test_updates_of_one_superstep_are_for_one_waiting_send_each(face, backend):
    graph = fan_out(Marks(), 0, 1, 2, 3).compile(backend.make())
    face.invoke(graph, {}, CFG)
    updates = [StateUpdate({"log": [f"e{n}"]}, "work") for n in range(4)]
    face.call(graph, "bulk_update_state", CFG, [updates])
    state = state_of(face, graph)
    assert (state.next, state.interrupts) == (("sum",), ())
    assert log(face.invoke(graph, None, CFG)) == ["plan", "beside", "e0", "e1", "e2", "e3", "sum"]


def test_a_send_is_edited_by_its_task_id_alone(face, backend):
    graph = fan_out(Marks(), 1).compile(backend.make())
    face.invoke(graph, {}, CFG)
    [task] = [task for task in state_of(face, graph).tasks if task.interrupts]
    face.update_state(graph, CFG, {"log": ["edited"]}, task_id=task.id)
    assert log(face.invoke(graph, None, CFG)) == ["plan", "beside", "0:quiet", "2:quiet", "3:quiet", "edited", "sum"]


# --- END and input ---


def test_as_end_finished_siblings_count_and_what_waits_is_dropped(face, backend):
    graph = parallel(ask=asks("ask"), x=says("x")).add_node("after", says("after")).add_edge("x", "after")
    graph = graph.compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, None, as_node=END)
    state = state_of(face, graph)
    assert (state.next, state.interrupts, log(state.values)) == ((), (), ["x"])
    with pytest.raises(UnknownInterruptError, match="nothing to resume"):
        face.invoke(graph, Command(resume={before.id: "late"}), CFG)
    assert log(face.invoke(graph, None, CFG)) == ["x"]


def test_as_end_with_values_both_count(face, backend):
    graph = parallel(ask=asks("ask"), x=lambda state: {"log": ["x"], "other": "x"}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["e"], "other": "e"}, as_node=END)
    state = state_of(face, graph)
    assert (state.next, log(state.values), state.values["other"]) == ((), ["x", "e"], "e")


def test_as_input_the_question_is_abandoned(face, backend):
    graph = chain(a=says("a"), b=asks("b")).compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"log": ["again"]}, as_node="__input__")
    assert state_of(face, graph).interrupts == ()
    with pytest.raises(UnknownInterruptError, match=r"not open|nothing to resume"):
        face.invoke(graph, Command(resume={before.id: "late"}), CFG)
    again = face.invoke(graph, None, CFG)
    assert log(again) == ["a", "again", "a"]
    assert again["__interrupt__"][0].id != before.id


# --- on a branch, at a breakpoint, several edits ---


def test_on_a_branch_nothing_is_taken_along_and_the_node_asks_anew(face, backend):
    marks = Marks()
    graph = parallel(ask=asks("ask", marks), x=marked("x", marks)).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = state_of(face, graph)
    face.invoke(graph, Command(resume="first"), CFG)
    edited = face.update_state(graph, waiting.config, {"other": 1})
    state = face.get_state(graph, edited)
    assert (state.next, state.interrupts, log(state.values)) == (("ask", "x"), (), [])
    marks.seen.clear()
    assert log(face.invoke(graph, None, edited)) == ["x"]
    assert log(face.invoke(graph, Command(resume="second"), CFG)) == ["ask:second", "x"]
    assert sorted(marks.seen) == ["ask", "ask", "x"]


def test_editing_at_a_breakpoint_and_going_on_passes_it(face, backend):
    for number, where in enumerate(({"interrupt_before": ["b"]}, {"interrupt_after": ["a"]})):
        graph = chain(a=says("a"), b=says("b"), c=says("c")).compile(backend.make(), **where)
        config = thread(f"compiled {number}")
        assert log(face.invoke(graph, {}, config)) == ["a"]
        face.update_state(graph, config, {"log": ["e"]})
        face.update_state(graph, config, {"other": 1})
        assert log(face.invoke(graph, None, config)) == ["a", "e", "b", "c"]
        graph = chain(a=says("a"), b=says("b"), c=says("c")).compile(backend.make())
        config = thread(f"called {number}")
        assert log(face.invoke(graph, {}, config, **where)) == ["a"]
        face.update_state(graph, config, {"log": ["e"]})
        assert log(face.invoke(graph, None, config, **where)) == ["a", "e", "b", "c"]


def test_an_edit_that_leads_to_a_breakpoint_has_been_there(face, backend):
    graph = chain(a=says("a"), b=says("b"), c=says("c")).compile(backend.make(), interrupt_before=["c"])
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="b")
    assert log(face.invoke(graph, None, CFG)) == ["e", "c"]
    face.update_state(graph, CFG, {"log": ["f"]}, as_node="a")
    assert log(face.invoke(graph, None, CFG)) == ["e", "c", "f", "b"]


def test_chained_supersteps_keep_what_is_still_to_run_to_the_end(face, backend):
    graph = parallel(x=asks("x"), y=asks("y"), z=asks("z")).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    steps = [[StateUpdate({"other": 1}, START)], [StateUpdate({"log": ["y"]}, "y")], [StateUpdate({"log": ["z"]}, "z")]]
    face.call(graph, "bulk_update_state", CFG, steps)
    assert asked(state_of(face, graph)) == {"x?": ids["x?"]}
    assert log(face.invoke(graph, Command(resume={ids["x?"]: 1}), CFG)) == ["y", "z", "x:1"]


def test_the_question_of_an_error_handler_stays_listed(face, backend):
    def fail(state):
        raise ValueError("broken")

    builder = StateGraph(Log).add_node("a", says("a")).add_edge(START, "a").add_edge("a", "b")
    graph = builder.add_node("b", fail, error_handler=lambda state: {"log": [interrupt("retry?")]})
    graph = graph.compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"other": 1})
    assert state_of(face, graph).interrupts == (before,)
    assert log(face.invoke(graph, Command(resume={before.id: "no"}), CFG)) == ["a", "no"]


def test_a_graph_inside_a_node_that_waits_goes_on_where_it_asked(face, backend):
    marks = Marks()
    inner = chain(first=marked("first", marks), ask=asks("ask", marks)).compile()
    graph = chain(a=says("a"), b=inner).compile(backend.make())
    [before] = face.invoke(graph, {}, CFG)["__interrupt__"]
    face.update_state(graph, CFG, {"other": 1})
    assert state_of(face, graph).interrupts == (before,)
    face.invoke(graph, Command(resume={before.id: "yes"}), CFG)
    assert marks.seen == ["first", "ask", "ask"]
    assert state_of(face, graph).next == ()
