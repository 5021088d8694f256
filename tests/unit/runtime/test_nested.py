"""Where a graph inside a task is: its namespace, and which call of several it is."""

import sys
import threading

import pytest

from checkpointers import InMemorySaver
from durable_graph.core.effects import Batch
from durable_graph.core.run import OWNER
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter
from durable_graph.records import Address, Frontier, LaneInfo, LoadedThread, StepRecord, StoredCheckpoint, ThreadInfo
from durable_graph.runtime.committer import committer_for
from durable_graph.runtime.hold import Hold, call_namespace, call_of
from durable_graph.runtime.nested import GraphCalls, path_inside
from durable_graph.runtime.outbox import NestedOutbox, Outbox
from tests.behaviour.small_graphs import chain, thread


@pytest.mark.parametrize(
    ("task", "number", "ns"),
    [
        ("node", 0, "node"),
        ("node", 2, "node:+2"),
        ("node#3", 0, "node:3"),
        ("node#3", 2, "node:3+2"),
        ("c++", 0, "c++"),
        ("a+1", 0, "a+1"),
        ("a+1", 1, "a+1:+1"),
    ],
)
@pytest.mark.parametrize("above", ["", "outer", "outer:1+2|middle"])
def test_a_namespace_is_the_path_of_the_task_and_the_number_of_the_call(above, task, number, ns):
    path = path_inside(above, task)
    found = call_namespace(path, number)
    assert found == (f"{above}|{ns}" if above else ns)
    assert call_of(found) == (path, number)


def test_no_two_places_have_the_same_namespace():
    tasks = ["a", "a+1", "a#1", "a+1#1", "a#11", "1", "+1"]
    found = [call_namespace(path_inside("", task), number) for task in tasks for number in (0, 1, 11)]
    assert len(set(found)) == len(found)


def stored(number, digest):
    """What is known of a call that was made before."""
    owner = {OWNER: [1, 5, digest]}
    return StoredCheckpoint(Address(2 + number, 9, 7), None, owner, {}, StepRecord(0, "loop", {}, Frontier()))


class Session:
    """What `GraphCalls` asks of a session."""

    edited = False

    def __init__(self, *digests):
        self.hold = self
        self.known = {call_namespace("n", number): stored(number, digest) for number, digest in enumerate(digests)}

    def numbers_of(self, path):
        return list(range(len(self.known)))

    def begun(self, ns):
        return self.known[ns], None


def test_calls_that_come_as_before_get_their_places():
    calls, session = GraphCalls("n"), Session(b"a", b"b")
    assert [calls.place(digest, session) for digest in (b"a", b"b", b"c")] == ["n", "n:+1", "n:+2"]


def test_calls_that_come_in_another_order_are_known_by_what_they_are():
    calls, session = GraphCalls("n"), Session(b"a", b"b", b"c")
    assert [calls.place(digest, session) for digest in (b"c", b"a", b"b")] == ["n:+2", "n", "n:+1"]


def test_equal_calls_are_told_apart_by_their_order():
    calls, session = GraphCalls("n"), Session(b"a", b"a", b"b")
    assert [calls.place(digest, session) for digest in (b"b", b"a", b"a")] == ["n:+2", "n", "n:+1"]


def test_a_call_with_another_input_is_known_by_its_place():
    calls, session = GraphCalls("n"), Session(b"a", b"b")
    assert [calls.place(digest, session) for digest in (b"x", b"y")] == ["n", "n:+1"]


def test_a_call_that_is_in_nobodys_place_begins_anew():
    calls, session = GraphCalls("n"), Session(b"a", b"b")
    assert [calls.place(digest, session) for digest in (b"b", b"x", b"a")] == ["n:+1", "n:+2", "n"]


def test_of_several_calls_at_once_the_place_says_nothing():
    """The one that comes first now may never have come to be stored; it must not get what another one was answered."""
    calls, session = GraphCalls("n"), Session(b"a", b"b")
    for _ in range(3):
        calls.begin()
    assert [calls.place(digest, session) for digest in (b"x", b"a", b"b")] == ["n:+2", "n", "n:+1"]


def test_an_edit_may_have_changed_what_several_calls_at_once_are_called_with():
    calls, session = GraphCalls("n"), Session(b"a", b"b")
    session.edited = True
    for _ in range(2):
        calls.begin()
    assert [calls.place(digest, session) for digest in (b"x", b"y")] == ["n", "n:+1"]


