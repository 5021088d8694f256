"""Threads that an older version of the code stored: other names of nodes and keys, other values.

Each test has two versions of a graph. What is stored stays as it is; the next checkpoint has the new names and values.
"""

import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import END, START, Command, RetryPolicy, Send, StateGraph, interrupt, once
from durable_graph.errors import (
    InvalidGraphError,
    InvalidUpdateError,
    InvalidValueError,
    MigrationError,
    UnknownNodeError,
    UnserializableValueError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel, thread

CFG = thread()


def asks(*questions, marks=None):
    """A node that asks one question after the other."""

    def node(state):
        if marks is not None:
            marks("asked")
        return {"log": [interrupt(question) for question in questions]}

    return node


def renamed(builder, saver, *, version="2", **aliases):
    return builder.compile(saver, version=version, node_aliases=aliases)


# --- versions --------------------------------------------------------------------------------------------------------


def test_every_checkpoint_says_its_version_and_history_can_be_searched_by_it(face, backend):
    face.invoke(chain(a=says("a"), b=asks("?")).compile(backend.make(), version="1"), {}, CFG)
    graph = chain(a=says("a"), b=asks("?"), c=says("c")).compile(backend.reopen(), version="2.0-rc1")
    face.invoke(graph, Command(resume="B"), CFG)
    history = face.get_state_history(graph, CFG)
    assert [shown.metadata.get("version") for shown in history] == ["2.0-rc1", "2.0-rc1", "1", "1", "1"]
    assert len(face.get_state_history(graph, CFG, filter={"version": "1"})) == 3
    assert " " not in history[0].metadata["fingerprint"]


def test_without_a_version_none_is_told(face, backend):
    graph = chain(a=says("a")).compile(backend.make())
    face.invoke(graph, {}, CFG)
    shown = face.get_state_history(graph, CFG)
    assert all("version" not in one.metadata for one in shown)
    assert {task.version for one in shown for task in one.tasks} == {None}


def test_the_version_does_not_change_the_fingerprint(face, backend):
    found = set()
    for version in ("", "1", "2"):
        graph = chain(a=says("a")).compile(backend.make(), version=version)
        face.invoke(graph, {}, thread(version or "none"))
        found.add(face.get_state(graph, thread(version or "none")).metadata["fingerprint"])
    assert len(found) == 1


def test_a_task_says_the_version_of_its_checkpoint(face, backend):
    graph = chain(a=says("a")).compile(backend.make(), version="7")
    face.invoke(graph, {}, CFG)
    assert {task.version for shown in face.get_state_history(graph, CFG) for task in shown.tasks} == {"7"}


@pytest.mark.parametrize("version", ["1 2", "a\nb", "\0"], ids=["space", "line end", "NUL"])
def test_a_version_that_cannot_be_printed_in_a_line_is_refused(version):
    with pytest.raises(InvalidGraphError, match="version"):
        _ = chain(a=says("a")).compile(version=version)


# --- aliases of nodes ------------------------------------------------------------------------------------------------


def test_a_waiting_question_keeps_its_id_and_finds_its_answer(face, backend):
    for number, by_id in enumerate((False, True)):
        config = thread(str(number))
        old = chain(a=says("a"), old=asks("1?", "2?")).compile(backend.make())
        questions = asked(face.invoke(old, {}, config)["__interrupt__"])
        new = renamed(chain(a=says("a"), new=asks("1?", "2?")), backend.reopen(), old="new")
        shown = face.get_state(new, config)
        assert shown.next == ("new",)
        assert asked(shown) == questions
        assert shown.tasks[0].id == face.get_state(old, config).tasks[0].id
        answer = {questions["1?"]: "one"} if by_id else "one"
        second = asked(face.invoke(new, Command(resume=answer), config)["__interrupt__"])
        assert list(second) == ["2?"]
        assert face.invoke(new, Command(resume="two"), config)["log"] == ["a", "one", "two"]


def test_an_answer_that_was_stored_by_the_old_version_counts(face, backend):
    """Two nodes asked, one was answered; then the deploy."""
    nodes = {"x": asks("x?")}
    old = parallel(old=asks("1?"), **nodes).compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    face.invoke(old, Command(resume={questions["1?"]: "one"}), CFG)
    new = renamed(parallel(new=asks("1?"), **nodes), backend.reopen(), old="new")
    assert face.get_state(new, CFG).next == ("x",)
    assert face.invoke(new, Command(resume="X"), CFG)["log"] == ["one", "X"]


def test_finished_siblings_are_not_run_again_and_lead_where_the_new_version_says(face, backend):
    marks = Marks()

    def work(state):
        marks("work")
        return Command(update={"log": ["work"]}, goto="after")

    old = parallel(old=work, ask=asks("?")).add_node("after", says("after"))
    face.invoke(old.compile(backend.make()), {}, CFG)
    new = parallel(new=work, ask=asks("?")).add_node("later", says("later"))
    graph = renamed(new, backend.reopen(), old="new", after="later")
    assert face.get_state(graph, CFG).values["log"] == ["work"]
    assert face.invoke(graph, Command(resume="ok"), CFG)["log"] == ["ok", "work", "later"]
    assert marks.count("work") == 1


def sending(work, name, route=None):
    builder = StateGraph(Log).add_node(name, work)
    builder.add_conditional_edges(START, route or (lambda state: [Send(name, n) for n in range(3)]), [name])
    return builder


def test_sends_keep_their_inputs_questions_and_results(face, backend):
    marks = Marks()

    def work(arg):
        marks(arg)
        return {"log": [interrupt(f"{arg}?") if arg else "none"]}

    face.invoke(sending(work, "old").compile(backend.make()), {}, CFG)
    graph = renamed(sending(work, "new"), backend.reopen(), old="new")
    shown = face.get_state(graph, CFG)
    assert shown.next == ("new", "new")
    questions = asked(shown)
    assert list(questions) == ["1?", "2?"]
    answers = {questions["1?"]: "one", questions["2?"]: "two"}
    assert face.invoke(graph, Command(resume=answers), CFG)["log"] == ["none", "one", "two"]
    assert marks.count(0) == 1


def test_sends_in_results_that_are_stored_lead_to_the_renamed_node(face, backend):
    def plan(state):
        return Command(goto=Send("old", "sent"))

    builder = parallel(plan=plan, ask=asks("?")).add_node("old", lambda arg: {"log": [arg]})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    new = parallel(plan=plan, ask=asks("?")).add_node("new", lambda arg: {"log": [arg]})
    graph = renamed(new, backend.reopen(), old="new")
    assert face.invoke(graph, Command(resume="ok"), CFG)["log"] == ["ok", "sent"]


def test_a_send_keeps_its_time_limit(face, backend):
    out = threading.Event()

    def work(arg):
        assert out.wait(0.3) is False
        return {"log": [arg]}

    old = sending(work, "old", lambda state: [Send("old", 1, timeout=30)])
    face.invoke(old.compile(backend.make(), interrupt_before=["old"]), {}, CFG)
    new = sending(work, "new").set_node_defaults(timeout=0.05)
    assert face.invoke(renamed(new, backend.reopen(), old="new"), None, CFG)["log"] == [1]


def test_barriers_keep_their_progress(face, backend):
    def made(a, b, join):
        builder = StateGraph(Log).add_node(a, says("a")).add_node("slow", says("slow")).add_node(b, asks("?"))
        builder.add_node(join, says("join")).add_edge(START, a).add_edge(START, "slow").add_edge("slow", b)
        return builder.add_edge([a, b], join)

    face.invoke(made("a", "b", "join").compile(backend.make()), {}, CFG)
    new = made("z", "y", "end")
    graph = renamed(new, backend.reopen(), a="z", b="y", join="end")
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["a", "slow", "B", "join"]


def test_barriers_of_nodes_that_were_not_renamed_keep_their_progress_whatever_they_are_called(face, backend):
    def made(other):
        builder = StateGraph(Log).add_node("a+1", says("a")).add_node("s->t", says("slow")).add_node("b", asks("?"))
        builder.add_node("join", says("join")).add_edge(START, "a+1").add_edge(START, "s->t").add_edge("s->t", "b")
        return builder.add_edge(["a+1", "b"], "join").add_node(other, says(other)).add_edge("join", other)

    face.invoke(made("old").compile(backend.make()), {}, CFG)
    graph = renamed(made("new"), backend.reopen(), old="new")
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["a", "slow", "B", "join", "new"]


def test_deferred_nodes_keep_waiting(face, backend):
    def made(join):
        builder = StateGraph(Log).add_node("a", says("a")).add_node("b", asks("?")).add_edge(START, "a")
        builder.add_node(join, says("join"), defer=True).add_edge("a", join).add_edge("a", "b")
        return builder

    face.invoke(made("old").compile(backend.make()), {}, CFG)
    graph = renamed(made("new"), backend.reopen(), old="new")
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["a", "B", "join"]


def test_a_failed_node_is_run_again_under_its_new_name(face, backend):
    failing = [1]

    def node(state):
        if failing:
            failing.clear()
            text = "down"
            raise ValueError(text)
        return {"log": ["up"]}

    with pytest.raises(ValueError, match="down"):
        face.invoke(chain(old=node).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=node), backend.reopen(), old="new")
    assert "down" in face.get_state(graph, CFG).tasks[0].error
    assert face.invoke(graph, None, CFG)["log"] == ["up"]


