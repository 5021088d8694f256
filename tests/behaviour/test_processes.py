"""One database, several processes: who holds a thread, who may take it over, and what a fork does."""

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from durable_graph.errors import ThreadBusy
from tests.backends import BACKENDS
from tests.behaviour.small_graphs import chain, dump, thread

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")
ROOT = Path(__file__).parents[2]
CFG = thread()

HOLD = """
import sys
from durable_graph.persistence.registry import resolve_checkpointer
from tests.behaviour.small_graphs import chain, thread

def hold(state):
    print("inside", flush=True)
    sys.stdin.readline()
    return {"log": ["held"]}

names = {"a": lambda state: {"log": ["a"]}, "hold": hold, "c": lambda state: {"log": ["c"]}}
graph = chain(**names).compile(resolve_checkpointer(sys.argv[1]))
print(graph.invoke({}, thread())["log"], flush=True)
"""


def same_graph(saver):
    names = {name: lambda state, name=name: {"log": [name]} for name in ("a", "hold", "c")}
    return chain(**names).compile(saver)


@contextmanager
def holder(url):
    """A process that is inside the second node of thread "t"."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout.readline() == "inside\n"
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path):
    """Those that several processes share."""
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.close()


@pytest.fixture
def saver(backend):
    return backend.make()


def test_a_thread_that_another_process_holds_is_busy_and_left_alone(face, backend, saver):
    graph = same_graph(saver)
    with holder(backend.url()) as child:
        rows = dump(saver)
        for given in ({}, None):
            with pytest.raises(ThreadBusy, match=f"process {child.pid}"):
                face.invoke(graph, given, CFG)
        assert dump(saver) == rows
        assert face.invoke(graph, {}, thread("other"))["log"] == ["a", "hold", "c"]
        assert child.communicate("\n", timeout=20)[0] == "['a', 'held', 'c']\n"
    assert face.invoke(graph, {}, CFG)["log"] == ["a", "held", "c", "a", "hold", "c"]


@pytest.mark.crash
@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_the_thread_of_a_killed_process_is_taken_over_at_once(face, backend, saver, reaped):
    graph = same_graph(saver)
    with holder(backend.url()) as child:
        child.send_signal(signal.SIGKILL)
        if reaped:
            assert child.wait(20) == -signal.SIGKILL
        else:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert "Z" in Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert saver.load("t").thread.owner is not None
        assert face.get_state(graph, CFG).next == ("hold",)
        assert face.invoke(graph, None, CFG)["log"] == ["a", "hold", "c"]


@pytest.mark.crash
def test_a_stopped_process_still_holds_its_thread(face, backend, saver):
    graph = same_graph(saver)
    with holder(backend.url()) as child:
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(ThreadBusy):
            face.invoke(graph, None, CFG)
        child.send_signal(signal.SIGCONT)
        assert child.communicate("\n", timeout=20)[0] == "['a', 'held', 'c']\n"


# --- fork ------------------------------------------------------------------------------------------------------------


def in_child(work):
    """Run in a forked child; whether it came through."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return pid


def came_through(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking with OS threads is what is tested
@pytest.mark.parametrize("kind", BACKENDS)
def test_after_a_fork_both_sides_go_on_with_threads_of_their_own(face, tmp_path, kind):
    backend = BACKENDS[kind](tmp_path)

    async def asynchronous(state):
        return {"log": ["async"]}

    with closing(backend):
        graph = chain(a=lambda state: {"log": ["a"]}, b=asynchronous).compile(backend.make())
        assert face.invoke(graph, {}, thread("before"))["log"] == ["a", "async"]
        for durability in ("sync", "async"):
            name = f"child {durability}"
            pid = in_child(
                lambda name=name, durability=durability: (
                    face.invoke(graph, {}, thread(name), durability=durability)["log"] == ["a", "async"]
                    and face.invoke(graph, {}, thread("before"))["log"][:2] == ["a", "async"]
                )
            )
            result = face.invoke(graph, {}, thread(f"parent {durability}"), durability=durability)
            assert result["log"] == ["a", "async"]
            assert came_through(pid)
            if kind != "memory":
                assert face.get_state(graph, thread(name)).values["log"] == ["a", "async"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_run_leaves_the_run_to_the_parent(face, saver):
    def busy_here_and_free_elsewhere():
        try:
            graph.invoke(None, CFG)
        except ThreadBusy as error:
            return str(os.getppid()) in error.owner and graph.invoke({}, thread("of the child"))["log"] == ["a"]
        return False

    def middle(state):
        if state.get("answer") == "fork":
            assert came_through(in_child(busy_here_and_free_elsewhere))
        return {"log": ["a"]}

    graph = chain(middle=middle).compile(saver)
    assert face.invoke(graph, {"answer": "fork"}, CFG)["log"] == ["a"]
    assert face.get_state(graph, thread("of the child")).values["log"] == ["a"]
