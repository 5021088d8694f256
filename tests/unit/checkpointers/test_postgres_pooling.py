"""Behind a proxy that hands each transaction to another session: pgbouncer, where it is installed."""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkpointers import PostgresSaver
from durable_graph import END, Send, StateGraph
from durable_graph.errors import DatabaseUnavailableError
from durable_graph.testing.conformance.acting import Sync, seqs, start, step, together
from tests import postgres_server
from tests.behaviour.small_graphs import Log, thread

PGBOUNCER = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
pytestmark = pytest.mark.skipif(
    not Path(PGBOUNCER).exists(), reason=f"no pgbouncer at {PGBOUNCER}: apt-get install pgbouncer, or set PGBOUNCER"
)

SETTINGS = """
[databases]
postgres = host={host} port={server_port} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
max_prepared_statements = 0
logfile = {folder}/log
"""


@contextmanager
def pgbouncer():
    """The DSN of a pgbouncer in transaction mode with two sessions, in front of the tests' server."""
    folder = Path(tempfile.mkdtemp(prefix="durable_graph-pgbouncer-"))
    folder.chmod(0o777)  # the proxy's user writes its log here
    port = postgres_server.free_port()
    place = dict(part.split("=", 1) for part in postgres_server.dsn().split())
    text = SETTINGS.format(host=place["host"], server_port=place["port"], port=port, folder=folder)
    version = subprocess.run([PGBOUNCER, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.split()[1].split(".")[:2])) < (1, 21):
        text = text.replace("max_prepared_statements = 0\n", "")  # what it does not know, and does not do
    (folder / "ini").write_text(text)
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    process = subprocess.Popen([PGBOUNCER, "-q", folder / "ini"], user=user, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.01)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def bouncer():
    with pgbouncer() as dsn:
        yield dsn


def counting():
    """A graph that fans out and then counts."""

    def count(state):
        return {"log": [sum(isinstance(one, int) for one in state["log"])]}

    builder = StateGraph(Log).add_node("part", lambda item: {"log": [f"part {item}"]}).add_node("count", count)
    builder.add_conditional_edges("__start__", lambda state: [Send("part", n) for n in range(5)], ["part"])
    builder.add_edge("part", "count")
    return builder.add_conditional_edges("count", lambda state: END if state["log"][-1] == 9 else "count")


EXPECTED = [f"part {n}" for n in range(5)] + list(range(10))


def test_eight_runs_at_once_share_two_sessions(bouncer, schema):
    graph = counting().compile(checkpointer=f"{bouncer}?prepare=false&schema={schema}")

    def run(number):
        return graph.invoke({}, thread(f"t{number}"))["log"]

    async def main():
        return [one["log"] for one in await asyncio.gather(*(graph.ainvoke({}, thread(f"a{n}")) for n in range(8)))]

    assert together(8, run) == [EXPECTED] * 8
    assert asyncio.run(main()) == [EXPECTED] * 8
    for name in ("t0", "a7"):
        history = list(graph.get_state_history(thread(name)))
        assert history[0].values["log"] == EXPECTED
        assert len({one.metadata["step"] for one in history}) == len(history)
    assert postgres_server.run("SELECT count(*) FROM pg_prepared_statements") == [(0,)]
    graph.checkpointer.close()


def test_processes_behind_one_proxy_take_over_from_each_other(bouncer, schema):
    """Savers with sessions of their own: the proxy mixes their transactions."""
    savers = [PostgresSaver(f"{bouncer}?application_name=p{n}", schema=schema, prepare=False) for n in range(4)]
    claims = [start(saver, key=f"{n}") for n, saver in enumerate(savers)]

    def work(number):
        for seq in range(2, 40):
            assert (
                savers[number].commit([step(claims[number], seq), step(claims[number], 1000 + seq)]) == ["written"] * 2
            )
            assert seqs(Sync(), savers[number], f"{number}").count(seq) == 1
        return True

    assert together(4, work) == [True] * 4
    for saver in savers:
        saver.close()


def test_nothing_of_ours_stays_in_the_sessions_of_the_proxy(bouncer, schema):
    with PostgresSaver(bouncer, schema=schema, prepare=False) as saver:
        start(saver)
        shown = saver._database._writer.execute(
            "SELECT current_setting('lock_timeout'), current_setting('search_path')"
        )
        assert shown.fetchone() == ("0", '"$user", public')


@pytest.fixture
def spoilt():
    """Another one, whose sessions keep what those who take them for their own leave there."""
    with pgbouncer() as dsn:
        yield dsn


def test_without_prepare_false_the_error_names_the_cure(spoilt, schema):
    savers = [PostgresSaver(f"{spoilt}?application_name=q{n}", schema=schema) for n in range(4)]

    def work(number):
        try:
            claim = start(savers[number], key=f"{number}")
            for seq in range(2, 200):
                savers[number].commit([step(claim, seq)])
        except DatabaseUnavailableError as error:
            return str(error)
        return ""

    found = "".join(together(4, work))
    assert "prepare=False" in found
    for saver in savers:
        saver.close()