def test_an_error_handler_that_waits_keeps_its_question(face, backend):
    marks = Marks()

    def node(state):
        marks("node")
        text = "boom"
        raise ValueError(text)

    def handler(state, error):
        return {"log": [f"{error.node}: {interrupt('what now?')}"]}

    def made(name):
        return StateGraph(Log).add_node(name, node, error_handler=handler).add_edge(START, name)

    old = made("old").compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    graph = renamed(made("new"), backend.reopen(), old="new")
    shown = face.get_state(graph, CFG)
    assert asked(shown) == questions
    assert [task.name for task in shown.tasks] == ["new", "__error_handler__new"]
    assert [task.id for task in shown.tasks] == [task.id for task in face.get_state(old, CFG).tasks]
    assert face.invoke(graph, Command(resume="go"), CFG)["log"] == ["new: go"]
    assert marks.count("node") == 1


def test_recorded_steps_are_not_run_again_and_their_keys_stay(face, backend):
    marks, keys = Marks(), []

    def node(state, runtime):
        keys.append(runtime.idempotency_key)
        found = once("charge", lambda: marks("charge") or "charged")
        return {"log": [found, interrupt("?")]}

    face.invoke(chain(old=node).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=node), backend.reopen(), old="new")
    assert face.get_state(graph, CFG).tasks[0].calls == ("charge",)
    assert face.invoke(graph, Command(resume="ok"), CFG)["log"] == ["charged", "ok"]
    assert marks.seen == ["charge"]
    assert keys[0] == keys[1]


