"""Error handlers of runs that stop and go on: what is a failure and what is not, and what a crash does."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from durable_graph import (
    START,
    Command,
    Send,
    StateGraph,
    get_runtime,
    interrupt,
)
from durable_graph.core.control import RunControl
from durable_graph.errors import (
    GraphDrained,
    InvalidUpdateError,
    NodeError,
    StoredError,
)
from durable_graph.testing import Ledger, crash_sweep
from tests.behaviour.handled import CFG, QUICK, ROOT, Once, beside, guarded
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked

# --- control flow is not a failure -----------------------------------------------------------------------------------


def test_a_question_of_the_node_is_not_handled(face, backend):
    graph = guarded(lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    assert list(asked(face.invoke(graph, {}, CFG)["__interrupt__"])) == ["?"]
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes", "next"]


def test_a_command_for_the_parent_graph_is_not_handled(face):
    inner = StateGraph(Log).add_node("in", lambda state: Command(graph=Command.PARENT, goto="plan b"))
    builder = guarded(inner.add_edge(START, "in").compile())
    assert face.invoke(builder.compile(), {})["log"] == ["next", "plan b"]


def test_a_drain_of_a_graph_inside_is_not_handled(face, backend):
    control = RunControl()

    def asks_to_stop(state):
        control.request_drain()
        return {"log": ["one"]}

    def made(saver):
        inner = StateGraph(Log).add_node("one", asks_to_stop).add_node("two", says("two"))
        return guarded(inner.add_edge(START, "one").add_edge("one", "two").compile()).compile(saver)

    with pytest.raises(GraphDrained):
        face.invoke(made(backend.make()), {}, CFG, control=control)
    assert face.invoke(made(backend.reopen()), None, CFG)["log"] == ["one", "two", "next"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_node_that_was_cut_short_runs_again_and_is_not_handled(face, backend, stop):
    node = Once("a", stop())
    graph = beside(guarded(node), "b", says("b")).compile(backend.make())
    with pytest.raises(stop):
        face.invoke(graph, {}, CFG)
    again = beside(guarded(node), "b", says("b")).compile(backend.reopen())
    assert face.invoke(again, None, CFG)["log"] == ["a", "b", "next"]


def test_a_node_of_a_cancelled_run_runs_again_and_is_not_handled(backend):
    inside = asyncio.Event()
    runs = Marks()

    async def node(state):
        runs("a")
        if runs.count("a") == 1:
            inside.set()
            await asyncio.sleep(60)
        return {"log": ["a"]}

    graph = guarded(node).compile(backend.make())

    async def main():
        running = asyncio.ensure_future(graph.ainvoke({}, CFG))
        await inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await graph.ainvoke(None, CFG)

    assert asyncio.run(main())["log"] == ["a", "next"]


def test_a_step_that_was_refused_runs_again_and_is_not_handled(face, backend):
    """The nodes ended well; their updates contradict each other."""
    wrong = [1]

    def writes(name):
        return lambda state: {"answer": name} if wrong else {"log": [name]}

    graph = beside(guarded(writes("a")), "b", writes("b")).compile(backend.make())
    with pytest.raises(InvalidUpdateError, match="'answer'"):
        face.invoke(graph, {}, CFG)
    wrong.clear()
    again = beside(guarded(writes("a")), "b", writes("b")).compile(backend.reopen())
    assert face.invoke(again, None, CFG)["log"] == ["a", "b", "next"]


def test_a_handler_that_is_added_later_does_not_take_an_older_failure(face, backend):
    """That run ended with the error; a resume tries the node again."""
    node = Once("a", ValueError("boom"))
    plain = (
        StateGraph(Log).add_node("a", node).add_node("next", says("next")).add_edge(START, "a").add_edge("a", "next")
    )
    with pytest.raises(ValueError, match="boom"):
        face.invoke(plain.compile(backend.make()), {}, CFG)
    assert face.invoke(guarded(node).compile(backend.reopen()), None, CFG)["log"] == ["a", "next"]


def test_a_handler_that_is_gone_leaves_its_node_to_be_run_again(face, backend):
    node = Once("a", ValueError("boom"))
    with pytest.raises(KeyError):
        face.invoke(guarded(node, Once("never")).compile(backend.make()), {}, CFG)
    plain = (
        StateGraph(Log).add_node("a", node).add_node("next", says("next")).add_edge(START, "a").add_edge("a", "next")
    )
    assert face.invoke(plain.compile(backend.reopen()), None, CFG)["log"] == ["a", "next"]


# --- durability ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_it_works_with_every_durability(face, backend, durability):
    graph = guarded().compile(backend.make())
    assert face.invoke(graph, {}, CFG, durability=durability)["log"] == ["a ValueError boom"]
    assert face.get_state(graph, CFG).next == ()


def test_a_branch_from_before_the_failure_runs_the_node_again(face, backend):
    node = Once("a", ValueError("boom"))
    graph = guarded(node).compile(backend.make())
    assert face.invoke(graph, {}, CFG)["log"] == ["a ValueError boom"]
    before = next(one for one in face.get_state_history(graph, CFG) if one.next == ("a",))
    assert face.invoke(graph, None, before.config)["log"] == ["a", "next"]


KILLED = """
import os, signal, sys
from durable_graph import Command, START, StateGraph
from checkpointers import SqliteSaver
from tests.behaviour.small_graphs import Log, thread
from durable_graph.testing import Ledger, crash_sweep
from tests.behaviour.making import says

