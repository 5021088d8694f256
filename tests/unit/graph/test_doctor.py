"""`graph.doctor()`: what it reports of a thread, and that it only looks. Threads that really go on are in
tests/compatibility/test_doctor.py.
"""

import operator
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel, field_validator

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import START, Checkpointer, Command, Send, StateGraph, errors, interrupt, register_type
from durable_graph.functional import entrypoint
from durable_graph.graph import doctor
from durable_graph.persistence.type_registry import REGISTRY
from durable_graph.records import ClaimRequest
from tests.behaviour.small_graphs import Log, chain, dump, parallel, thread


class Model(BaseModel):
    log: Annotated[list[str], operator.add] = []
    answer: int = 0


class Required(TypedDict):
    log: Annotated[list[str], operator.add]
    fresh: int


class Numbers(TypedDict, total=False):
    numbers: Annotated[list[int], operator.add]


def say(text):
    return lambda state: {"log": [text]}


def ask(state):
    return {"log": [interrupt("?")]}


def fail(state):
    raise ConnectionAbortedError("cut short")


def never(state):
    raise AssertionError("the doctor ran a node")


def begin(graph, name="t", given=None):
    """A thread; what its nodes raise has cut it short."""
    with suppress(ConnectionAbortedError):
        graph.invoke(given or {}, thread(name))


def examine(face, graph, *args):
    """The reports by thread."""
    return {report.thread: report for report in face.call(graph, "doctor", *args).threads}


# --- what would stop a thread ----------------------------------------------------------------------------------------


def test_threads_of_the_same_graph_go_on_in_every_state(face, backend):
    graph = chain(a=ask, b=fail, c=say("c")).compile(backend.make(), version="7")
    begin(graph, "asked")
    begin(graph, "failed")
    begin(graph.with_config({"tags": ["x"]}), "stopped")
    with suppress(ConnectionAbortedError):
        graph.invoke(Command(resume="x"), thread("failed"))
    graph.invoke(Command(resume="x"), thread("stopped"), interrupt_before=["b"])
    graph.update_state(thread("edited"), {"log": ["e"]}, as_node="c")
    diagnosis = face.call(chain(a=never, b=never, c=never).compile(backend.reopen(), version="8"), "doctor")
    assert diagnosis.ok
    assert [(report.thread, report.state, report.version) for report in diagnosis.threads] == [
        ("asked", "waits for an answer", "7"),
        ("failed", "failed", "7"),
        ("stopped", "stopped at a breakpoint", "7"),
        ("edited", "finished", "7"),
    ]
    assert str(diagnosis) == "4 threads of graph 'LangGraph': all would go on."


def test_a_node_that_is_gone_is_a_problem_with_its_cure(face, backend):
    begin(chain(a=ask).compile(backend.make(), version="1"))
    diagnosis = face.call(chain(b=never).compile(backend.reopen()), "doctor")
    assert not diagnosis.ok
    assert str(diagnosis) == (
        "FAIL 't' (waits for an answer, version '1')\n"
        "     it goes on at node 'a', which the graph lacks (it has 'b'); give the node that takes its place in "
        "node_aliases\n"
        "1 thread of graph 'LangGraph': 1 would not go on."
    )
    renamed = chain(b=never).compile(backend.reopen(), node_aliases={"a": "b"})
    assert face.call(renamed, "doctor").ok


def test_a_deferred_node_that_is_gone_is_found_before_its_turn(face, backend):
    old = parallel(a=ask)
    old.add_node("late", say("late"), defer=True).add_edge(START, "late")
    begin(old.compile(backend.make()))
    report = examine(face, parallel(a=ask).compile(backend.reopen()))["t"]
    assert [problem[:27] for problem in report.problems] == ["it goes on at node 'late', "]


