"""What a request means for the checkpoint it finds."""

import pytest

from durable_graph.core.opening import answers_of, check_request, open_interrupts, unfinished
from durable_graph.core.request import Request
from durable_graph.errors import EmptyInputError, UnfinishedRunError, UnknownInterruptError
from durable_graph.records import Address, Frontier, StepRecord, StoredCheckpoint, TaskRecord
from durable_graph.types import MISSING, Interrupt, Send

ASKED = Interrupt("sure?", "intr_" + "a" * 32)
OTHER = Interrupt("really?", "intr_" + "b" * 32)


def stored(*nodes, sends=(), stop=None, pending=(), answers=None):
    step = StepRecord(3, "loop", {}, Frontier(nodes, sends), stop=stop)
    known = {task.path: task for task in pending}
    return StoredCheckpoint(Address(1, 5, 9), None, {}, {}, step, known, answers or {})


def waiting(path, *interrupts):
    return TaskRecord(path, path, "", interrupts=interrupts)


def request(kind="input", **fields):
    return Request("t", kind, 25, lambda value: value, durable=True, **fields)


def test_a_thread_is_unfinished_while_something_is_to_run():
    assert not unfinished(None)
    assert not unfinished(stored())
    assert unfinished(stored("a"))
    assert unfinished(stored(sends=(Send("a", 1),)))


def test_open_interrupts_come_in_path_order_without_those_that_were_answered():
    found = stored(
        "a",
        "b",
        "c",
        pending=[waiting("b", OTHER), waiting("a", ASKED), TaskRecord("c", "c", "", writes=(), interrupts=(ASKED,))],
    )
    assert open_interrupts(found) == [ASKED, OTHER]
    found.answers[ASKED.id] = None
    assert open_interrupts(found) == [OTHER]


@pytest.mark.parametrize("found", [None, stored()])
def test_input_starts_a_run_on_a_new_or_finished_thread(found):
    assert check_request(request(), found) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (stored("a", pending=[waiting("a", ASKED)]), rf"waits for an answer to {ASKED.id} \('sure\?'\)"),
        (stored("b", sends=(Send("a", 1),), stop="before"), "stopped at a breakpoint before a, b"),
        (stored("b", stop="after"), "stopped at a breakpoint before b"),
        (stored("b", sends=(Send("b", 1), Send("a", 1))), "was cut short before a, b had finished"),
    ],
    ids=["asked", "before", "after", "cut short"],
)
def test_input_on_an_unfinished_thread_is_refused_and_told_why(found, why):
    with pytest.raises(UnfinishedRunError, match=f"new input for thread 't', whose last run {why}"):
        check_request(request(), found)
    assert check_request(request(on_unfinished="abandon"), found) is None


@pytest.mark.parametrize("wanted", [request("continue"), request("command", resume=None)])
def test_a_thread_without_a_run_cannot_go_on(wanted):
    with pytest.raises(EmptyInputError, match="thread 't' has no run that could go on"):
        check_request(wanted, None)
    assert check_request(wanted, stored("a")) is None


def test_a_command_that_routes_may_start_a_thread():
    assert check_request(request("command", routes=["a"]), None) is None


def test_answers_are_those_of_the_command():
    found = stored("a", pending=[waiting("a", ASKED)])
    assert answers_of(request("command"), found) == {}
    assert answers_of(request("command", resume=None), found) == {ASKED.id: None}
    with pytest.raises(UnknownInterruptError):
        answers_of(request("command", resume=1), None)


def test_going_on_is_the_same_call_without_its_input():
    wanted = request(writes=["w"], routes=["r"], resume=1)
    going = wanted.continuing()
    assert (going.kind, going.writes, going.routes, going.resume) == ("continue", (), (), MISSING)
    assert going.thread == "t"
    assert wanted.kind == "input"
