"""The crash kit: sound graphs pass at every point, and each kind of fault is found, named and can be run alone."""

import asyncio
import copy
import subprocess
import sys
from collections import Counter

import pytest

from checkpointers import InMemorySaver
from durable_graph import START, Checkpointer, StateGraph, StateSnapshot, StateTask, testing
from durable_graph.testing import SweepReport
from durable_graph.testing.ledger import Entry
from durable_graph.testing.life import Crashed, Life, WatchedCheckpointer
from durable_graph.testing.playing import stored
from durable_graph.testing.report import RunOutcome, differences, repetitions
from tests.behaviour import swept
from tests.behaviour.swept import LEDGER, found, places, sweep

SOUND = {
    swept.chain: (),
    swept.branch: (),
    swept.fan_out: (),
    swept.asking: ["yes", "no", None],
    swept.asking_at_once: {"left?": 1, "right?": {"a": 2}, "more?": 3},
    swept.shaky: (),
    swept.stopping: (),
}


# --- sound graphs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@pytest.mark.parametrize("graph", SOUND, ids=lambda graph: graph.__name__)
def test_a_sound_graph_ends_the_same_wherever_it_crashed(graph, backend):
    report = sweep(graph, resumes=SOUND[graph], faces=["sync", "async"], backend=backend)
    assert report.check() is report
    assert {point.face for point in report.points} == {"sync", "async"}
    assert sum(bool(point.where) for point in report.points) > 10
    assert report.uncrashed.effects


@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("graph", [swept.fan_out, swept.asking], ids=lambda graph: graph.__name__)
def test_other_durabilities_lose_nothing_that_was_stored(graph, durability):
    sweep(graph, resumes=SOUND[graph], faces=["sync", "async"], durability=durability, backend="sqlite").check()


def test_points_are_before_and_after_every_verb_and_after_every_effect():
    lines = []
    report = sweep(swept.chain, report=lines.append)
    assert places(report) == [
        "before load 1",
        "after load 1",
        "before claim 1",
        "after claim 1",
        "after effect 1 (first 0)",
        "before commit 1",
        "after commit 1",
        "after effect 2 (second 1)",
        "before commit 2",
        "after commit 2",
        "after effect 3 (third 2)",
        "before commit 3",
        "after commit 3",
    ]
    assert [point.number for point in report.points] == list(range(1, 14))
    assert lines[4] == "   5 sync  after effect 1 (first 0): ok"
    assert lines[-1] == "crash_sweep, sync, 'memory': 13 crashes, all end like the run that was not crashed"
    assert report.uncrashed.effects == {("first", "0"): 1, ("second", "1"): 1, ("third", "2"): 1}
    assert report.uncrashed.values["log"] == ["in", "first", "second", "third"]


@pytest.mark.parametrize(
    "graph",
    [
        swept.chain(),
        swept.chain().compile(),
        swept.chain,
        "tests.behaviour.swept:chain",
        lambda: swept.chain().compile(),
    ],
    ids=["builder", "compiled", "function", "name", "function of a compiled graph"],
)
def test_a_graph_is_taken_in_every_form(graph):
    assert len(sweep(graph).check().points) == 13


def test_a_function_may_take_the_checkpointer_that_it_is_to_use():
    given = []
    sweep(lambda checkpointer: given.append(checkpointer) or swept.chain().compile(checkpointer), only=5).check()
    assert all(isinstance(one, Checkpointer) for one in given)


@pytest.mark.parametrize(
    "resumes",
    [["yes"] * 3, {"Go on?": "yes"}, lambda asked: "yes" if asked.value == "Go on?" else None],
    ids=["in order", "by question", "function"],
)
def test_answers_are_given_in_order_by_question_or_by_a_function(resumes):
    report = sweep(swept.asking, resumes=resumes).check()
    assert report.uncrashed.values["log"] == ["in", "yes", "yes", "yes"]
    assert report.uncrashed.questions == ["Go on?"] * 3


def test_the_same_question_gets_the_same_answer_in_every_run():
    answers = iter("abc")
    report = sweep(swept.asking, resumes=lambda asked: next(answers)).check()
    assert report.uncrashed.values["log"] == ["in", "a", "b", "c"]


