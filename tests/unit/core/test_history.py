"""A stored checkpoint as a user sees it."""

import operator
from copy import deepcopy

import pytest

from durable_graph.channels import BinaryOperatorAggregate, LastValue
from durable_graph.core.history import config_of, empty_snapshot, snapshot
from durable_graph.core.identity import checkpoint_id, task_id
from durable_graph.core.program import Program
from durable_graph.records import Address, ErrorRecord, Frontier, StepRecord, StoredCheckpoint, TaskRecord, Write
from durable_graph.types import ROOT, Interrupt, Overwrite, Send

HERE, BEFORE = Address(1, 5, 9), Address(1, 3, 9)
ASKED, ANSWERED = Interrupt("sure?", "intr_1"), Interrupt("really?", "intr_2")


def program(*, root=False):
    channels = (
        {ROOT: LastValue(object)}
        if root
        else {
            "log": BinaryOperatorAggregate(list, operator.add),
            "last": LastValue(str),
            "total": BinaryOperatorAggregate(int, operator.add),
        }
    )
    return Program("g", {}, {}, channels, tuple(channels), tuple(channels), "f", root=root)


def stored(frontier=None, pending=(), values=None, answers=None, **step):
    record = StepRecord(2, "loop", {}, frontier or Frontier(), **step)
    known = {task.path: task for task in pending}
    return StoredCheckpoint(HERE, BEFORE, {"log": [0]} if values is None else values, {}, record, known, answers or {})


def done(path, *writes):
    return TaskRecord(path, path.partition("#")[0], "", writes=tuple(Write(*write) for write in writes))


def shown(found, *, live=True, root=False):
    return snapshot(program(root=root), "t", found, live=live, copy=deepcopy)


def test_a_checkpoint_shows_where_it_is_and_what_comes_next():
    found = shown(stored(Frontier(("a", "b"), (Send("m", 1), Send("m", 2)))))
    assert found.next == ("a", "b", "m", "m")
    assert [task.path for task in found.tasks] == [("pull", "a"), ("pull", "b"), ("push", "m", 0), ("push", "m", 1)]
    assert [task.id for task in found.tasks] == [task_id("t", HERE, path) for path in ("a", "b", "m#0", "m#1")]
    assert found.config["configurable"] == {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint_id(HERE)}
    assert found.parent_config == config_of("t", BEFORE)


def test_the_first_checkpoint_has_no_parent():
    found = stored()
    found.parent = None
    assert shown(found).parent_config is None


def test_keys_that_start_with_a_value_have_it_and_keys_the_graph_lacks_are_left_out():
    assert shown(stored(values={"gone": 1})).values == {"log": [], "total": 0}


def test_the_values_are_the_readers_own():
    found = stored()
    shown(found).values["log"].append(1)
    assert found.values == {"log": [0]}


def test_live_results_of_finished_tasks_are_in_the_values_and_no_longer_next():
    found = stored(Frontier(("a", "b")), [done("b", ("log", [2]), ("last", "x"))])
    live, saved = shown(found), shown(found, live=False)
    assert (live.values, live.next) == ({"log": [0, 2], "last": "x", "total": 0}, ("a",))
    assert (saved.values, saved.next) == ({"log": [0], "total": 0}, ("a", "b"))
    assert live.tasks[1].result == saved.tasks[1].result == {"log": [2], "last": "x"}


def test_live_results_are_applied_as_the_step_will_apply_them():
    sends = tuple(Send("a", number) for number in range(11))
    paths = ["a#10", "z", "a#2"]
    found = stored(Frontier(("z",), sends), [done(path, ("log", [path])) for path in paths])
    assert shown(found).values["log"] == [0, "z", "a#2", "a#10"]
    found = stored(Frontier(("a", "b")), [done("a", ("log", Overwrite([9]))), done("b", ("log", [1]))])
    assert shown(found).values["log"] == [9]


def test_an_update_that_came_with_a_command_is_in_the_live_values():
    assert shown(stored(Frontier(("a",)), [done("", ("log", [1])), done("a", ("log", [2]))])).values["log"] == [0, 1, 2]


@pytest.mark.parametrize("writes", [[("last", 1)], [("total", "x")]], ids=["contradiction", "a reducer raises"])
def test_results_that_cannot_be_applied_do_not_keep_anybody_from_reading(writes):
    found = shown(stored(Frontier(("a", "b")), [done("a", *writes), done("b", *writes)]))
    assert found.values == {"log": [0], "total": 0}
    assert found.next == ()


def test_a_result_for_a_key_the_graph_lacks_is_left_out_of_the_values():
    assert shown(stored(Frontier(("a",)), [done("a", ("gone", 1))])).values == {"log": [0], "total": 0}


def test_a_task_shows_its_error_its_questions_or_its_result():
    pending = [
        TaskRecord("a", "a", "", error=ErrorRecord("app.Oops", "no", "Traceback")),
        TaskRecord("b", "b", "", interrupts=(ANSWERED, ASKED)),
        done("c"),
        done("d", ("log", [1]), ("log", [2])),
    ]
    found = stored(Frontier(("a", "b", "c", "d", "e")), pending, answers={ANSWERED.id: True})
    live, saved = shown(found), shown(found, live=False)
    assert [task.error for task in live.tasks] == ["Oops('no')", None, None, None, None]
    assert live.interrupts == live.tasks[1].interrupts == (ASKED,)
    assert saved.interrupts == saved.tasks[1].interrupts == (ANSWERED, ASKED)
    assert [task.result for task in live.tasks] == [None, None, {}, [{"log": [1]}, {"log": [2]}], None]


def test_the_questions_of_a_task_that_finished_are_history():
    task = done("a")
    task.interrupts = (ASKED,)
    found = stored(Frontier(("a",)), [task])
    assert shown(found).interrupts == ()
    assert shown(found, live=False).interrupts == (ASKED,)


def test_metadata_is_the_users_and_the_runs():
    plain = shown(stored()).metadata
    assert plain == {"source": "loop", "step": 2, "parents": {}}
    full = shown(
        stored(metadata={"user": "ann"}, run_id="r", stop="after", fingerprint="f", created_at=1_700_000_000_123)
    )
    assert full.metadata == {**plain, "user": "ann", "run_id": "r", "stop": "after", "fingerprint": "f"}
    assert full.created_at == "2023-11-14T22:13:20.123000+00:00"
    assert shown(stored()).created_at is None


def test_a_bare_state_is_shown_bare():
    assert shown(stored(values={ROOT: [1]}), root=True).values == [1]
    assert shown(stored(values={}), root=True).values is None


def test_an_unknown_thread_is_empty_and_keeps_the_config_it_was_asked_with():
    config = {"configurable": {"thread_id": "t"}}
    assert empty_snapshot(config) == ({}, (), config, None, None, None, (), ())
