"""What becomes of a run when the database cannot do what it should: real files, real locks, real limits."""

import os
import sqlite3
import sys
import threading

import pytest

from checkpointers import SqliteSaver
from checkpointers.sql.sqlite_errors import explain
from durable_graph.errors import (
    CorruptDataError,
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    InternalError,
    StorageError,
)
from durable_graph.records import MAIN, CommitItem, Row, RowRange
from durable_graph.testing.conformance.acting import Async, Sync, seqs, start, step
from tests.conformance.processes import python, result
from tests.small_disk import with_a_small_disk

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
if sys.argv[2] == "until told": input()
else: time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""


def holding(file, how_long):
    child = python(HOLD, file, how_long)
    assert child.stdout.readline() == "locked\n"
    return child


def large(claim, seq):
    return CommitItem(claim, (Row(1, MAIN, seq, 0, b""), Row(1, 1, seq, 1, os.urandom(40_000))))


# --- locks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_a_lock_shorter_than_the_timeout_is_waited_for(tmp_path, count):
    with SqliteSaver(tmp_path / "runs.db", busy_timeout=30) as saver:
        claim = start(saver)
        child = holding(tmp_path / "runs.db", 0.3)
        assert saver.commit([step(claim, seq) for seq in range(2, 2 + count)]) == ["written"] * count
        result(child)


def test_a_lock_longer_than_the_timeout_is_an_error_that_names_the_file_and_loses_nothing(tmp_path):
    with SqliteSaver(tmp_path / "runs.db", busy_timeout=0.1) as saver:
        claim = start(saver)
        child = holding(tmp_path / "runs.db", "until told")
        attempts = [
            lambda: saver.commit([step(claim, 2)]),
            lambda: saver.commit([step(claim, 2), step(claim, 3)]),
            lambda: start(saver, key="new"),
        ]
        for attempt in attempts:
            with pytest.raises(DatabaseLockedError, match=r"runs\.db was locked .* 0\.1 s"):
                attempt()
        assert seqs(Sync(), saver) == [1]  # readers do not wait for a writer
        child.communicate("go\n", timeout=30)
        assert [attempt() for attempt in attempts[:2]] == [["written"], ["already mine", "written"]]


HOLD_ALL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN IMMEDIATE")
connection.execute("COMMIT")
print("locked", flush=True)
input()
"""


@pytest.mark.parametrize("face", [Sync(), Async()], ids=lambda face: face.name)
def test_a_file_that_another_process_keeps_for_itself_is_named_by_every_read(tmp_path, face):
    saver = SqliteSaver(tmp_path / "runs.db", busy_timeout=0.1)
    claim = start(saver)
    saver._database.close()  # as a fork does: known to be ready, not open
    child = python(HOLD_ALL, tmp_path / "runs.db")
    assert child.stdout.readline() == "locked\n"
    for ranges in ([RowRange(1, 0, 0, 9)], [RowRange(1, 0, 0, 10**6)]):
        with pytest.raises(DatabaseLockedError, match=r"runs\.db"):
            face.read(saver, claim.no, ranges)
    with pytest.raises(DatabaseLockedError, match=r"runs\.db"):
        face.load(saver, "thread")
    child.communicate("go\n", timeout=30)
    assert len(face.read(saver, claim.no, [RowRange(1, 0, 0, 10**6)])[0]) == 1
    saver.close()


def test_first_use_waits_for_a_lock_too(tmp_path):
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()
    child = holding(tmp_path / "runs.db", "until told")
    saver = SqliteSaver(tmp_path / "runs.db", busy_timeout=0.1)
    with pytest.raises(DatabaseLockedError):
        saver.setup()
    child.communicate("go\n", timeout=30)
    saver.setup()
    saver.close()


def test_os_threads_that_wait_for_one_lock_all_give_up_in_the_same_time(tmp_path):
    with SqliteSaver(tmp_path / "runs.db", busy_timeout=0.2) as saver:
        claim = start(saver)
        child = holding(tmp_path / "runs.db", "until told")
        errors = []

        def commit(seq):
            try:
                saver.commit([step(claim, seq)])
            except DatabaseLockedError as error:
                errors.append(error)

        threads = [threading.Thread(target=commit, args=(seq,)) for seq in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 8
        child.communicate("go\n", timeout=30)


# --- no room -------------------------------------------------------------------------------------------------------


def test_a_full_database_voids_the_whole_group_and_goes_on_when_there_is_room(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        writer = saver._database._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 15}")
        group = [large(claim, 2), step(claim, 3), large(claim, 4), step(claim, 5)]
        with pytest.raises(DatabaseFullError, match=r"runs\.db"):
            saver.commit(group)
        assert seqs(Sync(), saver) == [1]
        assert saver.commit([step(claim, 9)]) == ["written"]
        writer.execute("PRAGMA max_page_count = 1000000")
        assert saver.commit(group) == ["written"] * 4


FULL_DISK = """
import os, sys
open(sys.argv[1] + "/ballast", "wb").write(bytes(300_000))
from checkpointers import SqliteSaver
from durable_graph.errors import DatabaseFullError
from durable_graph.testing.conformance.acting import start, step
saver = SqliteSaver(sys.argv[1] + "/runs.db")
claim, last = start(saver), 1
try:
    while True:
        assert saver.commit([step(claim, last + 1, os.urandom(20_000))]) == ["written"]
        last += 1
