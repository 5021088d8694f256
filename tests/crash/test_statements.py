"""SIGKILL between any two statements that SQLite is given, from the first one that makes the tables on."""

import os
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

from durable_graph import Command, interrupt, once
from durable_graph.testing.ledger import Ledger, write_to
from durable_graph.testing.life import kill_this_process
from durable_graph.testing.processes import ForkServer
from tests.behaviour.small_graphs import chain, thread

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

CFG = thread()
LEDGER = Ledger()
HERE = "tests.crash.test_statements:"
END = ["in", "paid", "yes"]


class Statements:
    """Counts the statements of all connections; the process dies before one of them."""

    def __init__(self, dies_at):
        self.count = 0
        self.dies_at = dies_at
        self._connect = sqlite3.connect
        sqlite3.connect = self.connect

    def connect(self, *args, **options):
        connection = self._connect(*args, **options)
        connection.set_trace_callback(self.begins)
        return connection

    def begins(self, text):
        self.count += 1
        if self.count == self.dies_at:
            kill_this_process()


def paying(checkpointer=None):
    def pay(state):
        return {"log": [once("pay", lambda: LEDGER.append("pay") or "paid")]}

    return chain(pay=pay, ask=lambda state: {"log": [interrupt("?")]}).compile(checkpointer)


def live(folder, dies_at):
    """One process: begins, answers, or goes on. How many statements there were, and the state's log."""
    statements = Statements(dies_at)
    from checkpointers import SqliteSaver

    write_to(f"{folder}/ledger")
    with SqliteSaver(f"{folder}/runs.db", synchronous="NORMAL") as saver:
        graph = paying(saver)
        shown = graph.get_state(CFG)
        given = {"log": ["in"]} if shown.metadata is None else Command(resume="yes") if shown.interrupts else None
        log = graph.invoke(given, CFG)["log"]
    return {"count": statements.count, "log": log}


def load():
    """In the fork server: what a life needs, and nothing that is open."""
    from checkpointers import SqliteSaver

    write_to(os.devnull)
    with SqliteSaver(":memory:") as saver:
        paying(saver).invoke({"log": []}, CFG)


@pytest.fixture
def server():
    with ForkServer() as server:
        server.here(f"{HERE}load")
        yield server


def test_a_process_killed_between_any_two_statements_leaves_a_database_that_is_whole_and_a_run_that_goes_on(
    server, tmp_path
):
    def one_life(folder, dies_at=0):
        folder.mkdir(exist_ok=True)
        ended = server.call(f"{HERE}live", folder=str(folder), dies_at=dies_at)
        assert ended.code in (0, -signal.SIGKILL), ended.error
        return ended

    spared = tmp_path / "spared"
    asked = tmp_path / "asked"
    first = one_life(asked).value
    shutil.copytree(asked, spared)
    second = one_life(spared).value
    assert (first["log"], second["log"]) == (["in", "paid"], END)
    moments = [(0, at) for at in range(1, first["count"] + 1)] + [(1, at) for at in range(1, second["count"] + 1)]
    assert len(moments) > 50
    for before, dies_at in moments:
        folder = tmp_path / f"{before} {dies_at}"
        if before:
            shutil.copytree(asked, folder)
        assert one_life(folder, dies_at).code == -signal.SIGKILL
        if (folder / "runs.db").exists():
            with closing(sqlite3.connect(folder / "runs.db")) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        lives = [one_life(folder).value["log"] for _ in range(1 if before else 2)]
        assert lives[-1] == END, (before, dies_at)
        payments = [entry for entry in Ledger(folder / "ledger").entries() if entry.name == "pay"]
        assert 1 <= len(payments) <= 2
        if before:
            assert len(payments) == 1  # its result was stored before