def test_where_a_finished_sibling_leads_has_to_be_there(face, backend):
    def route(state):
        return Command(goto=["gone", Send("lost", 1)])

    old = parallel(a=route, b=ask).add_node("gone", say("gone")).add_node("lost", say("lost"))
    begin(old.compile(backend.make()))
    report = examine(face, parallel(a=never, b=never).compile(backend.reopen()))["t"]
    assert report.problems == (
        "node 'a' has finished and leads to 'gone', which the graph lacks",
        "node 'a' has finished and leads to 'lost', which the graph lacks",
    )


def test_what_a_finished_sibling_wrote_has_to_be_allowed(face, backend):
    begin(parallel(a=lambda state: {"answer": "many"}, b=ask).compile(backend.make()))
    (problem,) = examine(face, parallel(Model, a=never, b=never).compile(backend.reopen()))["t"].problems
    assert problem.startswith("node 'a' has finished, and what it wrote is not allowed: Key 'answer' of Model ")
    assert problem.endswith("(key 'answer' holds 'many')")


def test_a_barrier_edge_that_became_another_is_a_problem_where_something_has_arrived_on_it(face, backend):
    def joined(first):
        builder = parallel(**{first: say("first"), "b": say("b")}).add_node("c", ask).add_edge("b", "c")
        return builder.add_node("end", say("end")).add_edge([first, "c"], "end")

    begin(joined("a").compile(backend.make()))
    more = joined("a").add_node("x", say("x")).add_edge("b", "x")
    more.waiting_edges.clear()
    changed = more.add_edge(["a", "c", "x"], "end").compile(backend.reopen())
    (problem,) = examine(face, changed)["t"].problems
    assert problem.startswith(
        "'a' arrived on the edge 'a+c->end', which is 'a+c+x->end' now: 'end' would wait for ever"
    )
    aliased = joined("first").compile(backend.reopen(), node_aliases={"a": "first"})
    assert face.call(aliased, "doctor").ok
    assert face.invoke(aliased, Command(resume="c"), thread())["log"][-2:] == ["c", "end"]


def test_a_value_the_state_no_longer_allows_is_a_problem_of_finished_threads_too(face, backend):
    begin(chain(a=lambda state: {"answer": "many"}).compile(backend.make()))
    (problem,) = examine(face, chain(Model, a=never).compile(backend.reopen()))["t"].problems
    assert problem.startswith("Key 'answer' of Model cannot hold this str: ")
    assert problem.endswith(" (key 'answer' holds 'many')")


def test_a_validator_may_raise_anything(face, backend):
    class Strict(BaseModel):
        log: list[str] = []

        @field_validator("log")
        @classmethod
        def refuse(cls, value):
            raise ZeroDivisionError("no log")

    begin(chain(a=ask).compile(backend.make()), given={"log": ["x"]})
    report = examine(face, chain(Strict, a=never).compile(backend.reopen()))["t"]
    assert report.problems == ("ZeroDivisionError: no log (key 'log' holds ['x'])",)


def test_a_migration_that_fails_is_a_problem_of_the_threads_it_fails_for(face, backend):
    old = chain(a=ask).compile(backend.make(), version="1")
    begin(old, "good", {"answer": "1"})
    begin(old, "bad", {"answer": "x"})

    def migrate(values, version):
        return {**values, "answer": int(values["answer"])}

    reports = examine(face, chain(a=never).compile(backend.reopen(), version="2", migrate_state=migrate))
    assert not reports["good"].problems
    (problem,) = reports["bad"].problems
    assert problem.startswith("migrate_state raised ValueError(")
    none = chain(a=never).compile(backend.reopen(), version="2", migrate_state=lambda values, version: None)
    for name, report in examine(face, none).items():
        (problem,) = report.problems
        assert problem.startswith(f"migrate_state returned NoneType for the state of thread {name!r}")


# --- new required keys -----------------------------------------------------------------------------------------------


