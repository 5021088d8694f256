"""Submitted runs: accepted at once, carried by a worker, in order, each to one end."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from durable_graph import Command, RunCancelled, RunControl, RunFailed, ThreadBusy, interrupt
from durable_graph.errors import (
    InvalidConfigError,
    InvalidInputError,
    NoCheckpointerError,
    RunNotFoundError,
    UnfinishedRunError,
    UnknownInterruptError,
    UnserializableValueError,
)
from tests.behaviour.queued import chain, given, note, on, worked


def ask(state):
    return {"log": [interrupt("go on?")]}


def boom(state):
    raise ValueError("too hot")


def test_a_submitted_run_waits_until_a_worker_carries_it_to_its_end(backend, face):
    ran = []

    def work(state):
        ran.append(len(state["log"]))
        return {"log": ["worked"]}

    graph = chain(backend.make(), note("first"), work)
    run = face.call(graph, "submit", given("in"), on("t"))
    record = face.call(graph, "get_run", run)
    assert (record.status, record.thread_id, record.graph, record.attempt, record.ended) == (
        "queued", "t", "chain", 0, False,
    )  # fmt: skip
    assert not ran
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "first", "worked"]}
    record = face.call(graph, "get_run", run)
    assert (record.status, record.attempt, record.error, record.ended, ran) == ("done", 1, None, True, [2])
    assert record.submitted_at <= record.started_at <= record.ended_at <= datetime.now(UTC) + timedelta(seconds=1)
    assert face.call(graph, "result", run) == face.invoke(graph, None, on("t"))


def test_a_run_without_a_thread_has_one_of_its_own(backend, face):
    graph = chain(backend.make(), note("a"))
    runs = [face.call(graph, "submit", given("in")) for _ in range(3)]
    worked(face, graph)
    assert [face.call(graph, "get_run", run).thread_id for run in runs] == runs
    assert [face.call(graph, "result", run) for run in runs] == [{"log": ["in", "a"]}] * 3


def test_the_same_run_submitted_twice_is_done_once(backend, face):
    graph = chain(backend.make(), note("a"))
    for _ in range(2):
        assert face.call(graph, "submit", given("in"), on("t"), run_id="order-7") == "order-7"
    worked(face, graph)
    assert face.call(graph, "submit", given("in"), on("t"), run_id="order-7") == "order-7"
    assert worked(face, graph) == 0
    assert face.call(graph, "result", "order-7") == {"log": ["in", "a"]}
    with pytest.raises(InvalidConfigError, match="run id 'order-7' is that of another run, of thread 't'"):
        face.call(graph, "submit", given("other"), on("t"), run_id="order-7")


def test_runs_of_one_thread_come_in_the_order_they_were_submitted(backend, face):
    graph = chain(backend.make(), note("a"))
    for number in range(5):
        face.call(graph, "submit", given(str(number)), on("t"), priority=number)
    assert worked(face, graph, concurrency=3) == 5
    assert face.get_state(graph, on("t")).values["log"] == [word for n in range(5) for word in (str(n), "a")]


def test_of_other_threads_the_one_with_the_highest_priority_comes_first(backend, face):
    order = []
    graph = chain(backend.make(), lambda state: order.append(state["log"][0]))
    for number in (0, 2, 1):
        face.call(graph, "submit", given(str(number)), priority=number)
    worked(face, graph, concurrency=1)
    assert order == ["2", "1", "0"]


def test_a_run_is_not_begun_before_its_time(backend, face):
    graph = chain(backend.make(), note("a"))
    later = face.call(graph, "submit", given("in"), not_before=3600)
    on_time = face.call(graph, "submit", given("in"), not_before=datetime.now(UTC) - timedelta(hours=1))
    assert worked(face, graph) == 1
    record = face.call(graph, "get_run", later)
    assert record.status == "queued"
    assert timedelta(minutes=59) < record.due_at - datetime.now(UTC) <= timedelta(hours=1)
    assert face.call(graph, "get_run", on_time).status == "done"
    with pytest.raises(InvalidConfigError, match="has no time zone"):
        face.call(graph, "submit", given("in"), not_before=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(InvalidConfigError, match="seconds from now"):
        face.call(graph, "submit", given("in"), not_before=-1)


def test_a_thread_that_has_a_run_may_refuse_another_or_drop_it(backend, face):
    graph = chain(backend.make(), note("a"))
    first = face.call(graph, "submit", given("1"), on("t"))
    with pytest.raises(ThreadBusy, match=f"has a run that has not ended: '{first}' is queued"):
        face.call(graph, "submit", given("2"), on("t"), policy="reject")
    second = face.call(graph, "submit", given("3"), on("t"), policy="replace")
    assert face.call(graph, "get_run", first).status == "cancelled"
    worked(face, graph)
    assert face.call(graph, "result", second) == {"log": ["3", "a"]}
    assert face.call(graph, "submit", given("4"), on("t"), policy="reject")
    with pytest.raises(InvalidConfigError, match="unknown policy 'drop'; known: queue, reject, replace"):
        face.call(graph, "submit", given("5"), on("t"), policy="drop")


def test_an_answer_goes_to_the_run_that_asked(backend, face):
    graph = chain(backend.make(), note("a"), ask)
    run = face.call(graph, "submit", given("in"), on("t"))
    behind = face.call(graph, "submit", given("next"), on("t"))
    assert worked(face, graph) == 0
    record = face.call(graph, "get_run", run)
    assert (record.status, [one.value for one in record.interrupts]) == ("waiting", ["go on?"])
    assert face.call(graph, "get_run", behind).status == "queued"
    shown = face.call(graph, "result", run)
    assert (shown["log"], [one.value for one in shown["__interrupt__"]]) == (["in", "a"], ["go on?"])
    assert face.call(graph, "submit", Command(resume="yes"), on("t")) == run
    with pytest.raises(UnknownInterruptError, match=r"was answered before, and run .* has not taken the answer yet"):
        face.call(graph, "submit", Command(resume="no"), on("t"))
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "a", "yes"]}
    assert face.call(graph, "get_run", run).attempt == 2
    assert face.call(graph, "get_run", behind).status == "waiting"
    assert face.get_state(graph, on("t")).values == {"log": ["in", "a", "yes", "next", "a"]}


def test_an_answer_to_a_run_that_nobody_queued_is_a_run(backend, face):
    graph = chain(backend.make(), ask)
    face.invoke(graph, given("in"), on("t"))
    run = face.call(graph, "submit", Command(resume="yes"), on("t"))
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "yes"]}


def test_a_run_whose_question_was_answered_past_the_queue_ends_too(backend, face):
    graph = chain(backend.make(), ask)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    assert face.invoke(graph, Command(resume="by hand"), on("t")) == {"log": ["in", "by hand"]}
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "by hand"]}


def test_an_answer_to_nothing_is_refused_at_once(backend, face):
    graph = chain(backend.make(), ask)
    with pytest.raises(UnknownInterruptError, match="no interrupt of this thread is open"):
        face.call(graph, "submit", Command(resume="yes"), on("t"))
    with pytest.raises(InvalidInputError, match="answers nothing"):
        face.call(graph, "submit", Command(update={"log": ["x"]}), on("t"))
    assert face.call(graph, "list_runs") == []


def test_a_run_that_fails_says_why_and_leaves_its_thread(backend, face):
    graph = chain(backend.make(), note("a"), boom)
    run = face.call(graph, "submit", given("in"), on("t"))
    assert worked(face, graph) == 1
    assert face.call(graph, "get_run", run).error == "ValueError: too hot"
    with pytest.raises(RunFailed, match=rf"run '{run}' of thread 't' failed: ValueError: too hot") as failed:
        face.call(graph, "result", run)
    assert "in boom" in failed.value.trace
    assert failed.value.run.status == "failed"
    mended = chain(backend.reopen(), note("a"), lambda state: {"log": ["mended"]}, name="chain")
    assert face.get_state(mended, on("t")).next == ("boom",)


def test_a_node_that_wants_to_end_the_process_ends_its_run(backend, face):
    graph = chain(backend.make(), lambda state: sys.exit("enough"))
    run, other = face.call(graph, "submit", given("in")), face.call(graph, "submit", given("in"))
    assert worked(face, graph) == 2
    assert {face.call(graph, "get_run", one).error for one in (run, other)} == {"SystemExit: enough"}


def test_after_a_failed_run_new_input_is_refused_unless_the_run_says_what_to_do(backend, face):
    graph = chain(backend.make(), boom)
    for options in ({}, {}, {"on_unfinished": "abandon"}):
        face.call(graph, "submit", given("in"), on("t"), **options)
    worked(face, graph)
    third, second, first = face.call(graph, "list_runs", thread_id="t")
    assert first.error == third.error == "ValueError: too hot"
    assert second.error.startswith(UnfinishedRunError.__name__)


def test_a_cancelled_run_does_not_begin(backend, face):
    graph = chain(backend.make(), boom)
    run = face.call(graph, "submit", given("in"), on("t"))
    assert face.call(graph, "cancel", run).status == "cancelled"
    assert face.call(graph, "cancel", run).status == "cancelled"
    assert worked(face, graph) == 0
    with pytest.raises(RunCancelled, match=f"run '{run}' of thread 't' was cancelled"):
        face.call(graph, "result", run)


def test_a_run_is_cancelled_before_its_next_superstep_and_the_next_of_its_thread_begins_anew(backend, face):
    saver = backend.make()

    def first(state):
        if state["log"] == ["in"]:
            graph.cancel(graph.list_runs(status="running")[0].id)
            while not graph_control_is_drained():
                pass
        return {"log": ["first"]}

    def graph_control_is_drained():
        from durable_graph import get_runtime

        return get_runtime().drain_requested

    graph = chain(saver, first, note("second"))
    run = graph.submit(given("in"), on("t"))
    after = graph.submit(given("next"), on("t"))
    worked(face, graph)
    assert face.call(graph, "get_run", run).status == "cancelled"
    assert face.call(graph, "result", after) == {"log": ["in", "first", "next", "first", "second"]}


def test_a_waiting_run_is_cancelled_at_once(backend, face):
    graph = chain(backend.make(), ask)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    assert face.call(graph, "cancel", run).status == "cancelled"
    after = face.call(graph, "submit", given("again"), on("t"))
    worked(face, graph)
    assert face.call(graph, "get_run", after).status == "waiting"


def test_a_worker_that_is_asked_to_stop_gives_its_runs_back(backend, face):
    control = RunControl()
    seen = []

    def first(state):
        seen.append("first")
        control.request_drain("SIGTERM")
        while not drained():
            pass
        return {"log": ["first"]}

    def drained():
        from durable_graph import get_runtime

        return get_runtime().drain_reason == "SIGTERM"

    graph = chain(backend.make(), first, note("second"))
    run = face.call(graph, "submit", given("in"), on("t"))
    assert face.call(graph, "work", poll=0.02, control=control) == 0
    assert face.call(graph, "get_run", run).status == "queued"
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "first", "second"]}
    assert seen == ["first"]


def test_a_worker_takes_only_runs_of_its_graph(backend, face):
    saver = backend.make()
    one, other = chain(saver, note("a"), name="one"), chain(saver, note("b"), name="other")
    run = face.call(one, "submit", given("in"))
    assert worked(face, other) == 0
    assert face.call(other, "list_runs") == []
    assert worked(face, one) == 1
    assert face.call(other, "result", run) == {"log": ["in", "a"]}


def test_runs_are_listed_newest_first_page_by_page(backend, face):
    graph = chain(backend.make(), note("a"))
    runs = [face.call(graph, "submit", given(str(number)), on(f"t{number % 2}")) for number in range(5)]
    worked(face, graph)
    last = face.call(graph, "submit", given("5"), on("t0"))
    listed = [record.id for record in face.call(graph, "list_runs")]
    assert listed == [last, *reversed(runs)]
    assert [record.id for record in face.call(graph, "list_runs", limit=2, before=listed[1])] == listed[2:4]
    assert [record.id for record in face.call(graph, "list_runs", status="queued")] == [last]
    assert [record.id for record in face.call(graph, "list_runs", thread_id="t1")] == [runs[3], runs[1]]
    with pytest.raises(InvalidConfigError, match="unknown status 'over'; known: queued, running, waiting, done"):
        face.call(graph, "list_runs", status="over")


def test_what_is_not_there_is_named(backend, face):
    graph = chain(backend.make(), note("a"))
    for call in (("get_run", "x"), ("result", "x"), ("cancel", "x")):
        with pytest.raises(RunNotFoundError, match="there is no run 'x'"):
            face.call(graph, *call)
    with pytest.raises(RunNotFoundError, match="there is no run 'x'"):
        face.call(graph, "list_runs", before="x")


def test_waiting_for_a_result_ends_in_time(backend, face):
    graph = chain(backend.make(), note("a"))
    run = face.call(graph, "submit", given("in"), not_before=60)
    with pytest.raises(TimeoutError, match=f"run '{run}' has not ended after 0.05 s: it is queued"):
        face.call(graph, "result", run, 0.05)


def test_input_that_does_not_fit_is_refused_when_it_is_submitted(backend, face):
    graph = chain(backend.make(), note("a"))
    with pytest.raises(InvalidInputError, match="the input has key 'lag'"):
        face.call(graph, "submit", {"lag": []}, on("t"))
    with pytest.raises(UnserializableValueError, match="the context of a run cannot be stored"):
        face.call(graph, "submit", given("in"), on("t"), context=object())
    with pytest.raises(UnserializableValueError, match="the config of a run cannot be stored"):
        face.call(graph, "submit", given("in"), {"configurable": {"thread_id": "t", "client": object()}})
    with pytest.raises(InvalidConfigError, match=r"config\['callbacks'\] cannot be stored"):
        face.call(graph, "submit", given("in"), {**on("t"), "callbacks": [object()]})
    with pytest.raises(InvalidConfigError, match="run_id is empty"):
        face.call(graph, "submit", given("in"), on("t"), run_id=" ")
    assert face.call(graph, "list_runs") == []


def test_a_graph_without_a_checkpointer_keeps_no_runs(face):
    graph = chain(None, note("a"))
    with pytest.raises(NoCheckpointerError, match="graph 'chain' has no checkpointer, so it can keep no runs"):
        face.call(graph, "submit", given("in"))


def test_context_config_and_options_go_along(backend, face):
    from durable_graph import get_config, get_runtime

    def look(state):
        return {"log": [get_runtime().context["who"], get_config()["configurable"]["tone"], *get_config()["tags"]]}

    graph = chain(backend.make(), look, note("b"))
    config = {"configurable": {"thread_id": "t", "tone": "dry"}, "tags": ["x"], "metadata": {"user": 7}}
    run = face.call(graph, "submit", given("in"), config, context={"who": "me"}, interrupt_before=["b"])
    worked(face, graph)
    record = face.call(graph, "get_run", run)
    assert (record.status, record.interrupts) == ("waiting", ())
    assert face.call(graph, "result", run) == {"log": ["in", "me", "dry", "x"]}
    assert face.get_state(graph, on("t")).metadata["user"] == 7
    face.invoke(graph, None, on("t"))
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "me", "dry", "x", "b"]}


def test_a_run_with_no_input_goes_on_with_what_its_thread_has(backend, face):
    fail = [True]

    def sometimes(state):
        if fail:
            raise ValueError("not yet")
        return {"log": ["at last"]}

    graph = chain(backend.make(), sometimes)
    face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    fail.clear()
    run = face.call(graph, "submit", None, on("t"))
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "at last"]}


def test_a_node_may_submit_runs(backend, face):
    saver = backend.make()
    other = chain(saver, note("b"), name="other")
    graph = chain(saver, lambda state: {"log": [other.submit(given("from a node"), run_id="child")]}, name="one")
    face.call(graph, "submit", given("in"))
    assert worked(face, graph) == 1
    assert worked(face, other) == 1
    assert face.call(other, "result", "child") == {"log": ["from a node", "b"]}


@pytest.mark.parametrize(("choice", "status"), [("abandon", "cancelled"), ("finish", "done")])
def test_a_run_that_somebody_ended_past_the_queue_says_how(backend, face, choice, status):
    fail = [True]

    def sometimes(state):
        if fail:
            raise ConnectionError("not yet")
        return {"log": ["at last"]}

    control = RunControl()

    def drain(state):
        control.request_drain("by hand")
        while not stopped():
            pass

    def stopped():
        from durable_graph import get_runtime

        return get_runtime().drain_requested

    graph = chain(backend.make(), drain, sometimes)
    run = face.call(graph, "submit", given("in"), on("t"))
    face.call(graph, "work", poll=0.02, control=control)
    assert face.call(graph, "get_run", run).status == "queued"
    fail.clear()
    quick = chain(graph.checkpointer, note("drain"), sometimes)
    face.invoke(quick, given("other"), on("t"), on_unfinished=choice)
    worked(face, graph)
    assert face.call(graph, "get_run", run).status == status
    if status == "done":
        assert face.call(graph, "result", run) == {"log": ["in", "at last"]}


def test_a_graph_that_has_a_thread_of_its_own_submits_to_that_one(backend, face):
    graph = chain(backend.make(), note("a")).with_config(on("mine"))
    run = face.call(graph, "submit", given("in"))
    assert face.call(graph, "get_run", run).thread_id == "mine"
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "a"]}


def test_the_same_answer_given_twice_is_one_answer(backend, face):
    graph = chain(backend.make(), ask)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    for _ in range(2):
        assert face.call(graph, "submit", Command(resume="yes"), on("t")) == run
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "yes"]}


def test_a_run_that_holds_its_own_thread_up_fails_and_is_not_put_off_for_ever(backend, face):
    saver = backend.make()
    other = chain(saver, note("b"), name="other")
    graph = chain(saver, lambda state: other.invoke(given("again"), on("t")))
    run = face.call(graph, "submit", given("in"), on("t"))
    assert worked(face, graph) == 1
    assert face.call(graph, "get_run", run).error.startswith("ThreadBusy: node")