def test_a_command_that_came_before_the_deploy_leads_to_the_renamed_node(face, backend):
    def made(node, sent):
        builder = chain(ask=asks("?")).add_node(node, asks("node?"))
        return builder.add_node(sent, lambda arg: {"log": [arg, interrupt("sent?")]})

    old = made("old", "sent").compile(backend.make())
    face.invoke(old, {}, CFG)
    questions = asked(face.invoke(old, Command(goto=["old", Send("sent", "s")]), CFG)["__interrupt__"])
    graph = renamed(made("new", "took"), backend.reopen(), old="new", sent="took")
    assert set(face.get_state(graph, CFG).next) == {"ask", "new", "took"}
    assert asked(face.get_state(graph, CFG)) == questions
    answers = {questions[one]: one for one in ("?", "node?", "sent?")}
    assert face.invoke(graph, Command(resume=answers), CFG)["log"] == ["?", "node?", "s", "sent?"]


def test_breakpoints_of_the_new_version_count(face, backend):
    old = chain(a=says("a"), old=says("b")).compile(backend.make(), interrupt_before=["old"])
    face.invoke(old, {}, CFG)
    new = chain(a=says("a"), new=says("b")).compile(
        backend.reopen(), interrupt_before=["new"], node_aliases={"old": "new"}
    )
    assert face.invoke(new, None, CFG)["log"] == ["a", "b"]


def test_retries_and_metadata_are_those_of_the_new_node(face, backend):
    failing = [1, 1]

    def node(state):
        if failing:
            raise ConnectionError(failing.pop())
        return {"log": ["up"]}

    face.invoke(chain(a=says("a"), old=node).compile(backend.make(), interrupt_before=["old"]), {}, CFG)
    again = RetryPolicy(initial_interval=0.001, jitter=False)
    new = chain(a=says("a")).add_node("new", node, retry_policy=again).add_edge("a", "new")
    assert face.invoke(renamed(new, backend.reopen(), old="new"), None, CFG)["log"] == ["a", "up"]


def test_names_may_change_again(face, backend):
    """The thread was edited under the second name, and its question keeps the id that was made under the first."""
    nodes = {"x": asks("x?")}
    questions = asked(face.invoke(parallel(one=asks("?"), **nodes).compile(backend.make()), {}, CFG)["__interrupt__"])
    second = renamed(parallel(two=asks("?"), **nodes), backend.reopen(), one="two")
    face.update_state(second, CFG, {"log": ["edit"]}, as_node="x")
    third = renamed(parallel(three=asks("?"), **nodes), backend.reopen(), version="3", one="three", two="three")
    assert face.get_state(third, CFG).next == ("three",)
    answer = Command(resume={questions["?"]: "yes"})
    assert face.invoke(third, answer, CFG)["log"] == ["edit", "yes"]


def test_history_shows_old_checkpoints_in_the_names_of_today_and_they_stay_as_they_were(face, backend):
    saver = backend.make()
    old = chain(a=says("a"), old=asks("?"))
    face.invoke(old.compile(saver), {}, CFG)
    rows = dump(saver)
    before = face.get_state_history(old.compile(saver), CFG)
    graph = renamed(chain(a=says("a"), new=asks("?")), backend.reopen(), old="new")
    assert [shown.next for shown in face.get_state_history(graph, CFG)] == [("new",), ("a",), ("__start__",)]
    assert dump(saver) == rows
    face.invoke(graph, Command(resume="x"), CFG)
    assert face.get_state_history(old.compile(saver), CFG)[-3:][1:] == before[1:]


def test_without_an_alias_the_thread_is_left_untouched(face, backend):
    saver = backend.make()
    face.invoke(chain(old=asks("?")).compile(saver), {}, CFG)
    rows = dump(saver)
    with pytest.raises(UnknownNodeError, match="'old'"):
        face.invoke(chain(new=asks("?")).compile(backend.reopen()), Command(resume="x"), CFG)
    assert dump(saver) == rows


@pytest.mark.parametrize(
    ("aliases", "text"),
    [
        ({"old": "nowhere"}, "'nowhere'"),
        ({"a": "b"}, "'a'.*is the name"),
        ({"old": START}, "'__start__'"),
        ({"old": END}, "'__end__'"),
    ],
    ids=["unknown", "in use", "START", "END"],
)
def test_aliases_of_nodes_that_cannot_be_meant_are_refused(aliases, text):
    with pytest.raises(InvalidGraphError, match=text):
        _ = chain(a=says("a"), b=says("b")).compile(node_aliases=aliases)


# --- branches and edits of renamed threads ---------------------------------------------------------------------------


def test_a_branch_from_an_old_checkpoint_asks_under_the_old_id_and_is_answered(face, backend):
    old = chain(a=says("a"), old=asks("?"), c=says("c")).compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    face.invoke(old, Command(resume="first"), CFG)
    graph = renamed(chain(a=says("a"), new=asks("?"), c=says("c")), backend.reopen(), old="new")
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("new",))
    assert asked(face.invoke(graph, None, waiting.config)["__interrupt__"]) == questions
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume={questions["?"]: "second"}), CFG)["log"] == ["a", "second", "c"]