except DatabaseFullError as error:
    assert sys.argv[1] in str(error)
assert [row.seq for row in saver.load("thread").rows] == list(range(1, last + 1))
os.unlink(sys.argv[1] + "/ballast")
assert saver.commit([step(claim, last + 1, os.urandom(20_000))]) == ["written"]
print("went on")
"""


def test_a_full_disk_is_an_error_until_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    assert with_a_small_disk(disk, FULL_DISK) == "went on\n"


LIMITED = """
import os, resource, signal, sys
from checkpointers import SqliteSaver
from durable_graph.errors import DatabaseUnavailableError
from durable_graph.testing.conformance.acting import start, step
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
saver = SqliteSaver(sys.argv[1])
claim = start(saver)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    for seq in range(2, 100):
        saver.commit([step(claim, seq, os.urandom(20_000))])
except DatabaseUnavailableError as error:
    assert sys.argv[1] in str(error)
else:
    raise AssertionError("no limit")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert [row.seq for row in saver.load("thread").rows] == list(range(1, seq))
assert saver.commit([step(claim, seq)]) == ["written"]
print("went on")
"""


def test_a_failed_write_is_an_error_and_the_object_goes_on_afterwards(tmp_path):
    assert result(python(LIMITED, tmp_path / "runs.db")) == "went on"


# --- no access -----------------------------------------------------------------------------------------------------

UNPRIVILEGED = """
import os, sys
from checkpointers import SqliteSaver
from durable_graph.errors import DatabaseUnavailableError
from durable_graph.testing.conformance.acting import start
if os.geteuid() == 0:  # root writes anywhere; and nobody else may import from root's Python
    os.setgid(65534); os.setuid(65534)
saver = SqliteSaver(sys.argv[1])
for attempt in (saver.setup, lambda: start(saver), lambda: saver.load("thread")):
    try:
        attempt()
    except DatabaseUnavailableError as error:
        print(error)
    else:
        print("worked")
"""


@pytest.fixture
def open_tmp_path(tmp_path):
    """A folder that an unprivileged child can reach; pytest's own are closed to others."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("popen-", "pytest-", "test_")):
            folder.chmod(0o755)
    return tmp_path


def test_an_unwritable_folder_is_named_with_the_cure(open_tmp_path):
    (open_tmp_path / "closed").mkdir(mode=0o555)
    text = result(python(UNPRIVILEGED, open_tmp_path / "closed" / "runs.db"))
    assert text.count(f"may not write {open_tmp_path / 'closed'} ") == 3, text
    assert text.count("Cure: Give it the right to write") == 3, text


def test_a_read_only_file_is_named_with_the_cure(open_tmp_path):
    file = open_tmp_path / "open" / "runs.db"
    file.parent.mkdir()
    file.parent.chmod(0o777)
    file.touch()
    file.chmod(0o444)
    text = result(python(UNPRIVILEGED, file))
    assert text.count(f"may not write {file} ") == 3, text


