"""The backend fails in the middle of a run: the caller learns it, and the thread goes on from its last durable step."""

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import END, START, Command, Send, StateGraph, interrupt
from durable_graph.errors import DatabaseFullError, DatabaseLockedError, LostLease, StorageError
from durable_graph.records import ClaimRequest
from tests.behaviour.small_graphs import Log, Marks, chain, dump, thread

CFG = thread()


class Trouble:
    """Which write of a saver fails, and how often it wrote."""

    def __init__(self):
        self.fails_at = None
        self.lose_answer = False
        self.writes = 0

    def strike(self, write):
        self.writes += 1
        if self.writes != self.fails_at:
            return write()
        if self.lose_answer:
            write()
        what = f"no room left at write {self.writes}"
        raise DatabaseFullError(what)


def failing(base):
    class FailingSaver(base):
        trouble = None

        def commit(self, items):
            return self.trouble.strike(lambda: super(FailingSaver, self).commit(items))

        def claim(self, request):
            return self.trouble.strike(lambda: super(FailingSaver, self).claim(request))

    return FailingSaver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        made = failing(InMemorySaver)()
    else:
        made = failing(SqliteSaver)(tmp_path / "runs.db", synchronous="NORMAL")
    made.trouble = Trouble()
    with made:
        yield made


def shapes(marks):
    """A graph with a chain, a fan-out, a join and a loop."""

    def work(item):
        marks(("work", item))
        return {"log": [item]}

    def node(name):
        return lambda state: (marks(name), {"log": [name]})[1]

    builder = StateGraph(Log).add_node("a", node("a")).add_edge(START, "a").add_node("work", work)
    builder.add_conditional_edges("a", lambda state: [Send("work", n) for n in range(3)], ["work"])
    builder.add_node("loop", node("loop")).add_edge("work", "loop")
    return builder.add_conditional_edges("loop", lambda state: END if state["log"].count("loop") == 2 else "loop")


EXPECTED = ["a", 0, 1, 2, "loop", "loop"]


