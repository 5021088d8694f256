"""What a waiting run shows: results, streams, states, history."""

from durable_graph import Command, GraphOutput, interrupt
from tests.behaviour.small_graphs import Marks, asked, chain, parallel, thread

CFG = thread()


def three_nodes(marks=None):
    """Two nodes that ask, one of them twice, and a plain one."""

    def n1(state):
        return {"log": [interrupt("q1"), interrupt("q1b")]}

    def n2(state):
        return {"log": [interrupt("q2")]}

    def n3(state):
        if marks is not None:
            marks("n3")
        return {"log": ["n3"]}

    return parallel(n1=n1, n2=n2, n3=n3)


def test_the_result_holds_the_state_and_the_open_questions(face, backend):
    graph = three_nodes().compile(backend.make())
    result = face.invoke(graph, {}, CFG)
    assert result["log"] == ["n3"]
    assert isinstance(result["__interrupt__"], list)
    assert [one.value for one in result["__interrupt__"]] == ["q1", "q2"]


def test_version_2_gives_value_and_interrupts_apart(face, backend):
    graph = three_nodes().compile(backend.make())
    output = face.invoke(graph, {}, CFG, version="v2")
    assert isinstance(output, GraphOutput)
    assert output.value == {"log": ["n3"]}
    assert [one.value for one in output.interrupts] == ["q1", "q2"]


def test_a_finished_run_shows_no_questions(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    output = face.invoke(graph, Command(resume=1), CFG, version="v2")
    assert output.interrupts == ()
    state = face.get_state(graph, CFG)
    assert (state.next, state.tasks, state.interrupts) == ((), (), ())


def test_the_live_state_shows_what_is_open_and_what_finished(face, backend):
    builder = three_nodes()
    graph = builder.compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    state = face.get_state(builder.compile(backend.reopen()), CFG)
    assert state.next == ("n1", "n2")
    assert state.values == {"log": ["n3"]}
    assert [task.name for task in state.tasks] == ["n1", "n2", "n3"]
    assert [task.result for task in state.tasks] == [None, None, {"log": ["n3"]}]
    assert [asked(task) for task in state.tasks] == [{"q1": ids["q1"]}, {"q2": ids["q2"]}, {}]
    assert asked(state) == ids


def test_the_walk_through_three_answers_leaves_three_checkpoints(face, backend):
    marks = Marks()
    graph = three_nodes(marks).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    after_q1 = asked(face.invoke(graph, Command(resume={ids["q1"]: "A1"}), CFG)["__interrupt__"])
    assert set(after_q1) == {"q1b", "q2"}
    assert after_q1["q2"] == ids["q2"]
    assert after_q1["q1b"] not in ids.values()
    after_q2 = face.invoke(graph, Command(resume={ids["q2"]: "A2"}), CFG)
    assert asked(after_q2["__interrupt__"]) == {"q1b": after_q1["q1b"]}
    assert sorted(after_q2["log"]) == ["A2", "n3"]
    assert face.get_state(graph, CFG).next == ("n1",)
    assert face.invoke(graph, Command(resume="last"), CFG)["log"] == ["A1", "last", "A2", "n3"]
    assert [one.metadata["step"] for one in face.get_state_history(graph, CFG)] == [1, 0, -1]
    assert marks.count("n3") == 1


def test_a_waiting_run_streams_questions_as_they_come_and_then_the_state(face, backend):
    graph = three_nodes().compile(backend.make())
    events = face.stream(graph, {}, CFG, stream_mode=["updates", "values"])
    assert events[0] == ("values", {"log": []})
    assert events[-1] == ("values", {"log": ["n3"]})
    between = events[1:-1]
    assert ("updates", {"n3": {"log": ["n3"]}}) in between
    asks = [index for index, (mode, data) in enumerate(between) if mode == "updates" and "__interrupt__" in data]
    assert len(asks) == 2
    for index in asks:
        questions = between[index][1]["__interrupt__"]
        assert isinstance(questions, tuple)
        assert between[index + 1] == ("values", {"log": [], "__interrupt__": questions})
    assert {between[index][1]["__interrupt__"][0].value for index in asks} == {"q1", "q2"}
    assert len(between) == 5


def test_task_events_carry_the_questions(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?", response_schema={"type": "string"})}).compile(
        backend.make()
    )
    *_, end = face.stream(graph, {}, CFG, stream_mode="tasks")
    [question] = face.get_state(graph, CFG).interrupts
    assert end["interrupts"] == [{"value": "?", "id": question.id, "response_schema": {"type": "string"}}]
    assert end["error"] is None
    assert end["result"] == {}


def test_version_2_parts_of_a_waiting_run_carry_the_interrupts_apart(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    parts = face.stream(graph, {"log": [1]}, CFG, stream_mode=["values"], version="v2")
    assert all("__interrupt__" not in part["data"] for part in parts)
    assert [one.value for one in parts[-1]["interrupts"]] == ["?"]
    assert parts[0]["interrupts"] == ()


def test_stored_results_are_shown_again_when_a_run_goes_on(face, backend):
    marks = Marks()
    graph = three_nodes(marks).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    answers = Command(resume={ids["q1"]: 1, ids["q2"]: 2})
    events = face.stream(graph, answers, CFG, stream_mode="updates")
    assert events[0] == {"n3": {"log": ["n3"]}, "__metadata__": {"cached": True}}
    assert marks.count("n3") == 1


def test_history_shows_questions_that_were_answered_since(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG)
    face.invoke(graph, Command(resume="yes"), CFG)
    old = face.get_state(graph, waiting.config)
    assert old.next == ("ask",)
    assert asked(old) == asked(waiting)
    assert old.tasks[0].result == {"answer": "yes"}


def test_the_question_of_a_router_is_its_nodes_question(face, backend):
    builder = chain(first=lambda state: {"log": ["first"]})
    builder.add_node("second", lambda state: {"log": ["second"]})
    builder.add_conditional_edges("first", lambda state: interrupt("where?"), ["second"])
    graph = builder.compile(backend.make())
    assert face.invoke(graph, {}, CFG)["log"] == []
    state = face.get_state(graph, CFG)
    assert state.next == ("first",)
    assert state.tasks[0].name == "first"
    assert list(asked(state.tasks[0])) == ["where?"]


def test_a_stream_of_a_resumed_run_begins_where_the_run_stopped(face, backend):
    builder = chain(before=lambda state: {"log": ["before"]}, ask=lambda state: {"log": [interrupt("?")]})
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    events = face.stream(graph, Command(resume="yes"), CFG, stream_mode=["updates", "values"])
    assert events == [
        ("values", {"log": ["before"]}),
        ("updates", {"ask": {"log": ["yes"]}}),
        ("values", {"log": ["before", "yes"]}),
    ]