def test_a_folder_one_may_not_look_into_is_named(open_tmp_path):
    (open_tmp_path / "secret").mkdir(mode=0o700)
    if os.geteuid() != 0:
        (open_tmp_path / "secret").chmod(0o000)
    text = result(python(UNPRIVILEGED, open_tmp_path / "secret" / "runs.db"))
    assert text.count(f"may not write {open_tmp_path / 'secret'} ") == 3, text


def test_a_folder_in_a_closed_one_is_not_taken_for_missing(open_tmp_path):
    closed = open_tmp_path / "closed"
    (closed / "below").mkdir(parents=True)
    closed.chmod(0o700 if os.geteuid() == 0 else 0o000)
    text = result(python(UNPRIVILEGED, closed / "below" / "runs.db"))
    assert text.count(f"may not look into {closed} ") == 3, text
    closed.chmod(0o700)


def test_a_missing_folder_is_an_error_until_it_is_there(tmp_path):
    saver = SqliteSaver(tmp_path / "missing" / "runs.db")
    with pytest.raises(DatabaseUnavailableError, match="mkdir -p"):
        saver.load("thread")
    (tmp_path / "missing").mkdir()
    assert saver.load("thread") is None
    saver.close()


def test_a_folder_is_no_database(tmp_path):
    with pytest.raises(DatabaseUnavailableError, match="is a folder"):
        SqliteSaver(tmp_path).setup()


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    """A database with enough in it to be damaged."""
    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        claim = start(saver)
        saver.commit([large(claim, seq) for seq in range(2, 8)])
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]
    return file


def no_header(content):
    return b"not a database, sorry".ljust(100, b".") + content[100:]


