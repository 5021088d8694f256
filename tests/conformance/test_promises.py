"""Every promise on every backend of ours, through both faces; and the kit finds each promise broken, and only that."""

import ast
import inspect

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import Checkpointer
from durable_graph.errors import InvalidConfigError
from durable_graph.testing import conformance
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.life import Life, WatchedCheckpointer
from tests.conformance import broken_runs, broken_writers  # noqa: F401 - they register what they break
from tests.conformance.broken import BROKEN, OnDisk, Sound
from tests.conformance.broken_leases import Leased
from tests.postgres_server import open_postgres


def sqlite_file(folder):
    return SqliteSaver(folder / "runs.db", synchronous="NORMAL", busy_timeout=30)


def sqlite_in_memory(folder):
    return SqliteSaver(":memory:")


def watched(folder):
    return WatchedCheckpointer(InMemorySaver(), Life(1))


OURS = (
    conformance.Backend("memory", {"survives_fork", "lists_threads", "runs"}),
    conformance.Backend(sqlite_file, conformance.CAPABILITIES),
    conformance.Backend(open_postgres, conformance.CAPABILITIES, name="postgres"),
    conformance.Backend(sqlite_in_memory, {"survives_fork", "leases", "lists_threads", "runs"}),
    conformance.Backend(watched, {"survives_fork", "lists_threads", "runs"}),
)


@conformance.parametrize(*OURS)
def test_our_backends_keep_every_promise(case):
    case()


@pytest.mark.parametrize("name", BROKEN)
def test_a_backend_that_breaks_a_promise_is_found(name):
    broken = BROKEN[name]
    asked = conformance.cases(conformance.Backend(broken, broken.offers), faces=[conformance.SYNC])
    (case,) = [case for case in asked if case.promise.name == name]
    with pytest.raises(AssertionError, match=rf"(?s){broken.__name__} breaks a promise, sync face: .*{name}.*seen: "):
        case()


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_backend_that_breaks_one_promise_breaks_exactly_that_one(name):
    broken = BROKEN[name]
    lines = []
    backend = conformance.Backend(broken, broken.offers)
    report = conformance.check(backend, faces=[conformance.SYNC], report=lines.append)
    assert report.broken == (name,), report.check()
    assert not report.ok
    with pytest.raises(AssertionError, match=rf"(?s){broken.__name__} breaks a promise, sync face: .*{name}.*seen: "):
        report.check()
    assert [line for line in lines if line.startswith("BROKEN")] == [line for line in lines if name in line[:100]]


def test_every_promise_has_a_backend_that_breaks_it():
    assert BROKEN.keys() == conformance.PROMISES.keys()


@pytest.mark.parametrize("sound", [Sound, Leased, OnDisk])
def test_without_their_faults_these_backends_keep_every_promise(sound):
    backend = conformance.Backend(sound, sound.offers)
    conformance.check(backend, faces=[conformance.SYNC], report=None).check()


def test_a_promise_that_is_broken_on_one_face_is_found():
    class HalfAsync(Sound):
        async def aload(self, key, **options):
            return None

    report = conformance.check(conformance.Backend(lambda folder: HalfAsync()), report=None)
    results = {result.promise.name: result.seen for result in report.results}
    assert results["rows_come_in_order_of_seq"].keys() == {"async"}
    assert "load('thread') knows no such thread" in results["rows_come_in_order_of_seq"]["async"]


def test_what_a_backend_raises_is_shown_with_the_promise_it_breaks():
    class Refusing(Sound):
        def commit(self, items):
            raise OSError("no disk")

    with pytest.raises(AssertionError, match=r"(?s)a_stale_item_is_refused.*seen: OSError: no disk"):
        conformance.commits.a_stale_item_is_refused(conformance.Backend(lambda folder: Refusing()))


def test_promises_that_need_a_capability_are_left_out_without_it_and_listed():
    lines = []
    report = conformance.check(OURS[0], faces=[conformance.SYNC], report=lines.append)
    left_out = {one.name for one in report.left_out}
    assert left_out == {one.name for one in conformance.PROMISES.values() if one.needs & {"durable", "leases"}}
    assert left_out.isdisjoint(one.name for one in conformance.promises(OURS[0]))
    assert sum(line.startswith("ok") for line in lines) == len(conformance.promises(OURS[0]))
    assert sum(line.startswith("-") and "needs " in line for line in lines) == len(left_out) > 0
    assert (
        lines[-1] == f"memory: {len(report.results)} of {len(report.results)} promises kept, {len(left_out)} not given"
    )


def test_an_unknown_capability_is_refused():
    with pytest.raises(InvalidConfigError, match="unknown capability 'fast'; known: durable, "):
        conformance.Backend("memory", {"fast"})


def test_a_backend_that_other_processes_cannot_open_says_so():
    case = conformance.Case(
        conformance.sharing.both_sides_of_a_fork_go_on,
        conformance.Backend(lambda folder: InMemorySaver(), {"survives_fork"}),
        conformance.SYNC,
    )
    with pytest.raises(AssertionError, match="another process cannot import"):
        case()


def test_every_promise_says_in_a_sentence_what_is_promised():
    for one in conformance.PROMISES.values():
        assert one.text.endswith("."), one.name
        assert one.needs <= conformance.CAPABILITIES.keys()


def test_a_promise_that_sees_nothing_would_be_noticed():
    """Each promise checks something: its function calls `expect`, `check` or `refusal`."""
    for one in conformance.PROMISES.values():
        called = {
            getattr(node.func, "id", None)
            for node in ast.walk(ast.parse(inspect.getsource(one.check)))
            if isinstance(node, ast.Call)
        }
        assert called & {"expect", "check", "refusal"}, one.name


def test_a_watched_checkpointer_passes_on_every_public_verb():
    verbs = {name for name, value in vars(Checkpointer).items() if callable(value) and not name.startswith("_")}
    assert verbs <= vars(WatchedCheckpointer).keys()


def test_promises_can_be_added():
    @promise("durable")
    def a_promise_of_this_test(backend, face):
        """It is kept."""

    try:
        assert conformance.PROMISES["a_promise_of_this_test"] is a_promise_of_this_test
        assert not a_promise_of_this_test.applies(OURS[0])
    finally:
        del conformance.PROMISES["a_promise_of_this_test"]
