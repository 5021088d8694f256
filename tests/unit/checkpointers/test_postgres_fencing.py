"""Writers and takeovers that meet inside Postgres: who waits for whom, and who is refused."""

import random
import threading

import psycopg
import pytest

from checkpointers import PostgresSaver
from checkpointers.postgres import _given, _text_of
from checkpointers.sql import postgres_statements as sql
from durable_graph.errors import DatabaseLockedError, InternalError
from durable_graph.records import MAIN, Claim, ClaimRequest, CommitItem, LaneInfo, Row, RowRange
from durable_graph.testing.conformance.acting import FIRST_ROW, Sync, create, seqs, start, step, take_over, together
from tests import postgres_server


@pytest.fixture
def saver(schema):
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        yield saver


def isolated(level):
    """The DSN of sessions whose transactions are isolated like this, where nobody says otherwise."""
    option = level.replace(" ", "\\\\ ")
    return f"{postgres_server.dsn()} options='-c default_transaction_isolation={option}'"


class InFlight:
    """Another process's commit, with its transaction still open."""

    def __init__(self, schema, item):
        self.connection = psycopg.connect(postgres_server.dsn())
        text = sql.in_schema(_text_of(item), schema)
        (self.held, self.added, *_) = self.connection.execute(text, _given(item)).fetchone()

    def end(self, how):
        getattr(self.connection, how)()
        self.connection.close()


class Waiting(threading.Thread):
    """A call in an OS thread of its own, which a lock in Postgres keeps waiting."""

    def __init__(self, schema, call):
        super().__init__()
        self.call, self.result = call, "none yet"
        self.start()
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s LIMIT 1"
        while not postgres_server.run(query, (f'%"{schema}"%',)):
            assert self.is_alive(), self.result

    def run(self):
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.result = error

    def ended(self):
        self.join(20)
        return self.result


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("status", [None, "done"], ids=["goes on", "gives back"])
def test_a_takeover_waits_for_a_writer_in_flight_and_is_refused_once_that_has_committed(schema, isolation, status):
    with PostgresSaver(isolated(isolation), schema=schema) as saver:
        assert saver.load("thread") is None
        claim = start(saver)
        writer = InFlight(schema, step(claim, 2, status=status))
        assert (writer.held, writer.added) == (1, 1)
        takeover = Waiting(schema, lambda: take_over(saver, claim, seen=1))
        writer.end("commit")
        assert takeover.ended() is None
        assert saver.load("thread").thread.epoch == claim.epoch
        assert seqs(Sync(), saver) == [1, 2]
        assert take_over(saver, claim, seen=2) == Claim(claim.no, claim.epoch + 1)


def test_a_takeover_succeeds_when_the_writer_in_flight_is_undone(saver, schema):
    claim = start(saver)
    writer = InFlight(schema, step(claim, 2))
    takeover = Waiting(schema, lambda: take_over(saver, claim, seen=1))
    writer.end("rollback")
    assert takeover.ended() == Claim(claim.no, claim.epoch + 1)
    assert seqs(Sync(), saver) == [1]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_writer_waits_for_a_takeover_in_flight_and_is_stale(schema, isolation, count):
    saver = PostgresSaver(isolated(isolation), schema=schema)
    claim = start(saver)
    with psycopg.connect(postgres_server.dsn()) as other:
        text = sql.in_schema(sql.takeover_text(0, 0), schema)
        given = (claim.epoch + 1, "second owner", "running", b"thread", claim.epoch, 1, 1, claim.epoch + 1, 9)
        assert other.execute(text, given).fetchone()[0] == claim.no
        commit = Waiting(schema, lambda: saver.commit([step(claim, seq) for seq in range(2, 2 + count)]))
    assert commit.ended() == ["stale"] * count
    assert seqs(Sync(), saver) == [1]
    saver.close()


def test_a_takeover_first_makes_the_writer_stale_and_the_rest_of_its_group_is_written(saver):
    claim, other = start(saver), start(saver, key="other")
    assert take_over(saver, claim, seen=1) is not None
    group = [step(claim, 2), step(other, 2), step(claim, 3, status="done"), step(other, 3)]
    assert saver.commit(group) == ["stale", "written", "stale", "written"]
    assert seqs(Sync(), saver) == [1]
    assert saver.load("thread").thread.owner == "second owner"