def truncated(content):
    return content[: len(content) // 2]


def text(content):
    return b"hello\n" * 100


def zeros(content):
    return content[:4096] + bytes(len(content) - 4096)


@pytest.mark.parametrize("damage", [no_header, truncated, text, zeros])
@pytest.mark.parametrize("face", [Sync(), Async()], ids=lambda face: face.name)
def test_a_damaged_file_is_an_error_that_names_it(stored, damage, face):
    damaged = damage(stored.read_bytes())
    stored.write_bytes(damaged)
    saver = SqliteSaver(stored)
    with pytest.raises(CorruptDataError, match=r"runs\.db"):
        face.load(saver, "thread")
    with pytest.raises(CorruptDataError, match=r"runs\.db"):
        face.read(saver, 1, [RowRange(1, 1, 0, 10**6)])
    with pytest.raises(CorruptDataError, match=r"runs\.db"):
        start(saver, key="new")
    saver.close()
    assert stored.read_bytes()[4096:] == damaged[4096:]


@pytest.mark.parametrize("face", [Sync(), Async()], ids=lambda face: face.name)
def test_a_file_that_is_damaged_while_in_use_is_an_error_that_names_it(stored, face):
    saver = SqliteSaver(stored)
    saver.setup()
    saver._database.close()  # as a fork does: known to be ready, not open
    stored.write_bytes(no_header(stored.read_bytes()))
    for ranges in ([RowRange(1, 1, 0, 9)], [RowRange(1, 1, 0, 10**6)]):
        with pytest.raises(CorruptDataError, match=r"runs\.db"):
            face.read(saver, 1, ranges)
    saver.close()


def test_the_object_goes_on_when_the_file_is_restored(stored):
    content = stored.read_bytes()
    saver = SqliteSaver(stored)
    stored.write_bytes(no_header(content))
    with pytest.raises(CorruptDataError):
        saver.load("thread")
    stored.write_bytes(content)
    assert len(saver.load("thread").rows) == 7
    saver.close()


def test_a_new_object_never_writes_into_a_file_that_was_replaced(tmp_path):
    old = SqliteSaver(tmp_path / "runs.db")
    start(old)
    for path in tmp_path.iterdir():
        path.unlink()
    with SqliteSaver(tmp_path / "runs.db") as new:
        assert new.load("thread") is None
        start(new, key="new")
    old.close()
    with SqliteSaver(tmp_path / "runs.db") as again:
        assert again.load("new") is not None


# --- errors of SQLite that are hard to provoke -----------------------------------------------------------------------


def test_a_row_that_is_too_large_is_an_error_with_a_cure(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        saver._database._writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        with pytest.raises(StorageError, match="larger than SQLite allows"):
            saver.commit([step(claim, 2, bytes(200_000))])
        assert saver.commit([step(claim, 2)]) == ["written"]


def test_a_misuse_is_a_bug_of_ours_and_not_of_the_file(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        with pytest.raises(InternalError, match=r"runs\.db"):
            saver.commit([step(claim, 2, object())])
        with pytest.raises(InternalError, match="NOT NULL"):
            saver.commit([step(claim, 2, None)])
        assert saver.commit([step(claim, 2)]) == ["written"]


def test_an_error_that_is_not_sqlites_stays_what_it_is():
    error = KeyboardInterrupt()
    assert explain(error, "runs.db") is error


DISK_GONE = """
import os, sys
from checkpointers import SqliteSaver
from durable_graph.errors import StorageError
from durable_graph.testing.conformance.acting import start, step
saver = SqliteSaver(sys.argv[1])
claim = start(saver)
for name in os.listdir("/proc/self/fd"):
    try: target = os.readlink(f"/proc/self/fd/{name}")
    except OSError: continue
    if target.startswith(sys.argv[1]): os.close(int(name))      # as if the disk had been pulled out
try: saver.commit([step(claim, 2)])
except StorageError as error: assert sys.argv[1] in str(error)
else: raise AssertionError("not noticed")
assert saver.commit([step(claim, 2)]) == ["written"]            # and is back
print([row.seq for row in saver.load("thread").rows])
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="finds the open files in /proc")  # noqa: PTH112 - read at import, without a Path
def test_a_disk_that_comes_back_is_used_again(tmp_path):
    assert result(python(DISK_GONE, tmp_path / "runs.db")) == "[1, 2]"


@pytest.mark.parametrize("count", [1, 2])
def test_a_transaction_that_an_interrupt_left_open_swallows_no_commit(tmp_path, count):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        saver._database._writer.execute("BEGIN IMMEDIATE")  # what two interrupts in a row may leave behind
        assert saver.commit([step(claim, seq) for seq in range(2, 2 + count)]) == ["written"] * count
        assert seqs(Sync(), saver) == list(range(1, 2 + count))


INTERRUPTED = """
import signal, sys
from checkpointers import SqliteSaver
from durable_graph.testing.conformance.acting import start, step
from durable_graph.records import CommitItem, Row
class Stop(BaseException): pass
def stop(*_): raise Stop
saver = SqliteSaver(sys.argv[1], synchronous="NORMAL")
claim, seq, stops, acknowledged = start(saver), 2, 0, []
signal.signal(signal.SIGALRM, stop)
while stops < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + (stops % 17) * 0.00003)
        while True:
            seq += 10
            size = 1 + seq // 10 % 3
            item = CommitItem(claim, tuple(Row(1, 0, seq + n, 0, b"x") for n in range(size)))
            saver.commit([item] * (1 + seq // 10 % 2))
            acknowledged.append(seq)
    except Stop:
        stops += 1
signal.setitimer(signal.ITIMER_REAL, 0)
found = [row.seq for row in saver.load("thread").rows]
for seq in acknowledged: assert seq in set(found), seq
groups = {}
for s in found[1:]: groups.setdefault((s - 2) // 10 * 10 + 2, []).append(s)
for first, members in groups.items(): assert len(members) == 1 + first // 10 % 3, (first, members)
print("whole")
"""


def test_an_interrupt_at_any_moment_leaves_whole_items_and_a_usable_object(tmp_path):
    assert result(python(INTERRUPTED, tmp_path / "runs.db")) == "whole"


def test_the_child_processes_of_these_tests_run_this_python():
    assert result(python("import sys; print(sys.version_info[:3])")) == str(sys.version_info[:3])
