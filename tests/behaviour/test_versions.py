"""Threads that an older version of the code stored, and nodes that have other names since.

Each test has two versions of a graph. What is stored stays as it is; the next checkpoint has the new names.
"""

import threading

import pytest

from durable_graph import END, START, Command, RetryPolicy, Send, StateGraph, interrupt, once
from durable_graph.errors import (
    InvalidGraphError,
    UnknownNodeError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel, thread
from tests.behaviour.two_versions import CFG, asks, renamed

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