def test_of_rows_that_share_a_statement_each_claim_has_its_own_outcome(saver):
    lost, there, twice, late = (start(saver, key=key) for key in ("lost", "there", "twice", "late"))
    again = take_over(saver, lost, seen=1, key="lost")
    group = [step(twice, 2), step(lost, 2), step(late, 2), step(twice, 3), step(again, 2)]
    assert saver.commit(group) == ["written", "stale", "written", "written", "written"]
    assert saver.commit([*group, step(there, 2)]) == [
        "already mine",
        "stale",
        "already mine",
        "already mine",
        "already mine",
        "written",
    ]
    with pytest.raises(InternalError, match="seq 2"):
        saver.commit([step(late, 3), step(twice, 2, b"other"), step(there, 3)])
    assert [seqs(Sync(), saver, key) for key in ("lost", "there", "twice")] == [[1, 2], [1, 2], [1, 2, 3]]


def test_a_takeover_that_looked_at_an_older_row_is_refused(saver):
    claim = start(saver)
    saver.commit([step(claim, 2)])
    assert take_over(saver, claim, seen=1) is None
    assert saver.commit([step(claim, 3)]) == ["written"]


def test_claim_and_load_never_disagree(schema):
    """One writes, many take over what they have just loaded: whoever is granted a claim has seen the newest row."""
    savers = [PostgresSaver(postgres_server.dsn(), schema=schema) for _ in range(4)]
    start(savers[0])

    def contend(number):
        rolls, won = random.Random(number), 0
        for _ in range(60):
            found = savers[number].load("thread")
            seen = found.rows[-1].seq
            claim = take_over(savers[number], Claim(found.thread.no, found.thread.epoch), seen, owner=f"{number}")
            if claim is None:
                continue
            won += 1
            after = savers[number].load("thread")
            mine = after.thread.epoch == claim.epoch
            assert not mine or after.rows[-1].seq == seen, (seen, after)
            for seq in range(seen + 1, seen + 1 + rolls.randrange(4)):
                if savers[number].commit([step(claim, seq, b"%d" % claim.epoch)]) == ["stale"]:
                    break
        return won

    assert sum(together(4, contend)) > 0
    rows = savers[0].load("thread").rows
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    epochs = [int(row.data) for row in rows[1:]]
    assert epochs == sorted(epochs)
    for saver in savers:
        saver.close()


# --- locks of others -------------------------------------------------------------------------------------------------


def test_a_lock_longer_than_the_timeout_is_an_error_for_all_who_wait_and_loses_nothing(schema):
    saver = PostgresSaver(postgres_server.dsn(), schema=schema, timeout=0.1)
    claim = start(saver)
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"SELECT 1 FROM {schema}.thread FOR UPDATE")

        def attempt(number):
            with pytest.raises(DatabaseLockedError, match="lock timeout"):
                saver.commit([step(claim, 2), step(claim, 3)] if number else [step(claim, 2)])

        together(3, attempt)
        assert seqs(Sync(), saver) == [1]  # readers do not wait for a writer
        assert start(saver, key="new").no != claim.no  # nor does another thread's claim
    assert saver.commit([step(claim, 2)]) == ["written"]
    saver.close()


def test_a_lock_shorter_than_the_timeout_is_waited_for(saver, schema):
    claim = start(saver)
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute(f"LOCK TABLE {schema}.record IN ACCESS EXCLUSIVE MODE")
        commit = Waiting(schema, lambda: saver.commit([step(claim, 2)]))
        load = Waiting(schema, lambda: saver.load("thread"))
    assert commit.ended() == ["written"]
    assert load.ended().thread.no == claim.no


def test_a_lock_timeout_of_the_users_own_is_left_alone(schema):
    with PostgresSaver(f"{postgres_server.dsn()} options='-c lock_timeout=70'", schema=schema) as saver:
        saver.setup()
        assert saver._database._writer.execute("SHOW lock_timeout").fetchone() == ("70ms",)


