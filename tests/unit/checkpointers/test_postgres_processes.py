"""One schema under several processes, forks, Ctrl-C at any moment, and an interpreter that ends."""

import asyncio
import gc
import os
import signal
import threading
import time

import psycopg
import pytest

from checkpointers import PostgresSaver
from durable_graph import END, StateGraph
from durable_graph.testing.conformance.acting import Sync, seqs, start, step
from tests import postgres_server
from tests.behaviour.small_graphs import Log, thread
from tests.conformance.processes import forking, python, result

COMMIT = """
import sys
from checkpointers import PostgresSaver
from durable_graph.testing.conformance.acting import start, step
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
claim = start(saver, key=sys.argv[3])
print("ready", flush=True)
input()
for seq in range(2, 102):
    assert saver.commit([step(claim, seq)]) == ["written"]
print("done")
"""


def test_four_processes_write_one_schema_and_another_process_reads_all(schema):
    children = [python(COMMIT, postgres_server.dsn(), schema, name) for name in "abcd"]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
    assert [child.communicate("go\n", timeout=50)[0] for child in children] == ["done\n"] * 4
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        assert [seqs(Sync(), saver, name) for name in "abcd"] == [list(range(1, 102))] * 4


FORK = forking(
    """
from checkpointers import PostgresSaver
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
""",
    ahead=20,
)


def test_both_sides_of_a_fork_go_on_while_another_os_thread_commits(schema):
    lines = result(python(FORK, postgres_server.dsn(), schema)).split("\n")
    assert sorted(lines) == ["21", "21", "21", "parent whole"]
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        assert [len(saver.load(f"child {number}").rows) for number in range(3)] == [21] * 3


