"""What becomes of a run when its server goes away, ends its sessions, or will not do what it should: real servers."""

import asyncio
import random
import signal
import socket
import threading
import time

import psycopg
import pytest

from checkpointers import PostgresSaver
from checkpointers.sql.postgres_errors import explain, is_lost
from durable_graph import END, Send, StateGraph
from durable_graph.errors import DatabaseLockedError, DatabaseUnavailableError, InternalError, StorageError
from durable_graph.records import RowRange
from durable_graph.testing.conformance.acting import Sync, seqs, start, step, together
from tests import postgres_server
from tests.behaviour.small_graphs import Log, thread

STEPS = 30


def counting(pause=0.0, steps=STEPS):
    """A graph that fans out and then counts, step by step."""

    def count(state):
        time.sleep(pause)
        return {"log": [sum(isinstance(one, int) for one in state["log"])]}

    builder = StateGraph(Log).add_node("part", lambda item: {"log": [f"part {item}"]}).add_node("count", count)
    builder.add_conditional_edges("__start__", lambda state: [Send("part", n) for n in range(5)], ["part"])
    builder.add_edge("part", "count")
    return builder.add_conditional_edges("count", lambda state: END if state["log"][-1] == steps - 1 else "count")


EXPECTED = [f"part {n}" for n in range(5)] + list(range(STEPS))


def whole(graph, config, expected):
    """Each step is there once, and in order."""
    history = list(graph.get_state_history(config))
    assert history[0].values["log"] == expected
    steps = [one.metadata["step"] for one in history]
    assert steps == sorted(steps, reverse=True)
    assert len(set(steps)) == len(steps)


# --- sessions that are ended -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_runs_go_on_when_their_sessions_are_ended_at_random_moments(face, schema, durability):
    saver = PostgresSaver(postgres_server.dsn() + f" application_name={schema}", schema=schema)
    graph = counting(0.002).compile(checkpointer=saver)
    over, ended, rolls = threading.Event(), [], random.Random(1)

    def end_sessions():
        with psycopg.connect(postgres_server.dsn(), autocommit=True) as other:
            kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
            while not over.wait(rolls.random() * 0.03):
                ended.append(other.execute(kill, (schema,)).fetchone()[0])

    saver.setup()
    killer = threading.Thread(target=end_sessions)
    killer.start()
    try:
        for number in range(3):
            result = face.invoke(graph, {}, thread(f"t{number}"), durability=durability)
            assert result["log"] == EXPECTED
    finally:
        over.set()
        killer.join()
    assert sum(ended) > 3
    for number in range(3):
        whole(graph, thread(f"t{number}"), EXPECTED)
    saver.close()


def test_sessions_that_were_ended_while_idle_cost_no_patience(schema):
    saver = PostgresSaver(postgres_server.dsn() + f" application_name={schema}", schema=schema, timeout=0)
    claim = start(saver)
    together(4, lambda number: saver.read(claim.no, [RowRange(1, 0, 0, 9)]))
    kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
    for seq in range(2, 5):
        assert postgres_server.run(kill, (schema,))[0][0] >= 2
        assert saver.commit([step(claim, seq)]) == ["written"]
        assert seqs(Sync(), saver) == list(range(1, seq + 1))
    saver.close()


# --- a server that goes away -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    settings = {"max_connections": "8", "synchronous_commit": "on"}  # what was told to be stored survives a crash
    with postgres_server.own(port=postgres_server.free_port(), **settings) as server:
        yield server


@pytest.fixture
def running(server):
    yield server
    if server.process is None:
        server.start()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
@pytest.mark.parametrize("over", ["socket", "tcp"])
def test_a_run_waits_for_a_server_that_is_away_for_a_while(running, schema, face, how, over):
    dsn = running.dsn if over == "socket" else f"host=127.0.0.1 port={running.port} user=postgres dbname=postgres"
    saver = PostgresSaver(dsn, schema=schema)
    graph = counting(0.01).compile(checkpointer=saver)
    saver.setup()

    def outage():
        time.sleep(0.15)
        running.stop(how)
        time.sleep(0.4)
        running.start()

    away = threading.Thread(target=outage)
    away.start()
    assert face.invoke(graph, {}, thread())["log"] == EXPECTED
    away.join()
    whole(graph, thread(), EXPECTED)
    saver.close()