def test_an_old_question_is_answered_differently_on_a_branch(face, backend):
    old = chain(a=says("a"), old=asks("?"), c=says("c")).compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    face.invoke(old, Command(resume="first"), CFG)
    graph = renamed(chain(a=says("a"), new=asks("?"), c=says("c")), backend.reopen(), old="new")
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("new",))
    answer = Command(resume={questions["?"]: "other"})
    assert face.invoke(graph, answer, waiting.config)["log"] == ["a", "other", "c"]


def test_an_edit_of_a_waiting_thread_keeps_its_question_and_the_answer_to_the_old_id(face, backend):
    marks = Marks()
    old = parallel(old=asks("?", marks=marks), x=asks("x?"))
    questions = asked(face.invoke(old.compile(backend.make()), {}, CFG)["__interrupt__"])
    new = parallel(new=asks("?", marks=marks), x=asks("x?"))
    graph = renamed(new, backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="x")
    shown = face.get_state(graph, CFG)
    assert shown.next == ("new",)
    assert shown.interrupts[0].id == questions["?"]
    again = renamed(new, backend.reopen(), old="new")
    assert face.invoke(again, Command(resume={questions["?"]: "yes"}), CFG)["log"] == ["edited", "yes"]


def test_an_edit_as_the_renamed_node_answers_for_it(face, backend):
    face.invoke(chain(old=asks("?"), c=says("c")).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=asks("?"), c=says("c")), backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="new")
    assert face.invoke(graph, None, CFG)["log"] == ["edited", "c"]


def test_an_edit_without_as_node_finds_the_renamed_node_that_ran(face, backend):
    face.invoke(chain(old=says("a"), ask=asks("?")).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=says("a"), ask=asks("?")), backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]})
    assert face.get_state(graph, CFG).next == ("ask",)
    with pytest.raises(InvalidUpdateError, match="'old' does not exist"):
        face.update_state(graph, CFG, {"log": []}, as_node="old")


# --- graphs inside ---------------------------------------------------------------------------------------------------


def outer(name, inner, **more):
    return StateGraph(Log).add_node(name, inner).add_edge(START, name)


def test_a_graph_inside_a_renamed_node_goes_on_where_it_was(face, backend):
    marks = Marks()

    def first(state):
        marks("first")
        return {"log": ["first"]}

    inner = chain(first=first, ask=asks("?"))
    questions = asked(face.invoke(outer("old", inner.compile()).compile(backend.make()), {}, CFG)["__interrupt__"])
    graph = renamed(outer("new", inner.compile()), backend.reopen(), old="new")
    assert asked(face.get_state(graph, CFG)) == questions
    answer = Command(resume={questions["?"]: "yes"})
    assert face.invoke(graph, answer, CFG)["log"] == ["first", "yes"]
    assert marks.count("first") == 1


def test_a_graph_inside_has_aliases_of_its_own(face, backend):
    old = chain(a=says("a"), old=asks("?")).compile(version="i1")
    questions = asked(face.invoke(outer("sub", old).compile(backend.make()), {}, CFG)["__interrupt__"])
    new = chain(a=says("a"), new=asks("?")).compile(version="i2", node_aliases={"old": "new"})
    graph = outer("sub", new).compile(backend.reopen())
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["a", "yes"]


def test_a_graph_inside_migrates_its_own_state(face, backend):
    seen = []
    old = chain(a=says("a"), ask=asks("?")).compile(version="i1")
    face.invoke(outer("sub", old).compile(backend.make()), {}, CFG)

    def migrate(values, version):
        seen.append(version)
        return {**values, "log": [*values["log"], "migrated"]}

    new = chain(a=says("a"), ask=asks("?")).compile(version="i2", migrate_state=migrate)
    assert face.invoke(outer("sub", new).compile(backend.reopen()), Command(resume="yes"), CFG)["log"] == [
        "a",
        "migrated",
        "yes",
    ]
    assert seen == ["i1"]


def test_a_memory_of_a_graph_inside_moves_with_its_node(face, backend):
    def memory():
        def node(state):
            return {"log": [len(state["log"])]}

        return chain(n=node).compile(checkpointer=True)

    face.invoke(outer("old", memory()).compile(backend.make()), {"log": ["1"]}, CFG)
    graph = renamed(outer("new", memory()), backend.reopen(), old="new")
    face.invoke(graph, {"log": ["2"]}, CFG)
    face.invoke(graph, {"log": ["3"]}, CFG)
    other = outer("old", memory()).compile(backend.make())
    for word in ("1", "2", "3"):
        face.invoke(other, {"log": [word]}, thread("same"))
    assert face.get_state(graph, CFG).values == face.get_state(other, thread("same")).values


# --- aliases of keys -------------------------------------------------------------------------------------------------