def test_a_required_key_that_no_older_run_had_is_a_problem(face, backend):
    old = chain(a=ask).compile(backend.make())
    begin(old, "asked")
    begin(old, "over")
    old.invoke(Command(resume="x"), thread("over"))
    new = chain(Required, a=ask).compile(backend.reopen())
    begin(new, "new", {"fresh": 1})  # threads of today tell nothing about those of yesterday
    reports = examine(face, new)
    assert {name: len(report.problems) for name, report in reports.items()} == {"asked": 1, "over": 0, "new": 0}
    assert reports["asked"].problems == (
        "node 'a' needs 'fresh', and no run of another version had a value for it; give it in migrate_state",
    )


def test_a_required_key_that_a_later_node_writes_is_none(face, backend):
    old = chain(Required, a=ask, b=lambda state: {"fresh": 1}).compile(backend.make(), version="1")
    begin(old, "asked")
    new = chain(Required, a=ask, b=never).compile(backend.reopen(), version="2")
    assert face.call(new, "doctor").ok  # no older run came to its end: nobody can know
    begin(old, "over")
    old.invoke(Command(resume="x"), thread("over"))
    assert face.call(new, "doctor").ok


def test_a_model_needs_its_required_fields_in_any_case(face, backend):
    class Fresh(BaseModel):
        log: list[str] = []
        fresh: int

    begin(chain(a=ask).compile(backend.make()))
    (problem,) = examine(face, chain(Fresh, a=never).compile(backend.reopen()))["t"].problems
    assert problem == "node 'a' would not get its input: The state holds nothing for 'fresh', which Fresh requires"


def test_what_a_command_brought_since_counts(face, backend):
    old = chain(a=ask).compile(backend.make())
    begin(old)
    old.invoke(Command(update={"answer": 5}, goto="a"), thread(), interrupt_before=["a"])

    class Answered(BaseModel):
        log: Annotated[list[str], operator.add] = []
        answer: int

    assert face.call(chain(Answered, a=never).compile(backend.reopen()), "doctor").ok


# --- graphs inside ---------------------------------------------------------------------------------------------------


def outer(inner, **aliases):
    return StateGraph(Log).add_node("inside", inner).add_edge(START, "inside").compile


@pytest.mark.parametrize("action", [ask, fail], ids=["asks", "fails"])
def test_a_graph_inside_is_examined_where_it_goes_on(face, backend, action):
    begin(outer(chain(a=say("a"), b=action).compile())(backend.make()))
    new = outer(chain(a=never, c=never).compile())(backend.reopen())
    (problem,) = examine(face, new)["t"].problems
    assert problem.startswith("in 'inside': it goes on at node 'b', which the graph lacks (it has 'a', 'c')")
    assert face.call(outer(chain(a=never, c=never).compile(node_aliases={"b": "c"}))(backend.reopen()), "doctor").ok


def test_graphs_three_deep_are_examined_under_new_names_of_all_levels(face, backend):
    def deep(leaf, names):
        graph = chain(**{leaf: ask}).compile()
        for name in names:
            graph = chain(**{name: graph})
            graph = graph if name == names[-1] else graph.compile(node_aliases={"mid": name} if name != "mid" else {})
        return graph

    begin(deep("leaf", ["mid", "top"]).compile(backend.make()))
    new = deep("other", ["middle", "summit"]).compile(backend.reopen(), node_aliases={"top": "summit"})
    (problem,) = examine(face, new)["t"].problems
    assert problem.startswith("in 'top|mid': it goes on at node 'leaf', which the graph lacks (it has 'other')")


def test_a_graph_inside_that_has_finished_is_no_problem(face, backend):
    old = StateGraph(Log).add_sequence([("inside", chain(gone=say("x")).compile()), ("b", ask)])
    begin(old.add_edge(START, "inside").compile(backend.make()))
    new = StateGraph(Log).add_sequence([("inside", chain(other=never).compile()), ("b", never)])
    assert face.call(new.add_edge(START, "inside").compile(backend.reopen()), "doctor").ok


