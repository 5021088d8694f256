"""Schedules: runs that come when a cron expression says so."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from durable_graph.errors import InvalidConfigError, InvalidInputError
from durable_graph.runs.schedules import firing, next_time
from tests.behaviour.queued import chain, given, note, on, worked


def put_back(graph, name, **ago):
    """As if the schedule's next run had come a while ago."""

    def work(rows):
        (row,) = [row for row in rows.schedules() if row.name == name]
        due = int((datetime.now(UTC) - timedelta(**ago)).timestamp() * 1000)
        assert rows.advance_schedule(row, due)
        return due

    return graph.checkpointer.with_runs(work)


def test_a_run_comes_when_its_time_has_come(backend, face):
    graph = chain(backend.make(), note("a"))
    made = face.call(graph, "schedule", "every minute", "* * * * *", given("tick"))
    assert (made.graph, made.cron, made.timezone) == ("chain", "* * * * *", "UTC")
    assert timedelta(0) < made.next_at - datetime.now(UTC) <= timedelta(minutes=1)
    assert worked(face, graph) == 0
    due = put_back(graph, "every minute", seconds=1)
    assert worked(face, graph) == 1
    (record,) = face.call(graph, "list_runs")
    at = datetime.fromtimestamp(due / 1000, UTC).isoformat().replace("+00:00", "Z")
    assert record.id == record.thread_id == f"every minute@{at}"
    assert face.call(graph, "result", record.id) == {"log": ["tick", "a"]}
    (now,) = face.call(graph, "list_schedules")
    assert now.next_at > datetime.now(UTC)


def test_of_the_times_that_were_missed_one_is_made_up_for(backend, face):
    graph = chain(backend.make(), note("a"))
    face.call(graph, "schedule", "s", "* * * * *", given("tick"), on("t"))
    put_back(graph, "s", hours=5)
    assert worked(face, graph) == 1
    assert face.get_state(graph, on("t")).values == {"log": ["tick", "a"]}
    put_back(graph, "s", seconds=1)
    assert worked(face, graph) == 1
    assert face.get_state(graph, on("t")).values == {"log": ["tick", "a"] * 2}


def test_two_workers_that_look_at_once_submit_it_once(backend):
    graph = chain(backend.make(), note("a"))
    graph.schedule("s", "* * * * *", given("tick"))
    put_back(graph, "s", seconds=1)
    other = backend.reopen()
    counts = [saver.with_runs(firing(["chain"])) for saver in (graph.checkpointer, other, graph.checkpointer)]
    assert counts == [1, 0, 0]
    assert len(graph.list_runs()) == 1


def test_a_schedule_is_replaced_and_removed_by_its_name(backend, face):
    graph = chain(backend.make(), note("a"))
    other = chain(graph.checkpointer, note("a"), name="other")
    face.call(graph, "schedule", "s", "0 9 * * *", given("1"))
    face.call(graph, "schedule", "s", "0 10 * * *", given("2"), timezone="Europe/Berlin")
    face.call(other, "schedule", "o", "0 10 * * *", given("2"))
    (found,) = face.call(graph, "list_schedules")
    assert (found.cron, found.timezone) == ("0 10 * * *", "Europe/Berlin")
    assert face.call(graph, "unschedule", "s") is True
    assert face.call(graph, "unschedule", "s") is False
    assert face.call(graph, "list_schedules") == []


def test_what_cannot_be_scheduled_is_refused(face):
    graph = chain("memory://", note("a"))
    with pytest.raises(InvalidConfigError, match=r"(?s)cron='every day'.*five fields"):
        face.call(graph, "schedule", "s", "every day", given("1"))
    with pytest.raises(InvalidConfigError, match="timezone='Mars/Base' is not known here"):
        face.call(graph, "schedule", "s", "* * * * *", given("1"), timezone="Mars/Base")
    with pytest.raises(InvalidInputError, match="the input has key 'lag'"):
        face.call(graph, "schedule", "s", "* * * * *", {"lag": []})
    with pytest.raises(InvalidConfigError, match="Bad day-of-month"):
        face.call(graph, "schedule", "s", "0 0 30 2 *", given("1"))
    assert face.call(graph, "list_schedules") == []


def test_an_expression_is_read_in_its_time_zone():
    noon = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)

    def after(cron, zone):
        return datetime.fromtimestamp(next_time(cron, zone, noon) / 1000, UTC)

    assert after("0 13 * * *", "UTC") == datetime(2026, 7, 1, 13, tzinfo=UTC)
    assert after("0 13 * * *", "Europe/Berlin") == datetime(2026, 7, 2, 11, tzinfo=UTC)
    assert after("0 0 * * 1-5", "UTC") == datetime(2026, 7, 2, tzinfo=UTC)
    assert next_time("* * * * *", "UTC", int(time.time() * 1000)) > time.time() * 1000
