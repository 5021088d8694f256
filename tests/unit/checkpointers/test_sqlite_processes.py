"""One database under several processes, forks, event loops that die, and an interpreter that ends."""

import asyncio
import sqlite3

import pytest

from checkpointers import SqliteSaver
from durable_graph.records import MAIN, CommitItem, Row, RowRange
from durable_graph.testing.conformance.acting import Sync, seqs, start, step
from tests.conformance.processes import forking, python, result

CLAIM = """
import sys
from checkpointers import SqliteSaver
from durable_graph.testing.conformance.acting import create, take_over
saver, name = SqliteSaver(sys.argv[1], busy_timeout=30), sys.argv[2]
print("ready", flush=True)
for line in sys.stdin:
    thread = saver.load("thread")
    if thread is None:
        claim = saver.claim(create("thread", name))
    else:
        from durable_graph.records import Claim
        claim = take_over(saver, Claim(thread.thread.no, int(line)), seen=0, owner=name)
    print(claim is not None, flush=True)
"""


def test_of_four_processes_exactly_one_wins_each_epoch(tmp_path):
    children = [python(CLAIM, tmp_path / "runs.db", name) for name in "abcd"]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
    saver, epoch = SqliteSaver(tmp_path / "runs.db"), 0
    for _ in range(20):
        for child in children:
            child.stdin.write(f"{epoch}\n")
            child.stdin.flush()
        won = [child.stdout.readline() == "True\n" for child in children]
        assert sum(won) == 1
        thread = saver.load("thread").thread
        assert thread.owner == "abcd"[won.index(True)]
        epoch = thread.epoch
    assert [result(child) for child in children] == [""] * 4
    saver.close()


COMMIT = """
import sys
from checkpointers import SqliteSaver
from durable_graph.testing.conformance.acting import start, step
saver = SqliteSaver(sys.argv[1], busy_timeout=40, synchronous="NORMAL")
claim = start(saver, key=sys.argv[2])
print("ready", flush=True)
input()
for seq in range(2, 202):
    assert saver.commit([step(claim, seq)]) == ["written"]
print("done")
"""


def test_four_processes_write_one_file_and_another_process_reads_all(tmp_path):
    children = [python(COMMIT, tmp_path / "runs.db", name) for name in "abcd"]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
    assert [child.communicate("go\n", timeout=50)[0] for child in children] == ["done\n"] * 4
    with SqliteSaver(tmp_path / "runs.db") as saver:
        assert [seqs(Sync(), saver, name) for name in "abcd"] == [list(range(1, 202))] * 4


FORK = forking(
    """
from checkpointers import InMemorySaver, SqliteSaver
saver = {"file": lambda: SqliteSaver(sys.argv[2]), "private": lambda: SqliteSaver(":memory:"), "memory": InMemorySaver}[
    sys.argv[1]
]()
""",
    ahead=50,
)


@pytest.mark.parametrize("kind", ["file", "private", "memory"])
def test_both_sides_of_a_fork_go_on_while_another_os_thread_commits(tmp_path, kind):
    assert sorted(result(python(FORK, kind, tmp_path / "runs.db")).split("\n")) == ["21", "21", "21", "parent whole"]
    if kind == "file":
        with SqliteSaver(tmp_path / "runs.db") as saver:
            assert [len(saver.load(f"child {number}").rows) for number in range(3)] == [21] * 3


FORK_THEN_PARENT_CLOSES = """
import os, sys
from checkpointers import SqliteSaver
from durable_graph.testing.conformance.acting import start, step
saver = SqliteSaver(sys.argv[1])
claim = start(saver)
saver.load("thread")                                        # a read connection is open too
here, there = os.pipe()
pid = os.fork()
if pid == 0:
    assert saver.commit([step(claim, 2)]) == ["written"]
    os.read(here, 1)                                        # the parent has closed the file now
    assert saver.commit([step(claim, 3)]) == ["written"]
    os._exit(0)
saver.load("thread")
saver.close()
os.write(there, b"x")
os.waitpid(pid, 0)
print([row.seq for row in SqliteSaver(sys.argv[1]).load("thread").rows])
"""


def test_what_a_forked_child_stored_survives_that_the_parent_closes_the_file(tmp_path):
    assert result(python(FORK_THEN_PARENT_CLOSES, tmp_path / "runs.db")) == "[1, 2, 3]"


FORK_IN_A_READ = """
import asyncio, os, sys
from checkpointers import SqliteSaver, forking
from durable_graph.records import RowRange
from durable_graph.testing.conformance.acting import start, step
forking.PATIENCE = 0.05
saver = SqliteSaver(sys.argv[1])
claim = start(saver)
saver.commit([step(claim, seq) for seq in range(2, 3000)])

async def main():
    reading = asyncio.create_task(saver.aread(claim.no, [RowRange(1, 0, 0, 10**6)]))
    while not saver._open()._reading: await asyncio.sleep(0)
    pid = os.fork()
    if pid == 0:
        try: saver.commit([step(claim, 5000)])
        except Exception as error: os.write(1, str(error).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert len((await reading)[0]) == 2999
    assert saver.commit([step(claim, 6000)]) == ["written"]

asyncio.run(main())
"""