def test_an_outage_longer_than_the_timeout_is_an_error_and_the_run_resumes_later(running, schema, face):
    saver = PostgresSaver(running.dsn, schema=schema, timeout=0.2)
    graph = counting().compile(checkpointer=saver)
    marks = []

    def stop_at_ten(state):
        marks.append(len(state["log"]))
        if len(marks) == 10:
            running.stop()
        return {"log": [len(state["log"])]}

    builder = StateGraph(Log).add_node("a", stop_at_ten).add_edge("__start__", "a")
    builder.add_conditional_edges("a", lambda state: END if len(state["log"]) == 20 else "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(DatabaseUnavailableError, match=r"not to be reached for 0\.2 s(?s:.*)last durable step"):
        face.invoke(graph, {}, thread())
    with pytest.raises(DatabaseUnavailableError, match="not to be reached"):
        face.get_state(graph, thread())
    running.start()
    assert face.get_state(graph, thread()).values["log"] == list(range(9))
    assert face.invoke(graph, None, thread())["log"] == list(range(20))
    assert marks == [*range(10), *range(9, 20)]
    whole(graph, thread(), list(range(20)))
    saver.close()


def test_a_server_that_is_away_at_first_is_an_error_at_once_and_used_when_it_is_there(running, schema):
    running.stop()
    with PostgresSaver(running.dsn, schema=schema, timeout=1e9) as saver:
        with pytest.raises(DatabaseUnavailableError, match="was not to be reached: "):
            saver.load("thread")
        running.start()
        assert saver.load("thread") is None


def test_an_outage_under_many_os_threads_loses_nothing(running, schema):
    saver = PostgresSaver(running.dsn, schema=schema, max_size=3)
    claims = [start(saver, key=f"{n}") for n in range(4)]

    def work(number):
        if number == 4:
            running.stop(signal.SIGQUIT)
            running.start()
            return None
        for seq in range(2, 40):
            assert saver.commit([step(claims[number], seq)]) in (["written"], ["already mine"])
            assert seqs(Sync(), saver, f"{number}")[-1] == seq
        return seqs(Sync(), saver, f"{number}")

    assert together(5, work) == [list(range(1, 40))] * 4 + [None]
    saver.close()


def test_a_machine_that_goes_away_without_a_word_is_noticed_on_both_sides(running, schema):
    saver = PostgresSaver(f"host=127.0.0.1 port={running.port} user=postgres dbname=postgres", schema=schema)
    saver.setup()
    writer = saver._database._writer
    with socket.socket(fileno=socket.dup(writer.fileno())) as wire:
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    assert writer.execute("SHOW tcp_keepalives_idle").fetchone() == ("10",)
    saver.close()
    theirs = PostgresSaver(f"host=127.0.0.1 port={running.port} user=postgres keepalives_idle=77", schema=schema)
    theirs.setup()
    assert theirs._database._writer.info.get_parameters()["keepalives_idle"] == "77"
    theirs.close()


# --- a server that will not ------------------------------------------------------------------------------------------


def all_that_are_left(dsn, says):
    taken = []
    try:
        while True:
            taken.append(psycopg.connect(dsn))
    except psycopg.OperationalError as error:
        if says not in str(error):
            raise
        return taken


def test_too_many_connections_are_waited_for_and_then_named_with_the_cure(running, schema):
    saver = PostgresSaver(running.dsn, schema=schema, timeout=0.2)
    claim = start(saver)
    taken = all_that_are_left(running.dsn, "too many clients")
    with pytest.raises(DatabaseUnavailableError, match=r"too many clients(?s:.*)max_connections"):
        saver.load("thread")  # a session to read is not to be had
    assert saver.commit([step(claim, 2)]) == ["written"]  # the one that writes is there
    other = PostgresSaver(running.dsn, schema=f"{schema}_2", timeout=0.2)
    with pytest.raises(DatabaseUnavailableError, match="too many clients"):
        other.setup()
    waiting = PostgresSaver(running.dsn, schema=schema)
    free = threading.Timer(0.2, lambda: [one.close() for one in taken])
    free.start()
    assert seqs(Sync(), waiting) == [1, 2]
    free.join()
    for one in (saver, other, waiting):
        one.close()


def test_roles_that_are_no_superuser_are_told_so_too(running, schema):
    postgres_server.run("CREATE ROLE plain LOGIN", conninfo=running.dsn)
    postgres_server.run("GRANT CREATE ON DATABASE postgres TO plain", conninfo=running.dsn)
    saver = PostgresSaver(f"{running.dsn} user=plain", schema=schema, timeout=0.1)
    saver.setup()
    taken = all_that_are_left(f"{running.dsn} user=plain", "remaining connection slots")
    with pytest.raises(DatabaseUnavailableError, match=r"had no room for 0\.1 s(?s:.*)max_connections"):
        saver.load("thread")
    for one in taken:
        one.close()
    assert saver.load("thread") is None
    saver.close()


def test_a_process_takes_no_more_sessions_than_it_may(running, schema):
    saver = PostgresSaver(f"{running.dsn} application_name={schema}", schema=schema, max_size=2)
    claim = start(saver)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"

    def read(number):
        for _ in range(20):
            assert len(saver.read(claim.no, [RowRange(1, 0, 0, 9)])[0]) == 1
        return postgres_server.run(count, (schema,), conninfo=running.dsn)[0][0]

    most = max(together(3, read))
    assert most <= 3
    saver.close()
    while postgres_server.run(count, (schema,), conninfo=running.dsn) != [(0,)]:
        time.sleep(0.01)  # the server is told, and takes a moment


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_a_timeout_of_the_servers_is_named_and_the_thread_goes_on_later(schema, face, setting):
    saver = PostgresSaver(f"{postgres_server.dsn()} options='-c {setting}=150'", schema=schema, timeout=0.1)
    graph = counting(steps=5).compile(checkpointer=saver)
    graph.invoke({}, thread(), interrupt_before=["count"])
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"LOCK TABLE {schema}.record IN SHARE MODE")
        with pytest.raises(DatabaseLockedError, match=setting.replace("_", "[ _]")):
            face.invoke(graph, None, thread())
        assert face.get_state(graph, thread()).next == ("count",)
    assert face.invoke(graph, None, thread())["log"] == EXPECTED[:10]
    whole(graph, thread(), EXPECTED[:10])
    saver.close()