@pytest.mark.parametrize("lose_answer", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_whichever_write_fails_the_thread_goes_on(face, saver, durability, lose_answer):
    failures = []
    for fails_at in range(1, 30):
        saver.trouble.__init__()
        saver.trouble.fails_at, saver.trouble.lose_answer = fails_at, lose_answer
        marks = Marks()
        graph = shapes(marks).compile(saver)
        config = thread(f"t{fails_at}")
        try:
            result = face.invoke(graph, {}, config, durability=durability)
        except DatabaseFullError as error:
            failures.append(error.what)
        else:
            assert result["log"] == EXPECTED
            assert saver.trouble.writes < fails_at
            break
        state = face.get_state(graph, config)
        finished = {("work", n) for n, task in enumerate(state.tasks) if task.result and task.name == "work"}
        result = face.invoke(graph, {} if state.metadata is None else None, config, durability=durability)
        assert result["log"] == EXPECTED
        assert face.get_state(graph, config).values["log"] == EXPECTED
        assert all(marks.count(one) == 1 for one in finished)
    else:
        pytest.fail("the run never came through")
    assert failures == [f"no room left at write {at}" for at in range(1, len(failures) + 1)]
    assert len(failures) >= (3 if durability == "sync" else 1)  # the others write several steps at once


def test_under_sync_only_the_step_whose_write_failed_runs_again(face, saver):
    marks = Marks()
    names = "abcde"
    builder = chain(**{name: lambda state, name=name: (marks(name), {"log": [name]})[1] for name in names})
    graph = builder.compile(saver)
    saver.trouble.fails_at = 4
    with pytest.raises(DatabaseFullError):
        face.invoke(graph, {}, CFG)
    done = face.get_state(graph, CFG).values["log"]
    assert marks.seen == [*done, names[len(done)]]
    assert face.invoke(graph, None, CFG)["log"] == list(names)
    assert marks.seen == [*done, names[len(done)], *names[len(done) :]]


def test_an_answer_that_was_not_stored_leaves_the_question_open(face, saver):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    saver.trouble.fails_at = saver.trouble.writes + 1
    with pytest.raises(DatabaseFullError):
        face.invoke(graph, Command(resume="lost"), CFG)
    assert dump(saver) == rows
    assert face.invoke(graph, Command(resume="kept"), CFG)["answer"] == "kept"


def test_the_stream_ends_with_the_error_and_shows_no_step_that_was_not_stored(face, saver):
    builder = chain(**{name: lambda state, name=name: {"log": [name]} for name in "abcde"})
    graph = builder.compile(saver)
    saver.trouble.fails_at = 4
    events = []
    with pytest.raises(DatabaseFullError):
        events += collect(face, graph, events)
    stored = face.get_state(graph, CFG).values["log"]
    shown = [next(iter(event)) for event in events]
    assert shown == stored


def collect(face, graph, events):
    """Stream into `events`, so that what came before an error is kept."""
    import asyncio

    if face.name == "sync":
        for event in graph.stream({}, CFG, stream_mode="updates"):
            events.append(event)
        return []

    async def main():
        async for event in graph.astream({}, CFG, stream_mode="updates"):
            events.append(event)

    asyncio.run(main())
    return []


# --- somebody else takes the thread ----------------------------------------------------------------------------------


def take_over(saver, key="t"):
    """Claim a thread as another host would whose look at the lease says it expired."""
    while True:
        loaded = saver.load(key)
        info, lane = loaded.thread, max(loaded.lanes, key=lambda one: one.last)
        request = ClaimRequest(key, "elsewhere:0:1:1:abcd", info.epoch, info.epoch + 1, lane.lane, lane.last, (), ())
        if saver.claim(request) is not None:  # None: a commit came between the look and the claim
            return


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_lost_its_thread_writes_nothing_after_that(face, backend, durability):
    saver = backend.make()
    taken = []

    def b(state):
        take_over(saver)
        taken.append(dump(saver))
        return {"log": ["b"]}

    names = {name: lambda state, name=name: {"log": [name]} for name in "acde"}
    builder = chain(a=names["a"], b=b, c=names["c"], d=names["d"], e=names["e"])
    with pytest.raises(LostLease, match="'t' was taken over"):
        face.invoke(builder.compile(saver), {}, CFG, durability=durability)
    assert dump(saver) == taken[0]


def test_a_run_that_lost_its_thread_under_a_fan_out_writes_nothing_after_that(face, backend):
    saver = backend.make()
    taken = []

    def work(n):
        if n == 0:
            take_over(saver)
            taken.append(dump(saver))
        return {"log": [n]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(1)])
    with pytest.raises(LostLease):
        face.invoke(builder.compile(saver), {}, CFG)
    assert dump(saver) == taken[0]


def test_a_lost_lease_is_a_storage_error_and_leaves_other_threads_alone(face, backend):
    saver = backend.make()

    def a(state):
        if state["answer"] == "mine":
            take_over(saver)
        return {"log": ["a"]}

    graph = chain(a=a).compile(saver)
    with pytest.raises(StorageError):
        face.invoke(graph, {"answer": "mine"}, CFG)
    assert face.invoke(graph, {"answer": "other"}, thread("u"))["log"] == ["a"]


# --- a locked database -----------------------------------------------------------------------------------------------


def test_a_database_that_another_holds_for_too_long_is_an_error_and_the_thread_goes_on(face, tmp_path):
    import sqlite3

    path = tmp_path / "runs.db"
    marks = Marks()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def b(state):
        marks("b")
        if marks.count("b") == 1:
            other.execute("BEGIN IMMEDIATE")
        return {"log": ["b"]}

    with SqliteSaver(path, busy_timeout=0.2) as saver:
        graph = chain(a=lambda state: (marks("a"), {"log": ["a"]})[1], b=b).compile(saver)
        with pytest.raises(DatabaseLockedError):
            face.invoke(graph, {}, CFG)
        assert face.get_state(graph, CFG).values == {"log": ["a"]}
        other.execute("ROLLBACK")
        other.close()
        assert face.invoke(graph, None, CFG)["log"] == ["a", "b"]
        assert marks.seen == ["a", "b", "b"]


def test_a_database_that_another_holds_for_a_moment_is_waited_for(face, tmp_path):
    import sqlite3
    import threading

    path = tmp_path / "runs.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def a(state):
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, other.execute, ("ROLLBACK",)).start()
        return {"log": ["a"]}

    with SqliteSaver(path, busy_timeout=10) as saver:
        assert face.invoke(chain(a=a).compile(saver), {}, CFG)["log"] == ["a"]
    other.close()