# --- large items and odd text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 13_200])
def test_an_item_of_any_size_is_written_whole_once_and_found_again(saver, count):
    claim = start(saver)
    lanes = tuple(LaneInfo(lane, f"ns{lane}", 1, 1, 0) for lane in range(2, 2 + count // 10))
    rows = tuple(Row(1, part, 2, 0, b"%d" % part) for part in range(count))
    item = CommitItem(claim, rows, lanes, "done")
    assert saver.commit([item, step(claim, 3)]) == ["written", "written"]
    assert saver.commit([step(claim, 3), item]) == ["already mine", "already mine"]
    found = saver.load("thread")
    assert (found.thread.status, found.thread.owner, len(found.lanes)) == ("done", None, 1 + len(lanes))
    parts = saver.read(claim.no, [RowRange(1, part, 2, 2) for part in range(count)])
    assert [part[0] for part in parts] == list(rows)


def test_a_large_item_is_stale_as_a_whole_and_refused_as_a_whole(saver):
    claim = start(saver)
    rows = tuple(Row(1, part, 2, 0, b"x") for part in range(2500))
    saver.commit([CommitItem(claim, (Row(1, 2400, 2, 0, b"another"),))])
    with pytest.raises(InternalError, match="lane 1"):
        saver.commit([CommitItem(claim, rows)])
    assert saver.read(claim.no, [RowRange(1, 0, 2, 2), RowRange(1, 7, 2, 2)]) == [[], []]
    take_over(saver, claim, seen=1)
    assert saver.commit([CommitItem(claim, rows, (), "done")]) == ["stale"]
    assert saver.read(claim.no, [RowRange(1, 7, 2, 2)]) == [[]]


@pytest.mark.parametrize("count", [1001, 13_200])
def test_a_claim_may_bring_any_number_of_rows(saver, count):
    rows = (FIRST_ROW, *(Row(1, part, 1, 0, b"x") for part in range(1, count)))
    request = create("large", "me", rows)
    claim = saver.claim(request)
    assert saver.claim(request) is None
    assert sum(map(len, saver.read(claim.no, [RowRange(1, part, 1, 1) for part in range(count)]))) == count
    more = tuple(Row(1, part, 2, 0, b"y") for part in range(count))
    taken = ClaimRequest("large", "you", claim.epoch, claim.epoch + 1, 1, 1, (), more)
    assert saver.claim(taken._replace(seen=0)) is None
    assert saver.claim(taken) == Claim(claim.no, claim.epoch + 1)
    assert seqs(Sync(), saver, "large") == [1, 2]
    assert saver.commit([step(claim, 3)]) == ["stale"]


def test_a_value_of_20_mb_comes_back_as_it_was(saver):
    claim = start(saver)
    value = random.Random(1).randbytes(20_000_000)
    assert saver.commit([step(claim, 2, value), step(claim, 3)]) == ["written", "written"]
    assert saver.load("thread").rows[1].data == value
    assert saver.commit([step(claim, 2, value)]) == ["already mine"]


@pytest.mark.parametrize(
    "text", ["", "a\0b", "\ud800", "\udfff\ud800", "☃\0\ud83d", "%s %(x)s %b", "'; DROP TABLE x", "x" * 2000]
)
def test_keys_and_namespaces_may_be_any_text(saver, text):
    claim = start(saver, key=text)
    assert saver.commit([CommitItem(claim, (Row(2, MAIN, 2, 1, b"x"),), (LaneInfo(2, text, 1, 1, 0),))]) == ["written"]
    found = saver.load(text, ns=text)
    assert (found.thread.key, found.lane, found.lanes[1].ns) == (text, 2, text)
    assert [info.key for info in saver.threads()] == [text]
    assert saver.load(text + "x") is None


def test_no_ranges_are_no_rows(saver):
    claim = start(saver)
    assert saver.read(claim.no, []) == []


def test_a_group_with_one_faulty_item_names_it_and_prints_nothing(saver, caplog, capfd):
    claim = start(saver)
    saver.commit([CommitItem(claim, (Row(1, 5, 9, 0, b"there"),))])
    faulty = CommitItem(claim, (Row(1, 5, 9, 0, b"there"), Row(1, 5, 10, 0, b"new")))
    group = [*(step(claim, seq) for seq in range(2, 60)), faulty, *(step(claim, seq) for seq in range(60, 120))]
    with pytest.raises(InternalError, match=r"lane 1, seq 9|lane 1, seq 10"):
        saver.commit(group)
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")
    assert saver.commit([step(claim, 200)]) == ["written"]


@pytest.mark.parametrize("before", range(5))
def test_a_group_that_is_refused_costs_the_session_no_prepared_statement(saver, before):
    claim = start(saver, rows=(Row(1, 5, 2, 0, b"there"),))
    half = CommitItem(claim, (Row(1, 5, 2, 0, b"there"), Row(1, 5, 3, 0, b"new")))
    for seq in range(10, 10 + before):
        saver.commit([step(claim, seq)])
    with pytest.raises(InternalError):
        saver.commit([half, step(claim, 20)])  # what stands behind the faulty one may be what is prepared now
    assert [saver.commit([step(claim, seq)]) for seq in range(30, 34)] == [["written"]] * 4


def test_a_refused_item_does_not_give_its_thread_back_and_the_same_one_again_does(saver):
    claim = start(saver)
    assert saver.commit([step(claim, 2)]) == ["written"]
    with pytest.raises(InternalError):
        saver.commit([step(claim, 2, b"other", status="done")])
    assert saver.load("thread").thread.owner is not None
    assert saver.commit([step(claim, 2, status="done")]) == ["already mine"]
    assert saver.load("thread").thread.owner is None