class Old(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    before: str


class New(TypedDict, total=False):
    entries: Annotated[list[Any], operator.add]
    after: str


KEYS = {"log": "entries", "before": "after"}


def old_keys(saver, **more):
    builder = StateGraph(Old).add_node("a", lambda state: {"log": ["a"], "before": "b"}).add_node("ask", ask_old)
    return builder.add_edge(START, "a").add_edge("a", "ask").compile(saver, **more)


def ask_old(state):
    return {"log": [interrupt("?")]}


def new_keys(saver, ask=None, **more):
    def node(state):
        return {"entries": [interrupt("?")]}

    builder = StateGraph(New).add_node("a", lambda state: {"entries": ["a"], "after": "b"})
    builder.add_node("ask", ask or node).add_edge(START, "a").add_edge("a", "ask")
    return builder.compile(saver, key_aliases=KEYS, **more)


def test_values_are_found_under_their_new_names_and_reducers_go_on(face, backend):
    seen = []

    def ask(state):
        seen.append(dict(state))
        return {"entries": [interrupt("?")]}

    face.invoke(old_keys(backend.make()), {"log": ["in"]}, CFG)
    graph = new_keys(backend.reopen(), ask)
    assert face.get_state(graph, CFG).values == {"entries": ["in", "a"], "after": "b"}
    assert face.invoke(graph, Command(resume="X"), CFG) == {"entries": ["in", "a", "X"], "after": "b"}
    assert seen[-1] == {"entries": ["in", "a"], "after": "b"}
    again = new_keys(backend.reopen(), ask)
    assert face.get_state(again, CFG).values == {"entries": ["in", "a", "X"], "after": "b"}
    assert face.invoke(again, {"entries": ["next"]}, CFG)["__interrupt__"]


def test_once_stored_under_the_new_name_the_alias_can_go(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    face.invoke(new_keys(backend.reopen()), Command(resume="X"), CFG)
    builder = StateGraph(New).add_node("a", says()).add_edge(START, "a")
    graph = builder.compile(backend.reopen())
    assert face.get_state(graph, CFG).values == {"entries": ["a", "X"], "after": "b"}


def test_the_old_name_holds_nothing_any_more(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    face.invoke(new_keys(backend.reopen()), Command(resume="X"), CFG)
    assert face.get_state(old_keys(backend.reopen()), CFG).values == {"log": []}


def test_pending_writes_are_applied_under_their_new_names(face, backend):
    def made(schema, key, saver, **more):
        builder = StateGraph(schema).add_node("work", lambda state: {key: ["work"]})
        builder.add_node("ask", lambda state: {key: [interrupt("?")]}).add_edge(START, "work").add_edge(START, "ask")
        return builder.compile(saver, **more)

    face.invoke(made(Old, "log", backend.make()), {}, CFG)
    graph = made(New, "entries", backend.reopen(), key_aliases=KEYS)
    shown = face.get_state(graph, CFG)
    assert shown.values["entries"] == ["work"]
    assert next(task.result for task in shown.tasks if task.name == "work") == {"entries": ["work"]}
    assert face.invoke(graph, Command(resume="A"), CFG)["entries"] == ["A", "work"]


def test_what_a_command_wrote_before_the_deploy_is_applied_under_the_new_name(face, backend):
    old = old_keys(backend.make())
    face.invoke(old, {}, CFG)
    face.invoke(old, Command(update={"before": "from the command"}), CFG)
    graph = new_keys(backend.reopen())
    assert face.invoke(graph, Command(resume="X"), CFG) == {"entries": ["a", "X"], "after": "from the command"}


def test_an_input_that_was_stored_under_old_names_goes_on(face, backend):
    """The run was cut short before START's router had run, and a branch begins at the input."""
    failing = [1]

    def route(state):
        if failing:
            failing.clear()
            text = "down"
            raise ValueError(text)
        return "a"

    def made(schema, key, saver, **more):
        builder = StateGraph(schema).add_node("a", lambda state: {key: ["a"]})
        return builder.add_conditional_edges(START, route, ["a"]).compile(saver, **more)

    with pytest.raises(ValueError, match="down"):
        face.invoke(made(Old, "log", backend.make()), {"log": ["in"]}, CFG)
    graph = made(New, "entries", backend.reopen(), key_aliases=KEYS)
    assert face.invoke(graph, None, CFG)["entries"] == ["in", "a"]


def test_a_branch_from_an_old_input_reads_it_under_its_new_names(face, backend):
    face.invoke(old_keys(backend.make()), {"log": ["in"], "before": "x"}, CFG)
    graph = new_keys(backend.reopen())
    first = face.get_state_history(graph, CFG)[-1]
    result = face.invoke(graph, None, first.config)
    assert (result["entries"], result["after"]) == (["in", "a"], "b")


def test_history_and_branches_show_old_values_under_new_names(face, backend):
    old = old_keys(backend.make())
    face.invoke(old, {"log": ["in"]}, CFG)
    face.invoke(old, Command(resume="X"), CFG)
    graph = new_keys(backend.reopen())
    assert [shown.values.get("entries") for shown in face.get_state_history(graph, CFG)] == [
        ["in", "a", "X"],
        ["in", "a"],
        ["in"],
        [],
    ]
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("ask",))
    answer = Command(resume={waiting.tasks[0].interrupts[0].id: "Y"})
    assert face.invoke(graph, answer, waiting.config)["entries"] == ["in", "a", "Y"]
    assert face.get_state(graph, CFG).values == {"entries": ["in", "a", "Y"], "after": "b"}


def test_an_edit_of_an_old_thread_stores_the_new_names(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    graph = new_keys(backend.reopen())
    face.update_state(graph, CFG, {"entries": ["edited"]}, as_node="a")
    assert face.get_state(graph, CFG).values == {"entries": ["a", "edited"], "after": "b"}
    assert face.invoke(graph, Command(resume="X"), CFG)["entries"] == ["a", "edited", "X"]


def test_an_alias_costs_one_checkpoint_and_not_every_run(backend):
    """A long list is written anew once, and appended to from then on."""
    saver = backend.make()
    face_free = old_keys(saver)
    face_free.invoke({"log": ["x" * 2000] * 50}, CFG)
    graph = new_keys(saver, lambda state: {"entries": ["small"]})
    graph.invoke(Command(resume="X"), CFG)
    sizes = []
    for _ in range(3):
        before = stored_bytes(saver)
        graph.invoke({"entries": ["y"]}, CFG)
        sizes.append(stored_bytes(saver) - before)
    assert max(sizes) < 20_000


def stored_bytes(saver):
    _, lanes, parts = dump(saver)
    assert lanes
    return sum(len(row.data) for rows in parts for row in rows)


def test_two_old_keys_in_one_checkpoint_cannot_become_one(face, backend):
    saver = backend.make()
    face.invoke(old_keys(saver), {}, CFG)
    rows = dump(saver)
    builder = StateGraph(New).add_node("ask", ask_old).add_edge(START, "ask")
    graph = builder.compile(backend.reopen(), key_aliases={"log": "entries", "before": "entries"})
    with pytest.raises(MigrationError, match=r"'before'.*'log'.*'entries'"):
        face.invoke(graph, Command(resume="X"), CFG)
    assert dump(saver) == rows


@pytest.mark.parametrize(
    ("aliases", "text"),
    [({"old": "nowhere"}, "'nowhere'"), ({"log": "answer"}, "'log'.*is the name")],
    ids=["unknown", "in use"],
)
def test_aliases_of_keys_that_cannot_be_meant_are_refused(aliases, text):
    with pytest.raises(InvalidGraphError, match=text):
        _ = chain(a=says("a")).compile(key_aliases=aliases)


# --- migrate_state ---------------------------------------------------------------------------------------------------


class Total(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: int


def counting(seen):
    """old state -> new state: adds a key, and says how often it was called."""

    def migrate(values, version):
        seen.append(version)
        return {**values, "total": len(values.get("log", []))}

    return migrate


def version_one(saver):
    return chain(a=says("a"), ask=asks("?")).compile(saver, version="1")


def version_two(saver, migrate, ask=None):
    return chain(Total, a=says("a"), ask=ask or asks("?")).compile(saver, version="2", migrate_state=migrate)


def test_it_is_called_with_values_and_version_and_what_it_returns_is_the_state(face, backend):
    seen, given = [], []

    def ask(state):
        given.append(dict(state))
        return {"log": [interrupt("?")]}

    face.invoke(version_one(backend.make()), {"log": ["in"]}, CFG)
    graph = version_two(backend.reopen(), counting(seen), ask)
    assert face.get_state(graph, CFG).values == {"log": ["in", "a"], "total": 2}
    assert seen == ["1"]
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["in", "a", "X"], "total": 2}
    assert seen == ["1", "1"]
    assert given == [{"log": ["in", "a"], "total": 2}]


def test_once_a_checkpoint_has_the_new_values_it_is_not_called_any_more(face, backend):
    seen = []
    face.invoke(version_one(backend.make()), {}, CFG)
    face.invoke(version_two(backend.reopen(), counting(seen)), Command(resume="X"), CFG)
    seen.clear()
    graph = version_two(backend.reopen(), counting(seen))
    assert face.get_state(graph, CFG).values == {"log": ["a", "X"], "total": 1}
    face.invoke(graph, {"log": ["more"]}, CFG)
    assert seen == []
    plain = chain(Total, a=says("a"), ask=asks("?")).compile(backend.reopen(), version="2")
    assert face.get_state(plain, CFG).values["total"] == 1


def test_a_thread_of_the_same_version_is_never_migrated(face, backend):
    seen = []
    graph = version_two(backend.make(), counting(seen))
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume="X"), CFG)
    face.get_state_history(graph, CFG)
    assert seen == []


def test_a_thread_without_a_version_is_migrated_from_none(face, backend):
    seen = []
    face.invoke(chain(a=says("a"), ask=asks("?")).compile(backend.make()), {}, CFG)
    face.get_state(version_two(backend.reopen(), counting(seen)), CFG)
    assert seen == [""]


def test_what_is_stored_stays_and_history_is_migrated_as_it_is_read(face, backend):
    saver, seen = backend.make(), []
    face.invoke(version_one(saver), {"log": ["in"]}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), counting(seen))
    assert [shown.values["total"] for shown in face.get_state_history(graph, CFG)] == [2, 1, 0]
    assert len(seen) == 3
    assert dump(saver) == rows
    face.invoke(graph, Command(resume="X"), CFG)
    old = face.get_state_history(version_one(saver), CFG)
    assert [shown.values for shown in old[-3:]] == [{"log": ["in", "a"]}, {"log": ["in"]}, {"log": []}]


