"""Runs on a SQLite file that gets no room, or that another process holds: they end with an error that says where it is
and what to do, store nothing by halves, and go on when the fault is gone.
"""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from checkpointers import SqliteSaver
from durable_graph.errors import DatabaseFullError, DatabaseLockedError
from tests.behaviour.small_graphs import Marks, chain, thread
from tests.small_disk import with_a_small_disk

CFG = thread()
NAMES = "abcdefgh"
LARGE = 30_000


def work(marks):
    """Eight nodes; the state each leaves takes a few pages."""

    def node(name):
        def run(state):
            marks(name)
            return {"log": [name], "other": os.urandom(LARGE)}

        return run

    return chain(**{name: node(name) for name in NAMES})


def whole(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def say_what_where_and_the_cure(error, file):
    told = str(error)
    assert str(file) in told
    assert "Nothing of this transaction was stored" in told
    assert "Cure: Make room, then resume the run" in told


def goes_on(face, graph, marks, make_room):
    """The run stopped for want of room; when there is some, it goes on behind what it stored."""
    done = face.get_state(graph, CFG).values["log"]
    assert 0 < len(done) < len(NAMES)
    assert face.get_state(graph, CFG).next == (NAMES[len(done)],)
    seen = list(marks.seen)
    make_room()
    assert face.invoke(graph, None, CFG)["log"] == list(NAMES)
    assert marks.seen == [*seen, *NAMES[len(done) :]]


# --- no room ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_whose_file_may_not_grow_says_so_and_goes_on_when_it_may(face, tmp_path, durability):
    file, marks = tmp_path / "runs.db", Marks()
    with SqliteSaver(file) as saver:
        graph = work(marks).compile(saver)
        saver.setup()
        writer = saver._database._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]

        def allow(more):
            assert saver._database._writer is writer  # else the limit is gone with its connection
            return writer.execute(f"PRAGMA max_page_count = {pages + more}").fetchone()

        allow(30)
        with pytest.raises(DatabaseFullError) as full:
            face.invoke(graph, {}, CFG, durability=durability)
        say_what_where_and_the_cure(full.value, file)
        assert whole(file)
        if durability == "async":  # some steps wait for their commit together; how many are stored is not said
            allow(10_000)
            given = {} if face.get_state(graph, CFG).metadata is None else None
            assert face.invoke(graph, given, CFG)["log"] == list(NAMES)
        else:
            goes_on(face, graph, marks, lambda: allow(10_000))
    assert whole(file)


def on_a_full_disk(folder, face):
    """In a process that has a disk of 1 MB in this folder."""
    file, marks, ballast = folder / "runs.db", Marks(), folder / "ballast"
    ballast.write_bytes(bytes(600_000))
    with SqliteSaver(file) as saver:
        graph = work(marks).compile(saver)
        with pytest.raises(DatabaseFullError) as full:
            face.invoke(graph, {}, CFG)
        say_what_where_and_the_cure(full.value, file)
        assert whole(file)
        goes_on(face, graph, marks, ballast.unlink)
    assert whole(file)


PROGRAM = """
import sys
from pathlib import Path
from tests.behaviour.test_disk_faults import on_a_full_disk
from tests.faces import FACES
on_a_full_disk(Path(sys.argv[1]), {face.name: face for face in FACES}[sys.argv[2]])
print("went on")
"""


def test_a_run_on_a_full_disk_says_so_and_goes_on_when_there_is_room(face, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    assert with_a_small_disk(disk, PROGRAM, face.name) == "went on\n"


# --- a lock ----------------------------------------------------------------------------------------------------------

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(5)
connection.execute("COMMIT")
"""


def test_a_lock_of_five_seconds_is_waited_for_within_the_timeout_and_an_error_beyond_it(face, tmp_path):
    """Two files, so that both runs meet the same lock of five seconds at once."""
    patient, hasty = tmp_path / "patient.db", tmp_path / "hasty.db"
    holders, results, gate = [], {}, threading.Barrier(2)

    def hold(file):
        child = subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True)
        holders.append(child)
        assert child.stdout.readline() == "locked\n"

    def run(file, seconds):
        def b(state):
            if not results.get(f"held {file}"):
                results[f"held {file}"] = True
                hold(file)
                gate.wait(30)
            return {"log": ["b"]}

        with SqliteSaver(file, busy_timeout=seconds) as saver:
            graph = chain(a=lambda state: {"log": ["a"]}, b=b).compile(saver)
            try:
                results[file] = face.invoke(graph, {}, CFG)["log"]
            except DatabaseLockedError as error:
                results[file] = str(error)
                assert face.get_state(graph, CFG).values["log"] == ["a"]
                results["held"] = [child.poll() for child in holders]
                for child in holders:
                    child.wait(30)
                assert face.invoke(graph, None, CFG)["log"] == ["a", "b"]

    threads = [threading.Thread(target=run, args=given) for given in ((patient, 30), (hasty, 0.5))]
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        for child in holders:
            child.kill()
            child.communicate()
    assert results[patient] == ["a", "b"]
    assert f"{hasty} was locked by another connection for 0.5 s" in results[hasty]
    assert "Cure: End the other process's transaction, or raise busy_timeout; then resume the run." in results[hasty]
    assert results["held"] == [None, None]  # it did not wait for the lock's end
    assert whole(patient)
    assert whole(hasty)