def test_the_memory_of_a_graph_inside_has_to_be_allowed(face, backend):
    def over(schema, checkpointer):
        return outer(chain(schema, a=lambda state: {"answer": "many"}).compile(checkpointer=True))(checkpointer)

    begin(over(Log, backend.make()))
    (problem,) = examine(face, over(Model, backend.reopen()))["t"].problems
    assert problem.startswith("in 'inside': Key 'answer' of Model cannot hold this str")


def test_a_graph_inside_that_cannot_be_found_is_a_note(face, backend):
    begin(outer(chain(a=ask).compile())(backend.make()))
    new = StateGraph(Log).add_node("inside", say("x")).add_edge(START, "inside").compile(backend.reopen())
    report = examine(face, new)["t"]
    assert report.notes == ("what the graph inside node 'inside' would do cannot be seen from here",)
    assert not report.problems


def test_tasks_with_a_graph_each_are_examined_each(face, backend):
    def spread(inner, checkpointer):
        builder = StateGraph(Log).add_node("work", lambda item: {"log": [inner.invoke({"answer": item}).get("other")]})
        builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])
        return builder.compile(checkpointer)

    def only_odd(state):
        return {"other": interrupt(state["answer"])} if state["answer"] % 2 else {}

    begin(spread(chain(a=only_odd).compile(), backend.make()))
    (problem,) = examine(face, spread(chain(b=never).compile(), backend.reopen()))["t"].problems
    assert problem.startswith("in 'work:1': it goes on at node 'a'")


# --- threads of all kinds --------------------------------------------------------------------------------------------


def test_a_thread_of_another_graph_is_told_as_such(face, backend):
    store = backend.make()
    other = chain(Numbers, x=ask, y=say("y"))
    other.compile(store, interrupt_before=["y"]).invoke({"numbers": [1]}, thread("other"), interrupt_before=["x"])
    chain(Numbers, z=lambda state: None).compile(store).invoke({"numbers": [1]}, thread("over"))
    reports = examine(face, chain(a=never).compile(backend.reopen()))
    seems = "it seems to be a thread of another graph: it has a state of 'numbers'"
    assert reports["other"].problems == (f"{seems} and goes on at 'x'",)
    assert (reports["over"].problems, reports["over"].notes) == ((), (seems,))


def test_keys_that_are_gone_are_noted_once_for_all_threads(face, backend):
    old = chain(a=say("a")).compile(backend.make())
    for number in range(5):
        begin(old, f"t{number}", {"answer": number})
    diagnosis = face.call(chain(Required, a=never).compile(backend.reopen()), "doctor")
    assert str(diagnosis) == (
        "note on 5 threads ('t0', 't1', 't2' and 2 more): the state no longer has 'answer'; what is stored there is "
        "not read\n5 threads of graph 'LangGraph': all would go on."
    )
    assert str(diagnosis.threads[4]) == (
        "ok 't4' (finished)\n     note: the state no longer has 'answer'; what is stored there is not read"
    )


def test_a_damaged_thread_is_told_beside_the_others(face, tmp_path):
    file = tmp_path / "runs.db"
    with SqliteSaver(file) as store:
        graph = chain(a=ask).compile(store)
        begin(graph, "good")
        begin(graph, "bad")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE record SET data = x'ff00ff' WHERE thread = 2")
    connection.close()
    with SqliteSaver(file) as store:
        diagnosis = face.call(chain(a=never).compile(store), "doctor")
    good, bad = diagnosis.threads
    assert (good.problems, bad.thread, bad.state) == ((), "bad", "unreadable")
    (problem,) = bad.problems
    assert "thread 'bad'" in problem
    assert "2 threads of graph 'LangGraph': 1 would not go on." in str(diagnosis)


@dataclass
class Parcel:
    weight: int


def test_a_type_that_is_not_known_here_is_told_with_its_cure(face, backend):
    register_type(Parcel, name="doctor:Parcel")
    graph = chain(a=lambda state: {"answer": Parcel(3)}, b=ask).compile(backend.make())
    begin(graph)
    REGISTRY._classes.pop("doctor:Parcel")
    REGISTRY.kinds.pop(Parcel, None)
    report = examine(face, chain(a=never, b=never).compile(backend.reopen()))["t"]
    assert report.state == "unreadable"
    (problem,) = report.problems
    assert "doctor:Parcel" in problem
    assert "register_type" in problem


