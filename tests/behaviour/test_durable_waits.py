"""Waits inside nodes that hold no process: for a time, for an event, for an answer that has a deadline."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from durable_graph import (
    START,
    Command,
    StateGraph,
    await_for_event,
    entrypoint,
    interrupt,
    once,
    sleep,
    sleep_until,
    wait_for_event,
)
from durable_graph.errors import InvalidConfigError, InvalidValueError, NoCheckpointerError, OutsideRunError
from tests.behaviour.queued import Log, chain, given, note, on, worked


def carried(face, graph, run, seconds=5.0):
    """Work until the run ended."""
    until = time.monotonic() + seconds
    while not face.call(graph, "get_run", run).ended:
        worked(face, graph)
        assert time.monotonic() < until, face.call(graph, "get_run", run)
        time.sleep(0.01)
    return face.call(graph, "result", run)


# --- times -----------------------------------------------------------------------------------------------------------


def test_a_sleeping_run_holds_no_process_and_goes_on_when_its_time_has_come(backend, face):
    ran = []

    def nap(state):
        ran.append(once("before", lambda: len(ran)))
        sleep(0.2)
        return {"log": ["awake"]}

    graph = chain(backend.make(), nap, note("b"))
    began = time.time()
    run = face.call(graph, "submit", given("in"), on("t"))
    assert worked(face, graph) == 0
    record = face.call(graph, "get_run", run)
    (wait,) = record.interrupts
    assert (record.status, wait.kind, wait.value) == ("waiting", "sleep", {"sleep": 0.2})
    assert began + 0.2 <= wait.deadline <= time.time() + 0.2
    assert abs(record.due_at.timestamp() - wait.deadline) < 0.01
    assert carried(face, graph, run) == {"log": ["in", "awake", "b"]}
    assert time.time() - began >= 0.2
    assert ran == [0, 0]


def test_a_sleep_that_was_begun_is_not_begun_anew(backend, face):
    def nap(state):
        sleep(0.3)
        return {"log": ["awake"]}

    graph = chain(backend.make(), nap)
    (first,) = face.invoke(graph, given("in"), on("t"))["__interrupt__"]
    (again,) = face.invoke(graph, None, on("t"))["__interrupt__"]
    assert again == first
    time.sleep(max(0.0, first.deadline - time.time()))
    assert face.invoke(graph, None, on("t")) == {"log": ["in", "awake"]}


def test_one_node_sleeps_several_times(backend, face):
    def naps(state):
        for _ in range(3):
            sleep(0.05)
        sleep(timedelta(milliseconds=50), key="last")
        sleep(0)
        sleep(-1)
        return {"log": ["awake"]}

    graph = chain(backend.make(), naps)
    run = face.call(graph, "submit", given("in"), on("t"))
    began = time.monotonic()
    assert carried(face, graph, run) == {"log": ["in", "awake"]}
    assert time.monotonic() - began >= 0.2
    assert face.call(graph, "get_run", run).attempt == 5


def test_a_time_that_has_passed_is_not_waited_for(backend, face):
    times = [datetime.now(UTC) + timedelta(days=1)]

    def until(state):
        sleep_until(datetime.now(UTC) - timedelta(days=1))
        sleep_until(times[0])
        return {"log": ["awake"]}

    graph = chain(backend.make(), until)
    (wait,) = face.invoke(graph, given("in"), on("t"))["__interrupt__"]
    assert (wait.kind, wait.deadline) == ("sleep", times[0].timestamp())
    assert wait.value == {"sleep_until": times[0].isoformat()}
    times[0] = datetime.now(UTC) + timedelta(seconds=0.1)
    (other,) = face.invoke(graph, given("in"), on("u"))["__interrupt__"]
    time.sleep(max(0.0, other.deadline - time.time()))
    assert face.invoke(graph, None, on("u")) == {"log": ["in", "awake"]}


def test_an_answer_ends_a_sleep_early(backend, face):
    def nap(state):
        sleep(3600)
        return {"log": ["awake"]}

    graph = chain(backend.make(), nap)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    assert face.call(graph, "submit", Command(resume="wake up"), on("t")) == run
    worked(face, graph)
    assert face.call(graph, "result", run) == {"log": ["in", "awake"]}


def test_async_nodes_and_graphs_inside_sleep_too(backend, face):
    async def nap(state):
        sleep(0.1)
        return {"log": ["inside"]}

    inner = StateGraph(Log).add_node("nap", nap).add_edge(START, "nap").compile()
    graph = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(backend.make(), name="outer")
    run = face.call(graph, "submit", given("in"), on("t"))
    assert carried(face, graph, run)["log"][-1] == "inside"


def test_branches_that_sleep_for_different_times_wake_each_in_its_time(backend, face):
    order = []

    def nap(seconds):
        def node(state):
            sleep(seconds)
            order.append(seconds)

        return node

    builder = StateGraph(Log)
    for seconds in (0.4, 0.1):
        builder.add_node(f"nap{seconds}", nap(seconds)).add_edge(START, f"nap{seconds}")
    graph = builder.compile(backend.make(), name="naps")
    run = face.call(graph, "submit", given("in"), on("t"))
    carried(face, graph, run)
    assert order == [0.1, 0.4]


def test_workflows_sleep(backend, face):
    @entrypoint(backend.make(), name="flow")
    def flow(word):
        sleep(0.05)
        return f"{word}!"

    run = face.call(flow, "submit", "hey", on("t"))
    assert carried(face, flow, run) == "hey!"


# --- events ----------------------------------------------------------------------------------------------------------


def waits(state):
    return {"log": [wait_for_event("paid", "7")]}


async def waits_async(state):
    return {"log": [await await_for_event("paid", "7")]}


@pytest.mark.parametrize("node", [waits, waits_async])
def test_a_run_goes_on_when_the_event_happens(backend, face, node):
    graph = chain(backend.make(), node)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    record = face.call(graph, "get_run", run)
    assert [(one.kind, one.value) for one in record.interrupts] == [("event", {"event": "paid", "key": "7"})]
    assert record.due_at is None
    assert face.call(graph, "send_event", "paid", "8", "other") is True
    assert worked(face, graph) == 0
    assert face.call(graph, "get_run", run).attempt == 1
    assert face.call(graph, "send_event", "paid", "7", "first") is True
    assert face.call(graph, "send_event", "paid", "7", "second") is False
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "first"]}


def test_an_event_that_came_early_is_kept(backend, face):
    graph = chain(backend.make(), waits)
    face.call(graph, "send_event", "paid", "7", "early")
    assert face.invoke(graph, given("in"), on("t")) == {"log": ["in", "early"]}
    assert face.invoke(graph, given("in"), on("u")) == {"log": ["in", "early"]}


def test_an_event_that_does_not_come_in_time_is_an_error_that_stays_one(backend, face):
    told = []

    def impatient(state):
        try:
            wait_for_event("paid", timeout=0.1)
        except TimeoutError as error:
            told.append(str(error))
        return {"log": [interrupt("and now?")]}

    graph = chain(backend.make(), impatient)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    time.sleep(0.11)
    worked(face, graph)
    face.call(graph, "send_event", "paid", data="too late")
    face.call(graph, "submit", Command(resume="done"), on("t"))
    assert carried(face, graph, run) == {"log": ["in", "done"]}
    assert told == ["event 'paid' (key '') did not happen within 0.1 s"] * 2


def test_an_event_that_does_not_come_in_time_may_have_a_default(backend, face):
    graph = chain(
        backend.make(), lambda state: {"log": [wait_for_event("paid", timeout=timedelta(seconds=0.1), default="none")]}
    )
    run = face.call(graph, "submit", given("in"), on("t"))
    assert carried(face, graph, run) == {"log": ["in", "none"]}


def test_an_event_that_comes_while_the_run_parks_is_not_missed(backend, face):
    saver = backend.make()

    def late(state):
        try:
            return {"log": [wait_for_event("paid")]}
        finally:
            graph.send_event("paid", data="meanwhile")  # it was looked for, and the run is not parked yet

    graph = chain(saver, late)
    run = face.call(graph, "submit", given("in"), on("t"))
    assert worked(face, graph) == 1
    assert face.call(graph, "result", run) == {"log": ["in", "meanwhile"]}


def test_what_an_event_brought_is_asked_for_once(backend, face):
    graph = chain(backend.make(), lambda state: {"log": [wait_for_event("paid"), interrupt("ok?")]})
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    face.call(graph, "send_event", "paid", data={"sum": 7})
    worked(face, graph)
    assert face.call(graph, "get_run", run).interrupts[0].kind == "question"
    face.call(graph, "submit", Command(resume="ok"), on("t"))
    assert carried(face, graph, run) == {"log": ["in", {"sum": 7}, "ok"]}


# --- questions with a deadline ---------------------------------------------------------------------------------------


def test_a_question_that_nobody_answers_in_time_has_its_default(backend, face):
    seen = []

    def ask(state):
        answer = interrupt("ship?", timeout=0.1, default="no")
        seen.append(answer)
        return {"log": [answer, interrupt("sure?")]}

    graph = chain(backend.make(), ask)
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    (asked,) = face.call(graph, "get_run", run).interrupts
    assert (asked.kind, asked.default, asked.value) == ("question", "no", "ship?")
    time.sleep(0.11)
    worked(face, graph)
    face.call(graph, "submit", Command(resume="yes"), on("t"))
    assert carried(face, graph, run) == {"log": ["in", "no", "yes"]}
    assert seen == ["no", "no"]


def test_an_answer_in_time_is_the_answer(backend, face):
    graph = chain(backend.make(), lambda state: {"log": [interrupt("ship?", timeout=60, default="no")]})
    run = face.call(graph, "submit", given("in"), on("t"))
    worked(face, graph)
    face.call(graph, "submit", Command(resume="yes"), on("t"))
    assert carried(face, graph, run) == {"log": ["in", "yes"]}


def test_a_question_without_a_default_is_an_error_when_its_time_is_over(backend, face):
    def ask(state):
        try:
            return {"log": [interrupt("ship?", timeout=0.1)]}
        except TimeoutError as error:
            return {"log": [str(error)]}

    graph = chain(backend.make(), ask)
    face.invoke(graph, given("in"), on("t"))
    time.sleep(0.11)
    assert face.invoke(graph, None, on("t")) == {"log": ["in", "nobody answered 'ship?' within 0.1 s"]}


def test_the_default_is_stored_like_an_answer(backend, face):
    graph = chain(
        backend.make(), lambda state: {"log": [interrupt("n?", timeout=0.05, default=3, response_schema=int)]}
    )
    face.invoke(graph, given("in"), on("t"))
    (asked,) = face.get_state(graph, on("t")).interrupts
    time.sleep(0.06)
    face.invoke(graph, None, on("t"))
    before = face.get_state_history(graph, on("t"))[1]
    assert before.tasks[0].answered == (asked.id,)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def fails(face, node, checkpointer="memory://"):
    return face.invoke(chain(checkpointer, node), given("in"), on("t"))


def test_wrong_times_are_refused(face):
    with pytest.raises(InvalidConfigError, match=r"sleep\(\) got nan"):
        fails(face, lambda state: sleep(float("nan")))
    with pytest.raises(InvalidConfigError, match="expected a datetime with a time zone"):
        fails(face, lambda state: sleep_until(datetime(2030, 1, 1)))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(InvalidConfigError, match=r"wait_for_event\(\) got True"):
        fails(face, lambda state: wait_for_event("x", timeout=True))
    with pytest.raises(InvalidConfigError, match="expected more than 0 seconds"):
        fails(face, lambda state: interrupt("x", timeout=0))
    with pytest.raises(InvalidConfigError, match="nobody would ever take it"):
        fails(face, lambda state: interrupt("x", default=1))
    with pytest.raises(InvalidValueError, match="the default of a question"):
        fails(face, lambda state: interrupt("x", timeout=1, default="one", response_schema=int))


def test_who_stores_nothing_cannot_wait(face):
    for wait in (lambda state: sleep(1), lambda state: wait_for_event("x")):
        with pytest.raises(NoCheckpointerError):
            face.invoke(chain(None, wait), given("in"))


def test_outside_of_a_node_nothing_waits():
    for wait in (lambda: sleep(1), lambda: sleep_until(datetime.max.replace(tzinfo=UTC)), lambda: wait_for_event("x")):
        with pytest.raises(OutsideRunError):
            wait()