def test_a_statement_that_somebody_cancels_is_named_and_the_session_goes_on(schema):
    saver = PostgresSaver(f"{postgres_server.dsn()} application_name={schema}", schema=schema)
    claim = start(saver)
    cancel = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    )
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"LOCK TABLE {schema}.record IN SHARE MODE")
        errors = []

        def commit():
            with pytest.raises(DatabaseLockedError, match="somebody cancelled it") as caught:
                saver.commit([step(claim, 2)])
            errors.append(caught.value)

        waiting = threading.Thread(target=commit)
        waiting.start()
        while not postgres_server.run(cancel, (schema,)):
            assert waiting.is_alive()
        waiting.join()
    assert errors
    assert saver.commit([step(claim, 2)]) == ["written"]
    saver.close()


# --- errors that are hard to provoke ---------------------------------------------------------------------------------


def test_a_misuse_is_a_bug_of_ours_and_not_of_the_server(schema):
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        claim = start(saver)
        with pytest.raises(InternalError, match="SQLSTATE 23502"):
            saver.commit([step(claim, 2, None)])
        assert saver.commit([step(claim, 2)]) == ["written"]


def test_an_error_that_is_not_psycopgs_stays_what_it_is():
    error = KeyboardInterrupt()
    assert explain(error, "the server") is error
    assert not is_lost(error)


@pytest.mark.parametrize(
    "state", ["53100", "54000", "25006", "26000", "42P07", "40P01", "25P04", "08006", "57P01", "99999"]
)
def test_what_each_sqlstate_becomes_names_the_server_and_a_cure(state):
    error = psycopg.errors.lookup(state)("it said so") if state != "99999" else psycopg.Error("it said so")
    found = explain(error, "the server")
    assert isinstance(found, StorageError | InternalError)
    assert "the server" in str(found)
    assert "it said so" in str(found)
    assert "Cure: " in str(found)
    assert is_lost(error) == state.startswith(("08", "57P", "25P"))


def test_async_runs_side_by_side_survive_ended_sessions(schema):
    saver = PostgresSaver(f"{postgres_server.dsn()} application_name={schema}", schema=schema)
    graph = counting().compile(checkpointer=saver)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"

    async def main():
        runs = [asyncio.create_task(graph.ainvoke({}, thread(f"t{n}"))) for n in range(6)]
        while not all(run.done() for run in runs):
            await asyncio.to_thread(postgres_server.run, kill, (schema,))
            await asyncio.sleep(0.03)
        return [run.result()["log"] for run in runs]

    saver.setup()
    assert asyncio.run(main()) == [EXPECTED] * 6
    for n in range(6):
        whole(graph, thread(f"t{n}"), EXPECTED)
    saver.close()