FORK_AND_END = """
import os, signal, sys
from checkpointers import PostgresSaver
from durable_graph.testing.conformance.acting import start, step
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
claim = start(saver)
saver.load("thread")                                        # a session that reads is open too
writer = saver._database._writer
here, there = os.pipe()
pid = os.fork()
if pid == 0:                                                # ends as Python does, with all its finalizers
    assert saver.commit([step(claim, 2)]) == ["written"]
    saver.close()
    sys.exit(0)
os.waitpid(pid, 0)
assert saver.commit([step(claim, 3)]) == ["written"]
assert saver._database._writer is writer                    # its session was not ended by the child
print([row.seq for row in saver.load("thread").rows], flush=True)
if os.fork() == 0:
    os.close(1); os.close(2)
    os.read(0, 1)                                           # outlives its parent
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_that_ends_leaves_the_parents_sessions_alone_and_one_that_stays_keeps_none_open(schema):
    child = python(FORK_AND_END, f"{postgres_server.dsn()} application_name={schema}", schema)
    assert child.stdout.readline() == "[1, 2, 3]\n"
    child.wait(20)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    while postgres_server.run(count, (schema,)) != [(0,)]:  # for ever, if the grandchild held them
        pass
    child.communicate(timeout=20)


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------

INTERRUPTED = """
import signal, sys
from checkpointers import PostgresSaver
from durable_graph.testing.conformance.acting import start, step
from durable_graph.records import CommitItem, Row
def stop(*_): raise KeyboardInterrupt
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
claim, seq, stops, acknowledged = start(saver), 2, 0, []
signal.signal(signal.SIGALRM, stop)
while stops < 80:
    try:
        # Again and again: Python prints an exception that strikes a finalizer, and goes on.
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + (stops % 29) * 0.0015, 0.3)
        while True:
            seq += 10
            size = 1 + seq // 10 % 3
            item = CommitItem(claim, tuple(Row(1, 0, seq + n, 0, b"x") for n in range(size)))
            saver.commit([item] * (1 + seq // 10 % 2))
            acknowledged.append(seq)
    except KeyboardInterrupt:
        stops += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert saver.commit([item])[0] in ("written", "already mine")
found = [row.seq for row in saver.load("thread").rows]
for seq in acknowledged: assert seq in set(found), seq
groups = {}
for s in found[1:]: groups.setdefault((s - 2) // 10 * 10 + 2, []).append(s)
for first, members in groups.items(): assert len(members) == 1 + first // 10 % 3, (first, members)
print("whole", len(acknowledged) > 20, flush=True)
"""


def test_an_interrupt_at_any_moment_leaves_whole_items_and_a_usable_object(schema):
    assert result(python(INTERRUPTED, postgres_server.dsn(), schema)).splitlines()[-1] == "whole True"


@pytest.mark.parametrize("count", [1, 3])
def test_ctrl_c_in_a_commit_that_waits_replaces_the_session_and_the_item_may_be_sent_again(schema, count):
    saver = PostgresSaver(postgres_server.dsn(), schema=schema)
    claim = start(saver)
    writer = saver._database._writer
    group = [step(claim, seq) for seq in range(2, 2 + count)]
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"LOCK TABLE {schema}.record IN SHARE MODE")

        def strike():
            query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
            while not postgres_server.run(query, (f'%"{schema}"%',)):
                pass
            os.kill(os.getpid(), signal.SIGINT)

        striker = threading.Thread(target=strike)
        striker.start()
        with pytest.raises(KeyboardInterrupt):
            saver.commit(group)
        striker.join()
    assert saver._database._writer is not writer
    assert saver.commit(group) == ["written"] * count
    assert seqs(Sync(), saver) == list(range(1, 2 + count))
    saver.close()


# Python prints what strikes a finalizer, and forgets a session that was opened and not yet kept.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_struck_by_ctrl_c_again_and_again_ends_with_each_step_once(schema, durability):
    saver = PostgresSaver(postgres_server.dsn(), schema=schema)
    builder = StateGraph(Log).add_node("a", lambda state: {"log": [len(state["log"])]}).add_edge("__start__", "a")
    builder.add_conditional_edges("a", lambda state: END if len(state["log"]) == 60 else "a")
    graph = builder.compile(checkpointer=saver)
    assert graph.invoke({}, thread(), interrupt_before=["a"])["log"] == []
    struck = 0
    while graph.get_state(thread()).tasks:  # not its `next`, which is empty when the last task's result is stored
        timer = threading.Timer(0.01 + struck % 7 * 0.004, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            try:
                graph.invoke(None, thread(), durability=durability)
            finally:
                timer.cancel()
                timer.join()
                time.sleep(0.001)  # so that a signal on its way strikes in here
        except KeyboardInterrupt:
            struck += 1
    assert struck
    states = [one.values["log"] for one in graph.get_state_history(thread()) if one.metadata["source"] == "loop"]
    assert states == [list(range(count)) for count in range(60, -1, -1)]
    saver.close()
    gc.collect()  # here, where that is no news


# --- ends ------------------------------------------------------------------------------------------------------------


def test_savers_over_one_schema_share_its_sessions(schema):
    first, second = (PostgresSaver(f"{postgres_server.dsn()} application_name={schema}", schema=schema) for _ in "12")
    start(first)
    start(second, key="other")
    assert first._database is second._database
    first.close()
    assert second.load("thread") is not None
    second.close()
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    while postgres_server.run(count, (schema,)) != [(0,)]:
        pass  # the server is told, and takes a moment


def test_a_saver_that_is_forgotten_ends_its_sessions(schema):
    saver = PostgresSaver(postgres_server.dsn(), schema=schema)
    start(saver)
    writer = saver._database._writer
    del saver
    assert writer.closed


def test_the_number_of_a_deleted_thread_never_comes_back(schema):
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        zombie = start(saver, key="deleted")
        postgres_server.run(f"DELETE FROM {schema}.thread")
        claim = start(saver, key="somebody else")
        assert claim.no != zombie.no
        assert saver.commit([step(zombie, 2)]) == ["stale"]
        assert seqs(Sync(), saver, "somebody else") == [1]


def test_a_killed_process_leaves_all_it_was_told_is_stored(schema):
    code = (
        "import os, signal, sys\n"
        "from checkpointers import PostgresSaver\n"
        "from durable_graph.testing.conformance.acting import start, step\n"
        "saver = PostgresSaver(sys.argv[1], schema=sys.argv[2]); claim = start(saver)\n"
        "for seq in range(2, 101): saver.commit([step(claim, seq)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result(python(code, postgres_server.dsn(), schema))
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        assert seqs(Sync(), saver) == list(range(1, 101))


LEFT_OPEN = """
import asyncio, sys
from checkpointers import PostgresSaver
from durable_graph.testing.conformance.acting import start
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
start(saver)

async def main():
    tasks = [asyncio.create_task(saver.aload("thread")) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[sys.argv[3] == "some":: 2]: task.cancel()
    if sys.argv[3] != "abandoned": await asyncio.gather(*tasks, return_exceptions=True)

asyncio.run(main())
assert asyncio.run(saver.aload("thread")) is not None
print("end", flush=True)
"""


@pytest.mark.parametrize("how", ["some", "others", "abandoned"])
def test_the_interpreter_ends_and_other_loops_go_on_however_reads_were_left(schema, how):
    child = python(LEFT_OPEN, postgres_server.dsn(), schema, how)
    assert result(child) == "end"
    assert child.returncode == 0


def test_reads_of_one_loop_run_at_once_and_keep_to_their_number(schema):
    with PostgresSaver(postgres_server.dsn(), schema=schema, max_size=2) as saver:
        claim = start(saver)
        saver.commit([step(claim, 2)])

        async def main():
            return await asyncio.gather(*(saver.aload("thread") for _ in range(20)))

        assert [len(found.rows) for found in asyncio.run(main())] == [2] * 20
        assert len(saver._database._idle) <= 2