folder, kill_in = sys.argv[1:]

def mark(name):
    with open(f"{folder}/marks", "a") as file:
        file.write(name + "\\n")
    if name == kill_in:
        os.kill(os.getpid(), signal.SIGKILL)

def a(state):
    mark("a")
    raise ValueError("boom")

def handler(state, error):
    mark("handler")
    return Command(update={"log": [f"{type(error.error).__name__}: {error.error}"]}, goto="after")

def after(state):
    mark("after")
    return {"log": ["after"]}

builder = StateGraph(Log).add_node("a", a, error_handler=handler).add_node("after", after).add_edge(START, "a")
graph = builder.compile(SqliteSaver(f"{folder}/runs.db"))
given = {} if graph.get_state(thread()).metadata is None else None
print(graph.invoke(given, thread())["log"])
"""


def run_killed(folder, kill_in):
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), kill_in],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return child.returncode, child.stdout.strip() or child.stderr


@pytest.mark.crash
def test_a_kill_in_the_handler_runs_the_handler_again_with_the_stored_error_and_not_the_node(tmp_path):
    assert run_killed(tmp_path, "handler")[0] == -signal.SIGKILL
    assert run_killed(tmp_path, "nowhere") == (0, "['StoredError: ValueError: boom', 'after']")
    assert (tmp_path / "marks").read_text().split() == ["a", "handler", "handler", "after"]


@pytest.mark.crash
def test_a_kill_after_the_handler_runs_neither_again(tmp_path):
    assert run_killed(tmp_path, "after")[0] == -signal.SIGKILL
    assert run_killed(tmp_path, "nowhere") == (0, "['ValueError: boom', 'after']")
    assert (tmp_path / "marks").read_text().split() == ["a", "handler", "after", "after"]


def test_a_stored_error_says_what_the_error_was(face, backend):
    seen = []

    def handler(state, error: NodeError):
        seen.append(error.error)
        if len(seen) == 1:
            text = "handler"
            raise KeyError(text)

    with pytest.raises(KeyError):
        face.invoke(guarded(handler=handler).compile(backend.make()), {}, CFG)
    face.invoke(guarded(handler=handler).compile(backend.reopen()), None, CFG)
    assert isinstance(seen[1], StoredError)
    assert (seen[1].type, str(seen[1])) == ("builtins.ValueError", "ValueError: boom")
    assert "raise ValueError(text)" in seen[1].trace


# --- crashes, at every point -----------------------------------------------------------------------------------------

LEDGER = Ledger()


def crashing():
    """Two nodes that fail in one step, one after a retry, one with a handler that goes on; and a handler of a Send."""

    def bad(name):
        def node(state):
            LEDGER.append(name, get_runtime().execution_info.node_attempt)
            raise ValueError(name)

        return node

    def handler(state, error: NodeError):
        LEDGER.append("handler", error.node)
        return Command(update={"log": [f"handled {error.node}"]}, goto="work" if error.node == "a" else ())

    def work(state):
        LEDGER.append("work", "")
        return Command(update={"log": ["work"]}, goto=[Send("sent", n) for n in range(2)])

    def sent(arg):
        LEDGER.append("sent", arg)
        if arg:
            raise ValueError(arg)
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("a", bad("a"), error_handler=handler).add_edge(START, "a")
    builder.add_node("b", bad("b"), retry_policy=QUICK, error_handler=handler).add_edge(START, "b")
    builder.add_node("work", work).add_node("sent", sent, error_handler=handler).add_node("c", says("c"))
    return builder.add_edge(START, "c")


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_wherever_the_process_dies_it_ends_the_same_and_no_handler_runs_twice(backend):
    crash_sweep(crashing, {"log": ["in"]}, ledger=LEDGER, faces=["sync", "async"], backend=backend, report=None).check()