def test_it_may_change_values_in_place_without_touching_what_is_stored(face, backend):
    saver = backend.make()

    def migrate(values, version):
        values["log"].append("in place")
        values["total"] = 1
        return values

    face.invoke(version_one(saver), {}, CFG)
    graph = version_two(backend.reopen(), migrate)
    for _ in range(2):
        assert face.get_state(graph, CFG).values["log"] == ["a", "in place"]
    assert face.invoke(graph, Command(resume="X"), CFG)["log"] == ["a", "in place", "X"]
    assert face.get_state(graph, CFG).values == {"log": ["a", "in place", "X"], "total": 1}


def test_a_key_that_it_leaves_out_is_gone(face, backend):
    def migrate(values, version):
        return {"total": len(values["log"])}

    face.invoke(version_one(backend.make()), {"log": ["in"], "answer": "x"}, CFG)
    graph = version_two(backend.reopen(), migrate)
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["X"], "total": 2}
    assert face.get_state(graph, CFG).values == {"log": ["X"], "total": 2}
    assert face.get_state(version_one(backend.reopen()), CFG).values == {"log": ["X"]}


def test_it_sees_the_names_of_today(face, backend):
    seen = []
    face.invoke(old_keys(backend.make(), version="1"), {}, CFG)
    graph = new_keys(backend.reopen(), version="2", migrate_state=lambda values, version: seen.append(values) or values)
    face.get_state(graph, CFG)
    assert seen == [{"entries": ["a"], "after": "b"}]