def test_a_thread_that_somebody_runs_right_now_is_told_as_running(face, backend):
    store = backend.make()
    told = []

    def look(state):
        told.extend(chain(a=never).compile(store).doctor().threads)
        return {}

    face.invoke(chain(a=look).compile(store), {}, thread())
    (report,) = told
    assert (report.state, report.problems) == ("running", ())


def test_a_thread_without_a_checkpoint_is_empty(face, backend):
    store = backend.make()
    store.claim(ClaimRequest("empty", "", None, 2, 1, 0, (), ()))
    report = examine(face, chain(a=never).compile(store))["empty"]
    assert (report.problems, report.version) == ((), "")
    assert str(report).startswith("ok 'empty' (")


def test_more_threads_than_are_listed_at_once(face, backend, monkeypatch):
    monkeypatch.setattr(doctor, "_PAGE", 2)
    graph = chain(a=ask).compile(backend.make())
    for number in range(5):
        begin(graph, f"t{number}")
    assert [report.thread for report in face.call(graph, "doctor").threads] == [f"t{number}" for number in range(5)]


def test_an_entrypoint_is_examined_like_any_graph(face, backend):
    def flow(name):
        @entrypoint(backend.reopen(), name=name)
        def work(given):
            return interrupt(given)

        return work

    begin(flow("old"), given=5)
    assert face.call(flow("old"), "doctor").ok
    (report,) = face.call(flow("new"), "doctor").threads
    assert report.state == "waits for an answer"
    assert len(report.problems) == 1


# --- it only looks ---------------------------------------------------------------------------------------------------


def test_nothing_is_stored_and_a_migration_is_called_for_other_versions_only(face, backend):
    store = backend.make()
    old = chain(a=ask).compile(store, version="1")
    for name in ("t", "u"):
        begin(old, name)
    begin(chain(a=ask).compile(store, version="2"), "new")
    rows = [dump(store, name) for name in ("t", "u", "new")]
    seen = []

    def migrate(values, version):
        seen.append(version)
        assert values.pop("answer", None) is None, "migrated twice"
        return {**values, "answer": 1}

    new = chain(a=never).compile(backend.reopen(), version="2", migrate_state=migrate)
    assert face.call(new, "doctor").ok
    assert set(seen) == {"1"}
    assert [dump(store, name) for name in ("t", "u", "new")] == rows


def test_another_checkpointer_can_be_named(face, tmp_path):
    graph = chain(a=ask).compile(SqliteSaver(tmp_path / "runs.db"))
    begin(graph)
    without = chain(a=never).compile()
    for where in (f"sqlite:///{tmp_path}/runs.db", tmp_path / "runs.db", graph.checkpointer):
        assert list(examine(face, without, where)) == ["t"]
    graph.checkpointer.close()


def test_a_graph_without_threads_is_well(face, backend):
    diagnosis = face.call(chain(a=never).compile(backend.make()), "doctor")
    assert diagnosis.ok
    assert str(diagnosis) == "0 threads of graph 'LangGraph': all would go on."


def test_a_graph_without_a_checkpointer_needs_one(face):
    with pytest.raises(errors.NoCheckpointerError, match=r"no checkpointer whose threads[\s\S]*graph\.doctor\("):
        face.call(chain(a=never).compile(), "doctor")


def test_a_checkpointer_that_cannot_list_its_threads_says_so(face):
    class Unlisted(InMemorySaver):
        threads = Checkpointer.threads
        athreads = Checkpointer.athreads

    with pytest.raises(errors.UsageError, match=r"Unlisted cannot list its threads[\s\S]*Implement"):
        face.call(chain(a=never).compile(Unlisted()), "doctor")
