"""Somebody sets the clock an hour back, or ahead: runs, their order, durations and leases stay what they are."""

import time

import pytest

from durable_graph import Command, interrupt, once
from durable_graph.errors import ThreadBusy
from durable_graph.records import ClaimRequest
from durable_graph.runtime.owner import claim_name
from durable_graph.runtime.session import ask, newest
from tests.behaviour.small_graphs import chain, thread

CFG = thread()
HOUR = 3600.0


class Clock:
    """The clock on the wall, which can be set."""

    def __init__(self, monkeypatch):
        self.ahead = 0.0
        seconds, nanoseconds = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: seconds() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(self.ahead * 1e9))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture(params=[-HOUR, HOUR], ids=["an hour back", "an hour ahead"])
def set_by(request):
    return request.param


def test_nothing_lasts_a_negative_time_when_the_clock_is_set_back_meanwhile(face, backend, clock):
    def work(state):
        clock.ahead -= HOUR
        return {"log": ["worked"]}

    def back(number):
        clock.ahead -= HOUR
        return number

    def fail(state):
        what = f"no {once('step', back, 1)}"
        raise ValueError(what)

    saver = backend.make()
    graph = chain(work=work, fail=fail).compile(saver)
    with pytest.raises(ValueError, match="no"):
        face.invoke(graph, {}, CFG)
    shown = face.get_state_history(graph, CFG)
    tasks = [task for one in shown for task in one.tasks if task.duration is not None]
    assert {task.name for task in tasks} == {"work", "fail"}
    assert all(0 <= task.duration < 60 for task in tasks)
    [call] = ask(saver, newest("t")).calls
    assert call.started
    assert call.duration == 0  # it may have begun in another process, with which only that clock is shared


def test_what_came_later_is_later_whatever_the_clock_says(face, backend, clock, set_by):
    graph = chain(a=lambda state: {"log": ["a"]}, ask=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    clock.ahead = set_by
    assert face.invoke(graph, Command(resume="answer"), CFG)["log"] == ["a", "answer"]
    face.update_state(graph, CFG, {"log": ["edit"]})
    assert face.get_state(graph, CFG).values["log"] == ["a", "answer", "edit"]
    steps = [shown.metadata["step"] for shown in face.get_state_history(graph, CFG)]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
def test_a_claim_ends_when_its_time_is_over_whatever_the_clock_says(face, backend, clock, set_by):
    """Its owner cannot be seen from here, so only the lease tells."""
    graph = chain(a=lambda state: {"log": ["a"]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    [saver] = backend.opened
    info, [lane] = saver.load("t")[:2]
    boot, _, *rest = claim_name().split(":")
    owner = ":".join((boot, "another container", *rest))
    saver.claim(ClaimRequest("t", owner, info.epoch, info.epoch + 1, lane.lane, lane.last, (), (), lease=700))
    clock.ahead = set_by
    with pytest.raises(ThreadBusy) as busy:
        face.invoke(graph, {}, CFG)
    assert 0 < busy.value.left <= 0.7
    assert face.invoke(graph, {}, CFG, on_busy="takeover")["log"] == ["a", "a"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
def test_a_run_under_way_keeps_its_thread_whatever_the_clock_says(face, backend, clock, set_by):
    saver = backend.make()

    def look(state):
        clock.ahead = set_by
        lease = saver.load("t").thread.lease
        with pytest.raises(ThreadBusy):
            other.invoke({}, CFG, on_busy="takeover", durability="sync")
        return {"log": [0 < lease.left <= 15_000]}

    other = chain(a=lambda state: {"log": ["other"]}).compile(saver)
    assert face.invoke(chain(look=look).compile(saver), {}, CFG)["log"] == [True]