def test_questions_and_results_of_siblings_stay_beside_migrated_values(face, backend):
    marks = Marks()

    def work(state):
        marks("work")
        return {"log": ["work"]}

    old = parallel(work=work, ask=asks("?")).compile(backend.make(), version="1")
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    seen = []
    new = parallel(Total, work=work, ask=asks("?"))
    graph = new.compile(backend.reopen(), version="2", migrate_state=counting(seen))
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["X", "work"], "total": 0}
    assert marks.count("work") == 1


def test_new_input_for_a_finished_old_thread_begins_with_migrated_values(face, backend):
    face.invoke(chain(a=says("a")).compile(backend.make(), version="1"), {}, CFG)
    graph = chain(Total, a=says("a")).compile(backend.reopen(), version="2", migrate_state=counting([]))
    assert face.invoke(graph, None, CFG) == {"log": ["a"], "total": 1}
    assert face.invoke(graph, {"log": ["in"]}, CFG) == {"log": ["a", "in", "a"], "total": 1}
    assert face.get_state(graph, CFG).values["total"] == 1


def test_branches_and_edits_of_old_checkpoints_begin_with_migrated_values(face, backend):
    old = version_one(backend.make())
    face.invoke(old, {"log": ["in"]}, CFG)
    face.invoke(old, Command(resume="X"), CFG)
    graph = version_two(backend.reopen(), counting([]))
    first = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("a",))
    result = face.invoke(graph, None, first.config)
    assert (result["log"], result["total"]) == (["in", "a"], 1)
    assert face.get_state(graph, CFG).values == {"log": ["in", "a"], "total": 1}
    face.update_state(graph, first.config, {"log": ["edited"]}, as_node="a")
    assert face.get_state(graph, CFG).values == {"log": ["in", "edited"], "total": 1}
    again = version_two(backend.reopen(), lambda values, version: pytest.fail("it was migrated already"))
    assert face.get_state(again, CFG).values == {"log": ["in", "edited"], "total": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_migrated_values_are_stored_with_every_durability(face, backend, durability):
    face.invoke(version_one(backend.make()), {}, CFG)
    graph = version_two(backend.reopen(), counting([]))
    face.invoke(graph, Command(resume="X"), CFG, durability=durability)
    plain = chain(Total, a=says("a"), ask=asks("?")).compile(backend.reopen(), version="2")
    assert face.get_state(plain, CFG).values == {"log": ["a", "X"], "total": 1}


def test_new_input_that_finishes_the_old_run_first_goes_on_with_migrated_values(face, backend):
    failing = [1]

    def ask(state):
        if failing:
            failing.clear()
            text = "down"
            raise ValueError(text)
        return {"log": ["asked"]}

    with pytest.raises(ValueError, match="down"):
        face.invoke(chain(a=says("a"), ask=ask).compile(backend.make(), version="1"), {}, CFG)
    graph = version_two(backend.reopen(), counting([]), ask)
    result = face.invoke(graph, {"log": ["in"]}, CFG, on_unfinished="finish")
    assert result == {"log": ["a", "asked", "in", "a", "asked"], "total": 1}


def test_what_it_raises_is_told_with_thread_and_version_and_nothing_is_changed(face, backend):
    saver = backend.make()

    def migrate(values, version):
        text = "no total"
        raise KeyError(text)

    face.invoke(version_one(saver), {}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), migrate)
    for call in (
        lambda: face.invoke(graph, Command(resume="X"), CFG),
        lambda: face.get_state(graph, CFG),
        lambda: face.get_state_history(graph, CFG),
        lambda: face.update_state(graph, CFG, {"total": 1}),
    ):
        with pytest.raises(MigrationError, match=r"no total.*'t'.*'1'") as caught:
            call()
        assert isinstance(caught.value.__cause__, KeyError)
    assert dump(saver) == rows
    assert face.invoke(version_one(backend.reopen()), Command(resume="X"), CFG)["log"] == ["a", "X"]


