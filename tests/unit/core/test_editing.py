"""Edits as a script: which effects, in which order, and what one batch holds. Nobody runs a node here."""

import operator
import warnings
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from durable_graph import END, START, Send, StateGraph, interrupt
from durable_graph.core.editing import Edit, _same, edit_thread
from durable_graph.core.effects import Flush, Launch, Load, Persist
from durable_graph.core.request import Request
from durable_graph.errors import EmptyInputError, InvalidUpdateError
from durable_graph.graph.calls import taking
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import own
from durable_graph.records import Address, CallRecord, Frontier, StepRecord, StoredCheckpoint, TaskRecord, Write
from durable_graph.runtime.attempt import perform
from durable_graph.runtime.blocking import call_here
from durable_graph.runtime.context import RunContext
from durable_graph.types import Interrupt

HERE = Address(1, 5, 9)


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    note: str


def built(**routers):
    """Nodes a to e; a leads to b and c, b to d. Routers by node."""
    builder = StateGraph(State)
    for name in "abcde":
        builder.add_node(name, lambda state: interrupt("never run"))
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("b", "d")
    for name, router in routers.items():
        builder.add_conditional_edges(name, router, [*"abcde", END])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nothing leads to e
        return builder.compile()


def stored(*nodes, sends=(), pending=(), answers=None, calls=(), ran=("a",), past=False, **values):
    step = StepRecord(3, "loop", {}, Frontier(nodes, tuple(sends)))
    known = {task.path: task for task in pending}
    return StoredCheckpoint(HERE, None, values, {}, step, known, answers or {}, tuple(calls), past, ran=ran)


def finished(path, *, routes=(), **writes):
    return TaskRecord(
        path, path.partition("#")[0], "", writes=tuple(Write(*one) for one in writes.items()), routes=routes
    )


def waits(path, *questions, answered=()):
    asked = tuple(Interrupt(one, f"id of {one}") for one in questions)
    return TaskRecord(path, path.partition("#")[0], "", interrupts=asked, answered=answered)


class Played:
    """A script of edits, performed. `effects` are its kinds; `batch` is what it stored."""

    def __init__(self, graph, checkpoint, *supersteps):
        self.effects, self.batch = [], None
        request = Request("t", "edit", 25, own, durable=True, flush=True)
        shared = RunContext(graph.program, {}, CODEC.encode)
        script = edit_thread(graph.program, request, supersteps, taking, shared.watch)
        reply = None
        while True:
            try:
                effect = script.send(reply)
            except StopIteration as end:
                self.address = end.value
                return
            self.effects.append(type(effect))
            reply = None
            if type(effect) is Load:
                reply = checkpoint
            elif type(effect) is Launch:
                reply = [perform_here(task, shared) for task in effect.tasks]
            elif type(effect) is Persist:
                self.batch = effect.batch
                reply = [Address(1, 6 + number, 10) for number in range(len(effect.batch.steps))]

    @property
    def step(self):
        return self.batch.steps[-1]

    @property
    def ahead(self):
        frontier = self.step.frontier
        return [*frontier.nodes, *((send.node, send.arg) for send in frontier.sends)]

    def known(self):
        return {task.path: task for task in self.batch.pending.tasks}


def perform_here(task, shared):
    return perform(task, shared, call_here)


def values(step):
    return {key: change.value for key, change in step.changes.items()}


def test_an_edit_loads_asks_routers_stores_once_and_waits_until_that_is_durable():
    played = Played(built(), stored("b", "c"), [Edit({"note": "e"})])
    assert played.effects == [Load, Launch, Persist, Flush]
    assert played.address == Address(1, 6, 10)
    assert (played.step.source, played.step.step, played.ahead) == ("update", 4, ["b", "c"])
    assert played.batch.status == "waiting"


def test_chained_supersteps_are_one_batch_with_values_of_their_own():
    steps = [[Edit({"log": [name]}, name)] for name in "abd"]
    played = Played(built(), stored("b", "c", log=["in"]), *steps)
    assert played.effects == [Load, Launch, Launch, Launch, Persist, Flush]
    made = [values(step)["log"] for step in played.batch.steps]
    assert made == [["in", "a"], ["in", "a", "b"], ["in", "a", "b", "d"]]
    assert [step.step for step in played.batch.steps] == [4, 5, 6]


@pytest.mark.parametrize(
    ("edits", "error"),
    [
        ([Edit({"oops": 1}, "a")], InvalidUpdateError),
        ([Edit({}, "nope")], InvalidUpdateError),
        ([Edit({}), Edit({}, "a")], InvalidUpdateError),
        ([Edit({}, task_id="nope")], InvalidUpdateError),
        ([Edit({"note": "1"}, "a"), Edit({"note": "2"}, "b")], InvalidUpdateError),
    ],
    ids=["key", "node", "no name", "task", "contradiction"],
)
def test_what_is_refused_stores_nothing(edits, error):
    graph = built()
    played = Played.__new__(Played)
    with pytest.raises(error):
        played.__init__(graph, stored("b", "c"), edits)
    assert Persist not in played.effects


@pytest.mark.parametrize("as_node", [END, "__copy__"])
def test_nothing_can_be_ended_or_copied_where_nothing_is_stored(as_node):
    with pytest.raises(EmptyInputError):
        Played(built(), None, [Edit(None, as_node)])