def test_a_child_forked_inside_an_async_read_refuses_instead_of_losing_data(tmp_path):
    text = result(python(FORK_IN_A_READ, tmp_path / "runs.db"))
    assert "forked while" in text
    assert "'spawn'" in text
    with SqliteSaver(tmp_path / "runs.db") as saver:
        assert seqs(Sync(), saver)[-1] == 6000


LEFT_OPEN = """
import asyncio, sys
from checkpointers import SqliteSaver
from durable_graph.records import RowRange
from durable_graph.testing.conformance.acting import start, step
saver = SqliteSaver(sys.argv[1])
claim = start(saver)
saver.commit([step(claim, seq) for seq in range(2, 5000)])
how = sys.argv[2]

async def read():
    return await saver.aread(claim.no, [RowRange(1, 0, 0, 10**6)])

async def cancelled():
    tasks = [asyncio.create_task(read()) for _ in range(20)]
    for n, task in enumerate(tasks):
        await asyncio.sleep(0.0003 * n)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

async def abandoned():
    asyncio.create_task(read())
    await asyncio.sleep(0.002)

if how == "loop closed":
    loop = asyncio.new_event_loop()
    task = loop.create_task(read())
    for _ in range(5): loop.run_until_complete(asyncio.sleep(0))
    loop.close()
elif how == "loop forgotten":
    loop = asyncio.new_event_loop()
    task = loop.create_task(read())
    for _ in range(300):
        loop.run_until_complete(asyncio.sleep(0.0001))
        if saver._open()._reading: break
elif how == "cancelled": asyncio.run(cancelled())
elif how == "abandoned": asyncio.run(abandoned())
else: asyncio.run(read())
assert len(asyncio.run(read())[0]) == 4999
print("end", flush=True)
"""


@pytest.mark.parametrize("how", ["not closed", "cancelled", "abandoned", "loop closed", "loop forgotten"])
def test_the_interpreter_ends_and_other_loops_go_on_however_a_read_was_left(tmp_path, how):
    child = python(LEFT_OPEN, tmp_path / "runs.db", how)
    assert "end" in result(child)
    assert child.returncode == 0


def test_a_long_async_read_is_the_same_as_a_sync_one(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        saver.commit(
            [CommitItem(claim, tuple(Row(1, part, seq, 0, b"%d" % seq) for seq in range(2, 2500))) for part in (1, 2)]
        )
        ranges = [RowRange(1, 2, 0, 5000), RowRange(1, 1, 100, 2000), RowRange(9, 1, 0, 99)]
        found = asyncio.run(saver.aread(claim.no, ranges))
        assert found == saver.read(claim.no, ranges)
        assert [len(rows) for rows in found] == [2498, 1901, 0]


def test_long_async_reads_of_one_loop_run_at_once_and_leave_nothing_open(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        claim = start(saver)
        saver.commit([step(claim, seq) for seq in range(2, 3000)])

        async def main():
            wanted = [RowRange(1, MAIN, 0, 10**6)]
            return await asyncio.gather(*(saver.aread(claim.no, wanted) for _ in range(5)))

        assert [len(found[0]) for found in asyncio.run(main())] == [2999] * 5
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]  # the last connection removes -wal and -shm


def test_savers_over_one_file_share_its_write_connection(tmp_path):
    first, second = (
        SqliteSaver(tmp_path / "runs.db"),
        SqliteSaver(f"sqlite:///{tmp_path}/runs.db", synchronous="NORMAL"),
    )
    start(first)
    start(second, key="other")
    assert first._database is second._database
    first.close()
    assert second.load("thread") is not None
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_the_strictest_saver_of_a_file_decides_how_durable_commits_are(tmp_path):
    lax = SqliteSaver(tmp_path / "runs.db", synchronous="NORMAL")
    lax.setup()
    assert lax._database._writer.execute("PRAGMA synchronous").fetchone() == (1,)
    strict = SqliteSaver(tmp_path / "runs.db")
    strict.setup()
    assert lax._database._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    lax.close()
    strict.close()


def test_the_number_of_a_deleted_thread_never_comes_back(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        zombie = start(saver, key="deleted")
        connection = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        connection.execute("DELETE FROM thread")
        connection.close()
        claim = start(saver, key="somebody else")
        assert claim.no != zombie.no
        assert saver.commit([step(zombie, 2)]) == ["stale"]
        assert seqs(Sync(), saver, "somebody else") == [1]


def test_a_saver_that_is_forgotten_closes_its_file(tmp_path):
    saver = SqliteSaver(tmp_path / "runs.db")
    start(saver)
    assert (tmp_path / "runs.db-wal").exists()
    del saver
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_a_killed_process_leaves_all_it_was_told_is_stored(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from checkpointers import SqliteSaver\n"
        "from durable_graph.testing.conformance.acting import start, step\n"
        "saver = SqliteSaver(sys.argv[1]); claim = start(saver)\n"
        "for seq in range(2, 101): saver.commit([step(claim, seq)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result(python(code, tmp_path / "runs.db"))
    with SqliteSaver(tmp_path / "runs.db") as saver:
        assert seqs(Sync(), saver) == list(range(1, 101))