@pytest.mark.parametrize("found", [None, 7, [("log", [])]], ids=repr)
def test_what_is_no_mapping_is_refused(face, backend, found):
    face.invoke(version_one(backend.make()), {}, CFG)
    with pytest.raises(MigrationError, match=type(found).__name__):
        face.get_state(version_two(backend.reopen(), lambda values, version: found), CFG)


def test_a_new_key_that_the_state_does_not_have_is_refused(face, backend):
    face.invoke(version_one(backend.make()), {}, CFG)
    graph = version_two(backend.reopen(), lambda values, version: {**values, "totl": 1})
    with pytest.raises(MigrationError, match=r"'totl'.*'log'.*'total'"):
        face.get_state(graph, CFG)


def test_an_old_key_that_the_state_lost_may_come_along(face, backend):
    """`{**values, ...}` holds it."""
    face.invoke(old_keys(backend.make(), version="1"), {}, CFG)
    builder = chain(Total, a=says("a"), ask=asks("?"))
    graph = builder.compile(backend.reopen(), version="2", migrate_state=counting([]))
    assert face.get_state(graph, CFG).values == {"log": ["a"], "total": 1}


def test_a_value_that_cannot_be_stored_is_refused_before_anything_is(face, backend):
    saver = backend.make()
    face.invoke(version_one(saver), {}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), lambda values, version: {**values, "total": object()})
    with pytest.raises(UnserializableValueError, match=r"migrate_state.*'total'"):
        face.invoke(graph, Command(resume="X"), CFG)
    assert dump(saver) == rows


def test_migrate_state_needs_a_version():
    with pytest.raises(InvalidGraphError, match="version="):
        _ = chain(a=says("a")).compile(migrate_state=lambda values, version: values)


def test_an_async_migration_is_refused(face):
    async def migrate(values, version):
        return values

    with pytest.raises(InvalidGraphError, match="migrate_state"):
        _ = chain(a=says("a")).compile(version="2", migrate_state=migrate)


# --- states with rules -----------------------------------------------------------------------------------------------


class Basket(BaseModel):
    items: list[str] = []


class BasketWithOwner(BaseModel):
    items: list[str] = []
    owner: str


def basket(schema, saver, **more):
    seen = []
    builder = StateGraph(schema).add_node("fill", lambda state: {"items": ["apple"]})
    builder.add_node("count", seen.append).add_edge(START, "fill").add_edge("fill", "count")
    graph = builder.compile(saver, **more)
    return graph, seen


def test_a_new_required_field_is_named_and_the_old_thread_stays_readable(face, backend):
    saver = backend.make()
    old, _ = basket(Basket, saver, interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    new, _ = basket(BasketWithOwner, backend.reopen(), version="2")
    assert face.get_state(new, CFG).values == {"items": ["apple"]}
    with pytest.raises(InvalidValueError, match="owner"):
        face.invoke(new, None, CFG)
    assert face.get_state(new, CFG).values == {"items": ["apple"]}


def test_a_new_required_field_is_filled_by_a_migration(face, backend):
    old, _ = basket(Basket, backend.make(), interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    new, seen = basket(
        BasketWithOwner, backend.reopen(), version="2", migrate_state=lambda values, _: {**values, "owner": "unknown"}
    )
    assert face.invoke(new, None, CFG) == {"items": ["apple"], "owner": "unknown"}
    assert seen == [BasketWithOwner(items=["apple"], owner="unknown")]


def test_a_migrated_value_of_a_wrong_type_is_refused_and_named(face, backend):
    saver = backend.make()
    old, _ = basket(Basket, saver, interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    rows = dump(saver)
    new, _ = basket(BasketWithOwner, backend.reopen(), version="2", migrate_state=lambda values, _: {"owner": 7})
    with pytest.raises(MigrationError, match="owner"):
        face.invoke(new, None, CFG)
    assert dump(saver) == rows


def test_a_scalar_that_became_a_list_is_brought_over(face, backend):
    """Without a migration the reducer would add a list to a text."""

    class Text(TypedDict, total=False):
        notes: str
        other: int

    class Notes(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]
        other: int

    def made(schema, note, saver, **more):
        builder = (
            StateGraph(schema).add_node("a", lambda state: {"notes": note}).add_node("b", lambda state: {"notes": note})
        )
        return builder.add_edge(START, "a").add_edge("a", "b").compile(saver, interrupt_before=["b"], **more)

    face.invoke(made(Text, "first", backend.make()), {}, CFG)
    new = made(
        Notes,
        ["second"],
        backend.reopen(),
        version="2",
        migrate_state=lambda values, _: {**values, "notes": [values["notes"]]},
    )
    assert face.invoke(new, None, CFG)["notes"] == ["first", "second"]


def test_a_removed_key_does_not_make_a_breakpoint_fire_again(face, backend):
    class Wide(Log, total=False):
        gone: int

    old = chain(Wide, a=lambda state: {"log": ["a"], "gone": 1}, last=says("last"))
    face.invoke(old.compile(backend.make(), interrupt_before=["last"]), {}, CFG)
    new = chain(Log, a=says("a"), last=says("last")).compile(backend.reopen(), interrupt_before=["last"])
    assert face.invoke(new, None, CFG)["log"] == ["a", "last"]