def test_what_is_known_of_tasks_that_stay_goes_along_and_the_rest_does_not():
    pending = [
        waits("b", "b?", answered=("id of b0",)),
        waits("e", "e?", answered=("id of e0",)),
        finished("c", note="c"),
    ]
    answers = {"id of b0": 1, "id of e0": 2}
    calls = [CallRecord("b", "step", b"", 0, b"x"), CallRecord("e", "step", b"", 0, b"x")]
    checkpoint = stored("b", "c", "e", pending=pending, answers=answers, calls=calls)
    played = Played(built(), checkpoint, [Edit({"log": ["e"]}, "a")])
    assert played.ahead == ["b", "c"]
    assert played.known() == {"b": pending[0], "c": pending[2]}
    assert played.batch.pending.answers == {"id of b0": 1}
    assert [call.task for call in played.batch.pending.calls] == ["b"]
    assert (played.step.origin, played.step.names) == (HERE, {})


def test_a_task_without_a_record_stays_the_same_task_with_its_recorded_steps():
    calls = [CallRecord("b", "step", b"", 0, b"x")]
    played = Played(built(), stored("b", "c", calls=calls), [Edit({"note": "e"})])
    assert played.step.origin == HERE
    assert [call.task for call in played.batch.pending.calls] == ["b"]


def test_in_the_place_of_a_task_finished_siblings_are_closed_and_waiting_ones_stay():
    pending = [waits("b", "b?"), waits("e", "e?"), finished("c", log=["c"], note="c")]
    played = Played(built(), stored("b", "c", "e", pending=pending, log=["in"]), [Edit({"note": "edit"}, "b")])
    assert played.ahead == ["d", "e"]
    assert values(played.step) == {"log": ["in", "c"], "note": "edit"}
    assert played.known() == {"e": pending[1]}
    assert (played.step.origin, played.step.names) == (HERE, {"d": "d##4"})
    assert [(task.path, task.node) for task in played.step.tasks] == [("b", "b")]


def test_sends_behind_a_gap_keep_the_names_that_their_ids_are_made_of():
    sends = [Send("e", n) for n in range(3)]
    pending = [waits(f"e#{n}", f"{n}?") for n in range(3)]
    calls = [CallRecord(f"e#{n}", "step", b"", 0, b"x") for n in range(3)]
    checkpoint = stored(sends=sends, pending=pending, calls=calls)
    played = Played(built(), checkpoint, [Edit({}, "e")])
    assert played.ahead == [("e", 1), ("e", 2)]
    assert played.step.names == {"e#0": "e#1", "e#1": "e#2"}
    assert {path: task.interrupts[0].value for path, task in played.known().items()} == {"e#0": "1?", "e#1": "2?"}
    assert [call.task for call in played.batch.pending.calls] == ["e#0", "e#1"]


def test_the_node_that_sent_sends_anew_and_equal_sends_are_the_same_tasks():
    router = lambda state: [Send("e", n) for n in (0, 7, 2)]
    checkpoint = stored(sends=[Send("e", n) for n in range(3)], pending=[finished(f"e#{n}", log=[n]) for n in range(3)])
    played = Played(built(a=router), checkpoint, [Edit({}, "a")])
    assert played.ahead == ["b", "c", ("e", 0), ("e", 7), ("e", 2)]
    assert played.known().keys() == {"e#0", "e#2"}
    assert played.step.names == {"b": "b##4", "c": "c##4", "e#1": "e#1##4"}


class Odd:
    """Like an array: nobody can say whether two of them are equal."""

    __hash__ = None

    def __eq__(self, other):
        raise TypeError("not comparable")


def test_sends_that_cannot_be_compared_are_taken_for_others():
    checkpoint = stored(sends=[Send("e", Odd())], pending=[finished("e#0", log=["old"])])
    assert not _same(*checkpoint.step.frontier.sends, Send("e", Odd()))
    assert _same(Send("e", 1), Send("e", 1))


def test_on_a_branch_nothing_goes_along():
    checkpoint = stored(
        "b", "c", past=True, pending=[waits("b", "b?"), finished("c", note="c")], answers={"id of b?": 1}
    )
    played = Played(built(), checkpoint, [Edit({"note": "e"})])
    assert played.ahead == ["b", "c"]
    assert (played.batch.pending.tasks, dict(played.batch.pending.answers)) == ((), {})
    assert (played.step.origin, values(played.step)) == (None, {"note": "e"})


def test_as_end_nothing_is_ahead_and_finished_siblings_count():
    played = Played(built(), stored("b", "c", pending=[finished("c", note="c")]), [Edit(None, END)])
    assert played.effects == [Load, Persist, Flush]
    assert (played.ahead, values(played.step), played.batch.status) == ([], {"note": "c"}, "done")


def test_a_copy_holds_the_frontier_and_nothing_else():
    checkpoint = stored("b", sends=[Send("e", 1)], past=True, pending=[waits("b", "b?")])
    played = Played(built(), checkpoint, [Edit(None, "__copy__")])
    assert (played.step.source, played.step.step, played.ahead) == ("fork", 3, ["b", ("e", 1)])
    assert (played.step.changes, played.batch.pending.tasks, played.step.origin) == ({}, (), HERE)