def test_numbers_are_given_once_however_many_os_threads_call():
    calls, found = GraphCalls("n"), []
    threads = [threading.Thread(target=lambda: found.extend(calls.next() for _ in range(100))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == sorted(call_namespace("n", number) for number in range(800))


def test_who_waits_for_the_other_calls_is_woken_by_the_last_one():
    calls = GraphCalls("n")
    assert calls.others() is None
    calls.begin()
    calls.begin()
    waiting = [calls.others(), calls.others()]
    calls.end()
    assert not any(one.done() for one in waiting)
    calls.end()
    assert all(one.done() for one in waiting)
    assert calls.others() is None


def hold_over(*lanes):
    saver = InMemorySaver()
    loaded = LoadedThread(ThreadInfo(1, "t", 3, None, "done"), lanes, 1, ())
    return Hold(saver, committer_for(saver), "t", loaded, "sync")


def test_a_hold_knows_the_lanes_and_calls_of_a_task():
    hold = hold_over(
        LaneInfo(1, "", 0, 0, 9),
        LaneInfo(2, "n", 0, 0, 5),
        LaneInfo(3, "n:+1", 0, 0, 6),
        LaneInfo(4, "n", 2, 4, 8),
        LaneInfo(5, "n|deep", 0, 0, 7),
        LaneInfo(7, "n+1", 0, 0, 3),
    )
    assert hold.lanes_of("n") == [4, 2]
    assert (hold.newest_lane("n"), hold.newest_lane("nothing")) == (4, None)
    assert (hold.numbers_of("n"), hold.numbers_of("n+1"), hold.numbers_of("x")) == ([0, 1], [0], [])
    assert hold.written_since(6) == ["", "n", "n|deep"]
    assert hold.new_lane("n:+12") == 8
    assert hold.numbers_of("n") == [0, 1, 12]


def test_one_writes_in_a_namespace_at_a_time():
    hold, first, second = hold_over(LaneInfo(1, "", 0, 0, 9)), object(), object()
    hold.take_over("n", first)
    hold.take_over("n", second)
    hold.take_over("m", first)
    assert hold.writers == {"n": second, "m": first}


def test_lanes_are_not_looked_through_for_each_task():
    """A map of Sends makes a lane for each; its cost is in proportion to them."""
    hold = hold_over(LaneInfo(1, "", 0, 0, 9))
    assert [hold.new_lane(f"n:{number}") for number in range(5)] == [2, 3, 4, 5, 6]


def test_what_is_stored_of_a_called_graph_says_which_call_it_is():
    """Of a graph that is the node itself there is one call only."""
    saver = InMemorySaver()
    inner = chain(c=lambda s: {"log": ["c"]}).compile()
    graph = chain(sub=inner, called=lambda s: {"log": inner.invoke({"log": []})["log"]}).compile(saver)
    graph.invoke({"log": []}, thread())
    from durable_graph.runtime.session import ask, newest

    sub, called = (ask(saver, newest("t", ns=ns)).values[OWNER] for ns in ("sub", "called"))
    assert len(sub) == 2
    assert len(called) == 3
    assert len(called[2]) == 8


class Slow(Hold):
    """A hold whose OS thread is held up just when its commit has come back."""

    def held_up(self, came, go_on):
        self.came, self.go_on = came, go_on

    def judge(self, outcome):
        if self.came is not None:
            came, self.came = self.came, None
            came.set()
            assert self.go_on.wait(10)
        super().judge(outcome)


def test_rows_are_committed_once_when_two_os_threads_flush(tmp_path):
    """Two graphs inside one node, say. The second one must not take a commit that came back for one that did not."""
    from checkpointers import SqliteSaver
    from durable_graph.records import BASE, MAIN, ClaimRequest, Row

    commits = []

    class Counting(SqliteSaver):
        def commit(self, items):
            commits.extend(row.seq for item in items for row in item.rows)
            return super().commit(items)

    with Counting(tmp_path / "runs.db") as saver:
        hold = Slow(saver, committer_for(saver), "t", None, "sync")
        hold.held_up(threading.Event(), threading.Event())
        came, go_on = hold.came, hold.go_on
        lane = hold.new_lane("")
        request = hold.claim_request(lane, 0)
        assert isinstance(request, ClaimRequest)
        hold.claimed(saver.claim(request))
        hold.rows.append(Row(lane, MAIN, 1, BASE, b"one"))
        first = threading.Thread(target=hold.flush)
        first.start()
        assert came.wait(10)
        hold.rows.append(Row(lane, MAIN, 2, BASE, b"two"))
        hold.flush()
        go_on.set()
        first.join()
    assert commits == [1, 2]


@pytest.fixture
def eager_switches():
    """OS threads that take turns after nearly every instruction."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def end_a_run(hold):
    Outbox(hold, LaneWriter(CODEC, 1)).add(Batch((), None, "done"))


READS = {
    "written_since": lambda hold: hold.written_since(0),
    "newest_lane": lambda hold: hold.newest_lane("n"),
    "lanes_of": lambda hold: hold.lanes_of("n"),
    "numbers_of": lambda hold: hold.numbers_of("n"),
    "the end of a run": end_a_run,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_os_threads_begin_graphs_while_another_one_looks(read, eager_switches):
    """A map of Sends to a node that calls graphs: some begin while others look where they go on."""
    hold = hold_over(LaneInfo(1, "", 0, 0, 9))
    hold.durability = "exit"
    failed = []

    def begin(number, times=50):
        for one in range(times):
            lane = hold.new_lane(f"n:{number}+{one}")
            hold.new_lane("n")
            NestedOutbox(hold, LaneWriter(CODEC, lane), f"n:{number}+{one}", object())

    def look():
        try:
            while any(one.is_alive() for one in beginning):
                read(hold)
        except RuntimeError as error:
            failed.append(error)

    begin(0, 500)  # a look takes long enough to be overtaken
    beginning = [threading.Thread(target=begin, args=(number,)) for number in (1, 2, 3)]
    looking = threading.Thread(target=look)
    for one in (*beginning, looking):
        one.start()
    for one in (*beginning, looking):
        one.join()
    assert failed == []
    assert len(hold.lanes) == 1 + 2 * (500 + 3 * 50)
