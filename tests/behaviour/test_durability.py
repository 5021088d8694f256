"""What is stored at which moment, for each durability."""

import threading
import time

import pytest

from checkpointers import SqliteSaver
from durable_graph import END, START, Command, Send, StateGraph, interrupt
from durable_graph.errors import InvalidConfigError
from durable_graph.records import PENDING
from tests.behaviour.small_graphs import Log, Marks, asked, chain, count_checkpoints, parallel, thread

CFG = thread()


COUNT = f"SELECT count(*) FROM record WHERE part = 0 AND kind <> {PENDING}"


def steps_on_disk(backend):
    """Checkpoints as somebody else sees them: through a connection of its own."""
    if backend.opened[0].instant:
        return count_checkpoints(backend.opened[0])
    return backend.select(COUNT)[0][0]


def watching(backend, seen, count):
    """A loop of `count` rounds; each round notes what was on disk when it started."""

    def work(state):
        seen.append(steps_on_disk(backend))
        return {"log": [len(state["log"])]}

    builder = StateGraph(Log).add_node("work", work).add_edge(START, "work")
    return builder.add_conditional_edges("work", lambda state: END if len(state["log"]) >= count else "work")


@pytest.mark.parametrize("durability", [None, "sync"])
def test_sync_stores_each_step_before_the_next_one_starts(face, backend, durability):
    seen = []
    graph = watching(backend, seen, 5).compile(backend.make())
    face.invoke(graph, {}, CFG, durability=durability)
    assert seen == [2, 3, 4, 5, 6]
    assert steps_on_disk(backend) == 7


def test_exit_stores_one_checkpoint_when_the_run_ends(face, backend):
    seen = []
    graph = watching(backend, seen, 5).compile(backend.make())
    result = face.invoke(graph, {}, CFG, durability="exit")
    assert max(seen) <= 1
    assert steps_on_disk(backend) == 1 + max(seen)
    assert face.get_state(graph, CFG).values == result
    assert face.get_state(graph, CFG).metadata["step"] == 5


def test_exit_stores_what_failed_and_it_goes_on(face, backend):
    marks = Marks()

    def b(state):
        marks("b")
        if marks.count("b") == 1:
            raise ValueError("once")
        return {"log": ["b"]}

    builder = chain(a=lambda state: (marks("a"), {"log": ["a"]})[1], b=b)
    with pytest.raises(ValueError, match="once"):
        face.invoke(builder.compile(backend.make()), {}, CFG, durability="exit")
    elsewhere = builder.compile(backend.reopen())
    state = face.get_state(elsewhere, CFG)
    assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
    assert "once" in state.tasks[0].error
    assert face.invoke(elsewhere, None, CFG, durability="exit")["log"] == ["a", "b"]
    assert marks.seen == ["a", "b", "b"]


def test_exit_stores_questions_and_results_of_siblings(face, backend):
    marks = Marks()
    builder = chain(a=lambda state: {"log": ["a"]})
    builder.add_node("ask", lambda state: {"log": [interrupt("?")]}).add_edge("a", "ask")
    builder.add_node("work", lambda state: (marks("work"), {"log": ["work"]})[1]).add_edge("a", "work")
    face.invoke(builder.compile(backend.make()), {}, CFG, durability="exit")
    elsewhere = builder.compile(backend.reopen())
    assert list(asked(face.get_state(elsewhere, CFG))) == ["?"]
    result = face.invoke(elsewhere, Command(resume="yes"), CFG, durability="exit")
    assert result["log"] == ["a", "yes", "work"]
    assert marks.count("work") == 1


def test_exit_stores_a_stop_at_a_breakpoint(face, backend):
    builder = chain(**{name: lambda state, name=name: {"log": [name]} for name in "abc"})
    face.invoke(builder.compile(backend.make(), interrupt_before=["c"]), {}, CFG, durability="exit")
    elsewhere = builder.compile(backend.reopen(), interrupt_before=["c"])
    assert face.get_state(elsewhere, CFG).next == ("c",)
    assert face.invoke(elsewhere, None, CFG, durability="exit")["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_all_durabilities_end_in_the_same_state(face, backend, durability):
    builder = parallel(a=lambda state: {"log": ["a"]}, b=lambda state: {"log": ["b"]})
    builder.add_node("join", lambda state: [Send("work", n) for n in range(5)], destinations=["work"])
    builder.add_edge(["a", "b"], "join").add_node("work", lambda n: {"log": [n]})
    graph = builder.compile(backend.make())
    result = face.invoke(graph, {}, CFG, durability=durability)
    assert result == {"log": ["a", "b", 0, 1, 2, 3, 4]}
    assert face.get_state(builder.compile(backend.reopen()), CFG).values == result


def test_async_has_stored_everything_when_the_call_returns(face, backend):
    seen = []
    graph = watching(backend, seen, 40).compile(backend.make())
    result = face.invoke(graph, {}, CFG, durability="async")
    assert steps_on_disk(backend) == 42
    assert face.get_state(graph, CFG).values == result
    assert [one.metadata["step"] for one in face.get_state_history(graph, CFG)] == list(range(40, -2, -1))


def test_an_unknown_durability_is_an_error(face, backend):
    graph = chain(a=lambda state: None).compile(backend.make())
    with pytest.raises(InvalidConfigError, match=r"durability 'never'.*sync, async, exit"):
        face.invoke(graph, {}, CFG, durability="never")


# --- a slow disk -----------------------------------------------------------------------------------------------------


class SlowSaver(SqliteSaver):
    """A real saver on a disk that needs 10 ms a commit. `done` counts rows that are stored."""

    def __init__(self, path):
        super().__init__(path, synchronous="NORMAL")
        self.commits = 0

    def commit(self, items):
        time.sleep(0.01)
        outcomes = super().commit(items)
        self.commits += 1
        return outcomes


def test_async_never_runs_more_than_64_checkpoints_ahead_of_a_slow_disk(face, tmp_path):
    behind = []
    count = 200

    def work(state):
        if len(state["log"]) % 10 == 0:
            behind.append(len(state["log"]) + 2 - count_checkpoints(saver))
        return {"log": [1]}

    builder = StateGraph(Log).add_node("work", work).add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: END if len(state["log"]) >= count else "work")
    with SlowSaver(tmp_path / "slow.db") as saver:
        face.invoke(builder.compile(saver), {}, CFG, durability="async")
        assert max(behind) <= 64
        assert count_checkpoints(saver) == count + 2
        assert saver.commits < count  # group commit: the disk was not asked once a step


def test_async_waits_for_a_disk_that_stands_still(face, tmp_path):
    """While one commit hangs a run goes no further than 64 checkpoints, however fast its steps are."""
    released = threading.Event()
    ran = []

    class StuckSaver(SqliteSaver):
        def commit(self, items):
            assert released.wait(20)
            return super().commit(items)

    def work(state):
        ran.append(None)
        return {"log": [1]}

    builder = StateGraph(Log).add_node("work", work).add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: END if len(state["log"]) >= 300 else "work")
    with StuckSaver(tmp_path / "stuck.db") as saver:
        graph = builder.compile(saver)
        run = threading.Thread(target=face.invoke, args=(graph, {}, CFG), kwargs={"durability": "async"})
        run.start()
        time.sleep(0.5)
        stood_at = len(ran)
        time.sleep(0.2)
        assert len(ran) == stood_at <= 66
        released.set()
        run.join(30)
        assert not run.is_alive()
        assert len(ran) == 300
        assert count_checkpoints(saver) == 302
