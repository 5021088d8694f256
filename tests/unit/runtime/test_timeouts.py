"""What a time limit means, on a clock that the test turns."""

import asyncio
import threading

import pytest

from durable_graph.core.mail import Finished, Late
from durable_graph.core.planning import Task
from durable_graph.core.program import NodeSpec
from durable_graph.errors import AttemptOver, NodeTimeoutError
from durable_graph.records import Address
from durable_graph.runtime import deadlines, pool
from durable_graph.runtime.callables import Body
from durable_graph.runtime.deadlines import StepLimit, Watch
from durable_graph.types import TimeoutPolicy
from tests.behaviour.making import both


class Clock:
    """Stands in for the module `time`."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now + 1e9


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(deadlines, "time", clock)
    return clock


class Stage:
    """Stands in for a run: all that a step limit knows of it."""

    step = 0


class Work:
    """Stands in for what a node does."""

    def __init__(self, body=None, *routers):
        self.body = body
        self.branches = [Work(router) for router in routers]


def task(timeout=None, cause=None, work=None):
    made = Task(NodeSpec("a", work or Work()), "a", ("t", Address(1, 1, 1)), timeout=timeout)
    made.cause = cause
    return made


def watch(clock, step=None, *, work=None, **limits):
    made = Watch(task(TimeoutPolicy(**limits) if limits else None, work=work), step)
    assert made.begin()
    return made


def step(seconds):
    made = StepLimit(seconds)
    made.launch(Stage())
    return made


# --- limits -----------------------------------------------------------------------------------------------------------


def test_the_limit_that_comes_first_decides(clock):
    assert watch(clock, run_timeout=5, idle_timeout=3).deadline() == (103.0, "idle")
    assert watch(clock, run_timeout=2, idle_timeout=3).deadline() == (102.0, "run")
    assert watch(clock, step(1), run_timeout=2, idle_timeout=3).deadline() == (101.0, "step")


def test_a_sign_of_life_moves_the_idle_limit_and_no_other(clock):
    one = watch(clock, run_timeout=5, idle_timeout=3)
    clock.now += 1
    one.alive()
    assert one.deadline() == (104.0, "idle")
    clock.now += 2
    one.alive()
    assert one.deadline() == (105.0, "run")


def test_with_refresh_on_heartbeat_nothing_else_is_a_sign_of_life(clock):
    one = watch(clock, idle_timeout=3, refresh_on="heartbeat")
    clock.now += 1
    one.alive()
    assert one.deadline() == (103.0, "idle")
    one.alive(heartbeat=True)
    assert one.deadline() == (104.0, "idle")


def test_a_sign_of_life_that_comes_too_late_changes_nothing(clock):
    one = watch(clock, idle_timeout=3)
    clock.now += 3
    one.alive()
    assert one.deadline() == (103.0, "idle")


def test_time_in_a_queue_counts_for_the_step_only(clock):
    one = Watch(task(TimeoutPolicy(1, 1)), step(5))
    clock.now += 4
    assert one.deadline() == (105.0, "step")
    assert one.expire() is None
    assert one.begin()
    assert one.deadline() == (105.0, "step") or one.deadline()[0] == 105.0


def test_an_attempt_whose_step_is_over_must_not_begin(clock):
    one = Watch(task(), step(1))
    clock.now += 1
    assert one.expire().error.elapsed == 0.0
    assert not one.begin()


def test_every_step_of_a_run_has_its_own_time_and_its_retries_have_not(clock):
    limit, stage = StepLimit(5), Stage()
    limit.launch(stage)
    clock.now += 2
    limit.launch(stage)
    assert limit.ends(task()) == 105.0
    limit.rung = True
    stage.step = 1
    limit.launch(stage)
    assert limit.ends(task()) == 107.0
    assert not limit.rung


def test_a_handler_is_limited_by_its_step_unless_that_is_over_already(clock):
    limit, handler = step(5), task(cause=object())
    assert limit.ends(handler) == 105.0
    clock.now += 5
    assert limit.ends(handler) == float("inf")
    assert limit.ends(task()) == 105.0


def test_a_delay_does_not_outlast_the_step(clock):
    limit = step(5)
    assert [limit.within(task(), seconds) for seconds in (1, 10)] == [1, 5]
    clock.now += 9
    assert limit.within(task(), 1) == 0.0


# --- who comes first --------------------------------------------------------------------------------------------------


def test_before_its_time_is_over_an_attempt_is_not_given_up(clock):
    one = watch(clock, run_timeout=5)
    clock.now += 4.9
    assert one.expire() is None
    done = Finished(one.task, ())
    assert one.finish(done) is done
    clock.now += 5
    assert one.expire() is None
    assert (one.error, one.given_up) == (None, False)


def test_an_attempt_that_was_given_up_can_only_be_late(clock):
    one = watch(clock, run_timeout=5)
    clock.now += 5
    failed = one.expire()
    assert (failed.task, failed.duration, failed.started) == (one.task, 5.0, 100.0 + 1e9)
    assert failed.record.type == "durable_graph.errors.NodeTimeoutError"
    assert one.expire() is None
    clock.now += 2
    late = one.finish(Finished(one.task, ()))
    assert type(late) is Late
    assert (late.task, late.attempt, late.duration) == (one.task, 1, 7.0)


def test_who_finishes_after_the_time_is_given_up_though_nobody_noticed(clock):
    one = watch(clock, run_timeout=5)
    clock.now += 6
    error = one.finish(Finished(one.task, ())).error
    assert isinstance(error, NodeTimeoutError)
    assert (error.elapsed, error.kind, error.run_timeout) == (6.0, "run", 5)
    assert one.error is error
    assert not one.given_up


def test_a_system_exit_counts_whenever_it_comes(clock):
    one, leaving = watch(clock, run_timeout=5), SystemExit()
    clock.now += 6
    assert one.finish(leaving) is leaving


@pytest.mark.parametrize(
    ("limits", "seconds", "text"),
    [
        ({"run_timeout": 5}, None, "node 'a' ran for 9 s, its run_timeout is 5 s"),
        ({"idle_timeout": 5}, None, "node 'a' gave no sign of life for 5 s (idle_timeout), 9 s after it began"),
        ({}, 5, "the time of the step (5 s, step_timeout) was over before node 'a' ended"),
    ],
)
def test_the_error_says_which_limit_it_was(clock, limits, seconds, text):
    one = watch(clock, None if seconds is None else step(seconds), **limits)
    clock.now += 9
    assert one.expire().error.what == text


# --- the fence --------------------------------------------------------------------------------------------------------


def test_an_attempt_that_was_given_up_does_nothing_that_counts(clock):
    one, done = watch(clock, run_timeout=5), []
    one.fenced(lambda: done.append("in time"))
    clock.now += 5
    assert one.expire()
    with pytest.raises(AttemptOver):
        one.fenced(lambda: done.append("late"))
    assert done == ["in time"]


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_a_node_that_was_given_up_meanwhile_gives_nothing(clock, kind):
    def node(value):
        clock.now += 3
        assert bool(one.expire()) == (value == 2)
        return value

    body = Body(both(node)[kind])
    one = watch(clock, run_timeout=5, work=Work(body))
    assert one.call(body, (1,), None) == 1
    with pytest.raises((AttemptOver, asyncio.CancelledError)):
        one.call(body, (2,), None)


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_after_an_attempt_was_given_up_its_code_does_not_begin_but_what_ends_it_does(clock, kind):
    called = []
    router, other = Body(both(called.append)[kind]), Body(both(called.append)[kind])
    one = watch(clock, run_timeout=5, work=Work(None, router))
    clock.now += 5
    assert one.expire()
    with pytest.raises(AttemptOver):
        one.call(router, ("router",), None)
    one.call(other, ("other",), None)
    assert called == ["other"]


def test_the_os_thread_of_an_attempt_that_was_given_up_does_not_count_until_it_is_back(clock, monkeypatch):
    fresh = pool._Pool()
    monkeypatch.setattr(pool, "_pool", fresh)
    one = watch(clock, run_timeout=5)
    inside, out, ended = threading.Event(), threading.Event(), threading.Event()

    def job():
        one.occupy()
        inside.set()
        assert out.wait(20)
        assert type(one.finish(Finished(one.task, ()))) is Late
        ended.set()

    pool.submit(job)
    assert inside.wait(20)
    assert fresh.lent == 0
    clock.now += 5
    assert one.expire()
    assert fresh.lent == 1
    out.set()
    assert ended.wait(20)
    assert fresh.lent == 0
