"""What goes to a database: calls of a durable superstep, statements of a claim, both of queued runs."""

import itertools
from contextlib import contextmanager

import psycopg
import pytest

import durable_graph
from checkpointers.postgres import _given, _text_of
from durable_graph.persistence.run_rows import Taking
from durable_graph.records import LEASE
from durable_graph.runs import queue
from durable_graph.runs.record import RunReport
from durable_graph.testing.conformance.acting import start, step, take_over
from tests.backends import BACKENDS
from tests.performance import graphs
from tests.performance.counting import calls_of, slope

SUPERSTEP = {"sqlite": 135, "postgres": 145}
"""Calls, beside those of psycopg."""
CREATE = {"sqlite": 7, "postgres": 1}
"""Statements, those that begin and commit among them."""
TAKE_OVER = {"sqlite": 7, "postgres": 4}
STATEMENTS = {
    "submit": {"sqlite": 4, "postgres": 7},
    "take": {"sqlite": 5, "postgres": 7},
    "settle": {"sqlite": 5, "postgres": 8},
}
CALLS = {
    "submit": {"sqlite": 190, "postgres": 890},
    "take": {"sqlite": 75, "postgres": 740},
    "settle": {"sqlite": 95, "postgres": 870},
}
"""Those of psycopg among them."""

WARM_UP = 8
NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request, tmp_path):
    """(name, checkpointer)."""
    backend = BACKENDS[request.param](tmp_path)
    saver = backend.make()
    saver.setup()
    yield request.param, saver
    backend.close()


@contextmanager
def statements(name, saver, monkeypatch):
    """A list of the statements that are sent on the session that writes."""
    sent = []
    if name == "sqlite":
        writer = saver._database._writer
        writer.set_trace_callback(sent.append)
        yield sent
        writer.set_trace_callback(None)
        return
    execute, writer = psycopg.Connection.execute, saver._database._writer

    def noting(self, text, *arguments, **options):
        if self is writer:
            sent.append(text)
        return execute(self, text, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", noting)
        yield sent


def counter(stored, monkeypatch):
    """A function that counts the statements of what it is given to do."""

    def count(work):
        with statements(*stored, monkeypatch) as sent:
            work()
        return len(sent)

    return count


# --- supersteps and claims -------------------------------------------------------------------------------------------


def running(saver):
    """A function that makes one run of so many supersteps, on a thread of its own."""
    graph = graphs.loop(durable_graph, checkpointer=saver)
    return lambda n: graph.invoke({"n": n}, graphs.config(f"thread-{next(NUMBERS)}"))


def test_a_durable_superstep_is_one_statement(stored, monkeypatch):
    count, run = counter(stored, monkeypatch), running(stored[1])
    assert slope(lambda n: count(lambda: run(n)), 5, 25) == 1


def test_rows_of_many_threads_are_one_statement_on_postgres(stored, monkeypatch):
    name, saver = stored
    claims = [start(saver, key=f"thread {number}") for number in range(50)]
    count = counter(stored, monkeypatch)
    assert count(lambda: saver.commit([step(claim, 2) for claim in claims])) <= (1 if name == "postgres" else 52)


def test_a_durable_superstep_makes_few_calls_beside_those_of_the_driver(stored):
    name, saver = stored
    run = running(saver)
    run(20)
    driver = slope(lambda n: calls_of(commit_by_hand, saver, n), 20, 120) if name == "postgres" else 0
    assert slope(lambda n: calls_of(run, n), 20, 120) - driver <= SUPERSTEP[name]


def commit_by_hand(saver, n):
    """n commits of one row each by psycopg alone."""
    item = step(start(saver, key=f"by hand {next(NUMBERS)}"), 2)
    text, connection = saver._database.text(_text_of(item)), saver._database._writer
    for seq in range(2, 2 + n):
        row = item.rows[0]._replace(seq=seq)
        (held, *_) = connection.execute(text, _given(item._replace(rows=(row,)))).fetchone()
        assert held


def test_a_claim_of_a_new_thread(stored, monkeypatch):
    name, saver = stored
    count = counter(stored, monkeypatch)
    assert count(lambda: start(saver, key="one")) == count(lambda: start(saver, key="two")) <= CREATE[name]


def test_a_takeover(stored, monkeypatch):
    name, saver = stored
    claim = start(saver)
    assert counter(stored, monkeypatch)(lambda: take_over(saver, claim, seen=1)) <= TAKE_OVER[name]
    assert saver.load("thread").thread.epoch == claim.epoch + 1


# --- queued runs -----------------------------------------------------------------------------------------------------


class Queued:
    """One run after the other is submitted, taken and settled."""

    def __init__(self, saver):
        self.saver = saver
        self.graph = graphs.loop(durable_graph, checkpointer=saver)
        self.taken = []

    def submit(self):
        self.graph.submit({"n": 1})

    def take(self):
        wanted = Taking("me", (self.graph.name,), 8, LEASE)
        self.taken = self.saver.with_runs(queue.taking(wanted, one_host=self.saver.one_host))

    def settle(self):
        (row,) = self.taken
        assert self.saver.with_runs(queue.settling(row, queue.Ending("done", RunReport()))) == "done"

    def counts(self, count):
        """What `count` counts of each verb, when others came before."""
        for _ in range(WARM_UP):
            self.submit()
            self.take()
            self.settle()
        return {verb: count(getattr(self, verb)) for verb in ("submit", "take", "settle")}


def test_the_statements_of_a_queued_run(stored, monkeypatch):
    name, saver = stored
    found = Queued(saver).counts(counter(stored, monkeypatch))
    assert {verb: number for verb, number in found.items() if number > STATEMENTS[verb][name]} == {}


def test_the_calls_of_a_queued_run(stored):
    name, saver = stored
    found = Queued(saver).counts(calls_of)
    assert {verb: number for verb, number in found.items() if number > CALLS[verb][name]} == {}
