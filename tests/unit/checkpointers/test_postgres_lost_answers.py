"""The answer of the server is lost on the way: what it did counts once, whether it had done it or still does."""

import threading

import psycopg
import pytest

from checkpointers import PostgresSaver
from durable_graph import END, StateGraph
from durable_graph.records import Claim, CommitItem, LaneInfo, Row, RowRange
from durable_graph.testing.conformance.acting import Sync, create, seqs, start, step, take_over
from tests import postgres_server
from tests.behaviour.small_graphs import Log, thread
from tests.postgres_proxy import Proxy


@pytest.fixture
def proxy():
    with Proxy() as proxy:
        yield proxy


@pytest.fixture
def saver(proxy, schema):
    with PostgresSaver(proxy.dsn, schema=schema) as saver:
        saver.setup()
        yield saver


def rows(claim, seq, count):
    return CommitItem(claim, tuple(Row(1, part, seq, 0, b"%d" % part) for part in range(count)))


@pytest.mark.parametrize("prepared", [False, True], ids=["first time", "prepared"])
@pytest.mark.parametrize("how", ["lose", "cut"])
def test_a_commit_whose_answer_is_lost_is_there_once_and_the_caller_learns_it(saver, proxy, how, prepared):
    claim = start(saver)
    last = 1
    for _ in range(9 if prepared else 0):
        last += 1
        saver.commit([step(claim, last)])
    setattr(proxy, how, 1)
    assert saver.commit([step(claim, last + 1)]) in (["already mine"], ["written"])
    assert proxy.lost == 1
    assert saver.commit([step(claim, last + 1)]) == ["already mine"]
    assert seqs(Sync(), saver) == list(range(1, last + 2))


def test_a_group_whose_answer_is_lost_is_there_once_with_its_stale_items_left_out(saver, proxy):
    claim, other, third = start(saver), start(saver, key="other"), start(saver, key="third")
    take_over(saver, other, seen=1, key="other")
    lane = CommitItem(claim, (Row(2, 0, 3, 1, b"x"),), (LaneInfo(2, "ns", 1, 1, 0),))
    group = [step(third, 2), step(other, 2), step(claim, 2), lane, rows(claim, 4, 3), step(third, 3, status="done")]
    proxy.lose = 1
    mine = "already mine"
    assert saver.commit(group) == [mine, "stale", mine, mine, mine, mine]
    assert proxy.lost == 1
    assert seqs(Sync(), saver) == [1, 2, 4]
    assert seqs(Sync(), saver, "third") == [1, 2, 3]
    assert saver.load("third").thread.status == "done"
    assert len(saver.load("thread").lanes) == 2


@pytest.mark.parametrize("lost", range(1, 9))
def test_an_item_of_several_statements_is_there_once_whichever_answer_is_lost(saver, proxy, lost):
    claim = start(saver)
    item = rows(claim, 2, 2500)._replace(status="done")  # begin, three parts, giving back, commit
    proxy.lose = lost
    assert saver.commit([item])[0] in {"written", "already mine"}
    assert proxy.lost == (lost <= 6)
    found = saver.read(claim.no, [RowRange(1, part, 2, 2) for part in range(2500)])
    assert [one[0].data for one in found] == [b"%d" % part for part in range(2500)]
    assert saver.load("thread").thread.owner is None


@pytest.mark.parametrize("how", ["lose", "cut"])
def test_a_claim_of_a_new_thread_whose_answer_is_lost_is_granted(saver, proxy, how):
    request = create("new", "me")
    setattr(proxy, how, 1)
    claim = saver.claim(request)
    assert proxy.lost == 1
    assert claim == Claim(saver.load("new").thread.no, request.new_epoch)
    assert len(saver.threads()) == 1


@pytest.mark.parametrize("how", ["lose", "cut"])
def test_a_takeover_whose_answer_is_lost_is_granted(saver, proxy, how):
    claim = start(saver)
    setattr(proxy, how, 1)
    assert take_over(saver, claim, seen=1, owner="me") == Claim(claim.no, claim.epoch + 1)
    assert proxy.lost == 1
    assert saver.load("thread").thread.owner == "me"


@pytest.mark.parametrize("new", [True, False], ids=["new thread", "takeover"])
def test_a_claim_that_is_lost_while_it_still_runs_is_granted(saver, proxy, schema, new):
    """It waits for a lock when its connection is cut, and is done after we asked again."""
    claim = None if new else start(saver)
    request = create("new", "me", [Row(1, 0, 1, 1, b"x")])
    if claim is not None:
        request = request._replace(key="thread", epoch=claim.epoch, new_epoch=claim.epoch + 1, seen=1, new_lanes=())
        request = request._replace(rows=(Row(1, 0, 2, 0, b"x"),))
    answer = []
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"LOCK TABLE {schema}.record IN SHARE MODE")
        proxy.cut = 1
        caller = threading.Thread(target=lambda: answer.append(saver.claim(request)))
        caller.start()
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        while postgres_server.run(query, (f'%"{schema}"%',)) < [(2,)]:
            assert caller.is_alive()
    caller.join(30)
    assert proxy.lost == 1
    found = saver.load(request.key)
    assert answer == [Claim(found.thread.no, request.new_epoch)]
    assert found.thread.owner == "me"
    assert [row.seq for row in found.rows] == ([1] if new else [1, 2])


def test_a_claim_that_somebody_else_was_granted_meanwhile_is_refused(saver, proxy, schema):
    claim = start(saver)
    proxy.lose = 1
    saver.load("thread")  # a session that reads is there already, and loses nothing below
    others = PostgresSaver(postgres_server.dsn(), schema=schema)
    assert take_over(others, claim, seen=1, owner="somebody else") is not None
    proxy.lose = 1
    assert take_over(saver, claim, seen=1, owner="me") is None
    assert saver.load("thread").thread.owner == "somebody else"
    others.close()


def test_what_was_stored_before_the_thread_was_taken_over_is_no_loss(saver, proxy, schema, monkeypatch):
    """The last commit gives the thread back; before we ask again, somebody else has it."""
    claim = start(saver)
    others = PostgresSaver(postgres_server.dsn(), schema=schema)
    database = saver._database
    opened = database._open_writer

    def after_a_takeover(patience):
        take_over(others, claim, seen=3)
        return opened(patience)

    monkeypatch.setattr(database, "_open_writer", after_a_takeover)
    proxy.lose = 1
    assert saver.commit([step(claim, 2, status="done"), step(claim, 3)]) == ["already mine", "already mine"]
    assert saver.commit([step(claim, 2, status="done")]) == ["stale"]  # a caller who asks himself learns who holds it
    others.close()


def looping():
    """A graph that counts to five."""
    builder = StateGraph(Log).add_node("a", lambda state: {"log": [len(state["log"])]}).add_edge("__start__", "a")
    return builder.add_conditional_edges("a", lambda state: END if len(state["log"]) == 5 else "a")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_ends_right_whichever_answer_is_lost(saver, proxy, face, durability):
    graph = looping().compile(checkpointer=saver)
    for lost in range(1, 40):
        proxy.lose, before = lost, proxy.lost
        assert face.invoke(graph, {}, thread(f"t{lost}"), durability=durability)["log"] == [0, 1, 2, 3, 4]
        if proxy.lost == before:
            break
        history = face.get_state_history(graph, thread(f"t{lost}"))
        assert len(history[0].values["log"]) == 5
        assert len(history) == len({one.metadata["step"] for one in history})
    else:
        pytest.fail("the run never came through without a loss")
    assert proxy.lost >= 2