def test_config_and_context_reach_the_graph():
    def node(state, runtime):
        return {"log": [runtime.context, runtime.execution_info.thread_id]}

    builder = StateGraph(swept.State).add_node("node", node).add_edge(START, "node")
    report = sweep(builder, context="mine", config={"configurable": {"thread_id": "t"}}, ledger=None).check()
    assert report.uncrashed.values["log"] == ["in", "mine", "t"]


def test_one_point_can_be_run_alone():
    report = sweep(swept.chain, only=8)
    assert places(report) == ["after effect 2 (second 1)"]
    assert report.points[0].number == 8


def test_a_point_that_never_comes_is_shown_as_such():
    [point] = sweep(swept.chain, only=99).points
    assert str(point) == "  99 sync  not reached: ok"


@pytest.mark.parametrize(("most", "numbers"), [(1, [13]), (3, [1, 7, 13]), (50, list(range(1, 14)))])
def test_fewer_points_are_spread_over_the_run(most, numbers):
    assert [point.number for point in sweep(swept.chain, max_points=most).points] == numbers


# --- graphs with a fault ---------------------------------------------------------------------------------------------


def test_a_state_that_depends_on_how_often_a_node_ran_is_found():
    report = sweep(swept.counting, {})
    wrong = found(report, r"^state key 'seen' is 2 instead of 1$")
    assert [point.where for point in wrong] == ["after effect 1 (charge A17)", "before commit 1"]
    assert report.failures == wrong


def test_the_first_failing_point_is_named_with_how_to_run_it_alone():
    report = sweep(swept.counting, {}, faces=["sync", "async"])
    with pytest.raises(AssertionError) as caught:
        report.check()
    assert str(caught.value) == (
        "crash_sweep, sync and async, 'memory': 4 of 20 points failed; the first:\n"
        "   5 sync  after effect 1 (charge A17): FAILED: state key 'seen' is 2 instead of 1\n"
        "Run it alone: crash_sweep(..., faces=('sync',), only=5)"
    )
    assert not sweep(swept.counting, {}, only=5).ok


def test_an_effect_that_a_crash_suppresses_is_found():
    report = sweep(swept.forgetting)
    assert [point.where for point in report.failures] == ["after effect 1 (intent A17)"]
    assert report.failures == found(report, "^the effect 'charge' of 'A17' never happened$")


def test_a_question_that_changes_when_it_is_asked_again_is_found():
    report = sweep(swept.wavering, resumes=lambda asked: "yes")
    wrong = found(report, "^it never asked 'Ship, after 1 runs.*'$") and found(report, "^it also asked 'Ship, after 2")
    assert "after effect 1 (run)" in [point.where for point in wrong]
    assert report.failures == wrong


def test_a_node_that_cannot_run_again_is_found():
    report = sweep(swept.giving_up)
    assert report.failures == found(report, "^going on failed with ValueError: was here before$")
    assert [point.where for point in report.failures] == ["after effect 1 (run)", "before commit 1"]


class StartsOver:
    """Somebody's way to go on: everything again."""

    graph = None

    def __init__(self, graph):
        self.graph = graph

    checkpointer = property(lambda self: self.graph.checkpointer)

    @checkpointer.setter
    def checkpointer(self, given):
        self.graph = copy.copy(self.graph)
        self.graph.checkpointer = given

    def __getattr__(self, name):
        return getattr(self.graph, name)

    def invoke(self, given, config, **keywords):
        return self.graph.invoke({"turns": 0}, config, on_unfinished="abandon", **keywords)


def test_work_that_is_done_again_though_its_result_was_stored_is_found():
    def nodes(name):
        return name, lambda state: LEDGER.append(name)

    builder = StateGraph(swept.State).add_sequence([nodes("one"), nodes("two")]).add_edge(START, "one")
    report = sweep(lambda: StartsOver(builder.compile()), {"turns": 0})
    wrong = found(report, "^the effect 'one' happened again, though the result of its task was stored$")
    assert [point.where for point in wrong] == ["after commit 1", "after effect 2 (two)", "before commit 2"]
    assert report.failures == wrong


# --- backends with a fault -------------------------------------------------------------------------------------------


DISKS = {}
"""What survives of the checkpointers over one folder."""


class WriteBehind(Checkpointer):
    """Says "written", and writes when the next commit comes, or somebody reads."""

    instant = True

    def __init__(self, folder):
        self.disk = DISKS.setdefault(folder, InMemorySaver())
        self.held = []

    identity = property(lambda self: self.disk.identity)

    def settle(self):
        if self.held:
            self.disk.commit(self.held)
        self.held = []
        return self.disk

    def load(self, key, **options):
        return self.settle().load(key, **options)

    def read(self, no, ranges):
        return self.settle().read(no, ranges)

    def claim(self, request):
        return self.settle().claim(request)

    def commit(self, items):
        self.settle()
        self.held = list(items)
        return ["written"] * len(items)


def test_a_backend_that_loses_what_it_acknowledged_is_found():
    report = sweep(swept.chain, backend=WriteBehind)
    wrong = found(report, r"^what commit \d acknowledged is gone: thread 'crash_sweep', lane 1, part 0, seq \d$")
    assert [point.where for point in wrong] == [
        "after commit 1",
        "after effect 2 (second 1)",
        "before commit 2",
        "after commit 2",
        "after effect 3 (third 2)",
        "before commit 3",
        "after commit 3",
    ]
    assert report.failures == wrong


class Loses(WriteBehind):
    """A restart finds nothing."""

    def __init__(self, folder):
        DISKS.pop(folder, None)
        super().__init__(folder)


def test_a_backend_that_loses_a_thread_is_found():
    report = sweep(swept.chain, backend=Loses)
    assert found(report, "^thread 'crash_sweep' was acknowledged by claim 1 and is gone$") == report.failures
    assert "after claim 1" in [point.where for point in report.failures]


class HidesResults(WriteBehind):
    """After a restart a load leaves out the newest row, which `read` still finds."""

    def __init__(self, folder):
        self.restarted = folder in DISKS
        super().__init__(folder)

    def load(self, key, **options):
        found = super().load(key, **options)
        if found is None or not self.restarted or len(found.rows) < 2:
            return found
        return found._replace(rows=found.rows[:-1])


def test_a_backend_whose_load_leaves_out_rows_is_found():
    report = sweep(swept.chain, backend=HidesResults)
    assert found(report, r"^load\(\) does not show what read\(\) shows: thread 'crash_sweep', lane 1, part 0, seq")


# --- effects of recorded steps ---------------------------------------------------------------------------------------


def entries(*lives):
    """(life, acknowledged writes before, task) of effects of one kind."""
    return [Entry("charge", "A", task, life, writes) for life, writes, task in lives]


@pytest.mark.parametrize(
    ("happened", "finished", "recorded", "text"),
    [
        ([(1, 1, "t"), (2, 0, "t")], (), (), ""),
        ([(1, 1, "t"), (2, 0, "t")], ("t",), (), "happened again, though"),
        ([(1, 1, "t"), (2, 0, "other")], ("t",), (), "happened again, though"),
        ([(1, 3, "t"), (2, 0, "t")], (), ("charge",), ""),  # nothing was written since: it may have been lost
        ([(1, 2, "t"), (2, 0, "t")], (), ("charge",), "happened 2 times, without a crash 1"),
        ([(1, 2, "t")], ("t",), ("charge",), ""),
    ],
)
def test_an_effect_may_happen_again_only_when_its_result_was_not_stored(happened, finished, recorded, text):
    told = repetitions(Counter({("charge", "A"): 1}), entries(*happened), finished, 3, recorded)
    assert [text] == [line[line.index("happened") :][: len(text)] for line in told] if text else told == []


def test_effects_of_the_same_name_are_counted():
    told = repetitions(
        Counter({("charge", "A"): 3}), entries((1, 1, "a"), (1, 1, "b"), (2, 0, "b"), (2, 0, "c")), "a", 1, ()
    )
    assert told == []
    told = repetitions(
        Counter({("charge", "A"): 2}), entries((1, 1, "a"), (1, 1, "b"), (2, 0, "b"), (2, 0, "b")), "a", 1, ()
    )
    assert len(told) == 1


def test_recorded_effects_of_a_sound_chain_pass():
    sweep(swept.chain, recorded=["first", "second", "third"], faces=["sync", "async"]).check()


# --- comparing and watching ------------------------------------------------------------------------------------------


def outcome(values, *questions, **effects):
    return RunOutcome(values, list(questions), Counter({(name, ""): count for name, count in effects.items()}))


@pytest.mark.parametrize(
    ("expected", "seen", "told"),
    [
        (outcome({"a": 1}), outcome({"a": 1}), []),
        (outcome({"a": 1}), outcome({"a": True}), ["state key 'a' is True instead of 1"]),
        (outcome({"a": 1}), outcome({}), ["state key 'a' is missing; it should be 1"]),
        (outcome({}), outcome({"a": 1}), ["state key 'a' should not be there; it is 1"]),
        (outcome({"a": {"x": 1, "y": 2}}), outcome({"a": {"y": 2, "x": 1}}), []),
        (outcome({"a": open}), outcome({"a": open}), []),
        (outcome([1]), outcome((1,)), ["the state is (1,) instead of [1]"]),
        (outcome(5), outcome(5), []),
        (outcome({}, "a", {"b": 1}, "a"), outcome({}, {"b": 1}, "a", "a"), []),
        (outcome({}, "a", "a"), outcome({}, "a", "c"), ["it never asked 'a'", "it also asked 'c'"]),
        (outcome({}, charge=1), outcome({}, charge=3, ship=1), []),
        (outcome({}, charge=1), outcome({}, ship=1), ["the effect 'charge' never happened"]),
    ],
)
def test_two_runs_are_compared_by_state_questions_and_effects(expected, seen, told):
    assert differences(expected, seen) == told


def test_a_report_without_points_is_no_success():
    report = SweepReport(outcome({}), "memory")
    assert not report.ok
    with pytest.raises(AssertionError, match="no point was tried"):
        report.check()


def test_results_of_nested_graphs_are_found_where_their_state_is():
    """Snapshots as `get_state_history` gives them, two levels deep."""

    class Nested:
        def get_state_history(self, config):
            inner = {"configurable": {"checkpoint_ns": "inner"}}
            if config == inner:
                tasks = (StateTask("deep", "node", (), result={}), StateTask("waits", "node", ()))
            else:
                tasks = (StateTask("outer", "inner", (), state=inner),)
            return [StateSnapshot({}, (), config, {}, None, None, tasks, ())]

        def get_state(self, config):
            return next(iter(self.get_state_history(config)))

    assert stored(Nested(), {"configurable": {}}) == {"deep"}


def test_a_watched_checkpointer_offers_what_the_backend_offers_while_its_life_lasts():
    class More(InMemorySaver):
        limit = 7

        def forget(self, key):
            return f"{key} is gone"

    life = Life(1, dies_at=1)
    watched = WatchedCheckpointer(More(), life)
    assert (watched.limit, watched.forget("t"), hasattr(watched, "other"), hasattr(watched, "_private")) == (
        7,
        "t is gone",
        False,
        False,
    )
    assert watched.lost(InMemorySaver()) == []
    with pytest.raises(Crashed):
        watched.load("t")
    for verb in (watched.setup, lambda: watched.forget("t"), lambda: asyncio.run(watched.asetup())):
        with pytest.raises(Crashed):
            verb()


def test_async_reads_are_points_too():
    watched = WatchedCheckpointer(InMemorySaver(), life := Life(1))
    asyncio.run(watched.aload("t"))
    asyncio.run(watched.aread(1, []))
    asyncio.run(watched.aclose())
    assert life.moments == 4


def test_the_kits_are_loaded_when_they_are_first_named():
    command = (
        "import sys; from durable_graph.testing import Ledger; Ledger().path; "
        "print([name for name in sys.modules if name.endswith(('testing.sweep', 'testing.conformance'))])"
    )
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
    assert {"Ledger", "conformance", "crash_sweep"} <= set(dir(testing))
    assert testing.conformance.check
    with pytest.raises(AttributeError, match="gone"):
        testing.gone  # noqa: B018 - reading it is the test
