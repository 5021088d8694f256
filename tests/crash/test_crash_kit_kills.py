"""The crash kit with real processes: each run is killed with SIGKILL before and after every write, and gone on with."""

import signal

import pytest

from durable_graph import errors
from durable_graph.testing import crash_sweep
from durable_graph.testing.processes import ForkServer, Process, import_named, importable_name
from tests.behaviour import swept
from tests.behaviour.swept import LEDGER
from tests.behaviour.test_crash_kit import SOUND

pytestmark = pytest.mark.crash


def killed(graph, given=None, **options):
    options = {"ledger": LEDGER, "report": None, **options}
    return crash_sweep(graph, {"log": ["in"]} if given is None else given, kill=True, **options)


@pytest.mark.parametrize("graph", SOUND, ids=lambda graph: graph.__name__)
def test_a_sound_graph_ends_the_same_wherever_it_was_killed(graph):
    report = killed(graph, resumes=SOUND[graph]).check()
    assert {point.face for point in report.points} == {"sync", "async"}
    assert {point.where.partition(" ")[0] for point in report.points if point.where} == {"before", "after"}


def test_points_are_before_and_after_every_write():
    lines = []
    report = killed(swept.chain, faces=["sync"], report=lines.append)
    assert [point.where for point in report.points] == [
        f"{moment} write {number}" for number in range(1, 5) for moment in ("before", "after")
    ]
    assert lines[0] == "   1 sync  before write 1: ok"
    assert lines[-1] == "crash_sweep, sync, 'sqlite', SIGKILL: 8 crashes, all end like the run that was not crashed"
    assert report.uncrashed.effects == {("first", "0"): 1, ("second", "1"): 1, ("third", "2"): 1}


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (swept.counting, "state key 'seen' is 2 instead of 1"),
        (swept.giving_up, "going on failed with ValueError: was here before"),
    ],
)
def test_what_a_kill_spoils_is_found(graph, text):
    report = killed(graph, {}, faces=["sync"])
    assert [point.where for point in report.failures] == ["before write 2"]
    assert report.failures[0].problems == (text,)
    assert not killed(graph, {}, faces=["sync"], only=report.failures[0].number).ok


def test_a_repeated_effect_is_told_from_one_whose_result_was_not_stored():
    killed(swept.fan_out, faces=["async"]).check()
    killed(swept.chain, recorded=["first", "second", "third"]).check()


def test_a_graph_is_found_by_its_name_and_its_answers_reach_it():
    report = killed("tests.behaviour.swept:asking", resumes=["a", ("b", 2), {3}], faces=["sync"], max_points=4).check()
    assert report.uncrashed.values["log"] == ["in", "a", "('b', 2)", "{3}"]


def test_a_backend_may_be_a_function_that_children_import():
    killed(swept.chain, backend="tests.conformance.broken:OnDisk", faces=["sync"], max_points=3).check()


def test_what_a_child_raises_is_shown_with_its_traceback():
    with pytest.raises(errors.NodeFailure, match=r"(?s)Traceback.*ValueError: broken from the start"):
        killed(swept.failing)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"graph": lambda: None}, "another process cannot import"),
        ({"graph": "tests.behaviour.swept:gone"}, "cannot be imported"),
        ({"graph": "swept"}, "is no importable name"),
        ({"backend": "memory"}, "memory does not survive SIGKILL"),
        ({"backend": lambda folder: None}, "another process cannot import"),
    ],
    ids=["local function", "unknown name", "no name", "memory", "local backend"],
)
def test_what_children_cannot_use_is_refused(options, text):
    with pytest.raises(errors.InvalidConfigError, match=text):
        killed(**{"graph": swept.chain, **options})


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_fork_server_calls_functions_and_tells_what_became_of_them():
    with ForkServer() as server:
        assert server.here("tests.behaviour.swept:add", left=1, right=2) == 3
        done = server.call("tests.behaviour.swept:add", left=[1], right=[2])
        assert (done.code, done.value, done.error) == (0, [1, 2], "")
        failed = server.call("tests.behaviour.swept:add", left=1, right="2")
        assert failed.code == 1
        assert "TypeError" in failed.error
        assert server.call("tests.behaviour.swept:hang", seconds=60, kill_after=0.05).code == -signal.SIGKILL
        assert server.call("durable_graph.testing.life:kill_this_process").code == -signal.SIGKILL
        assert server.call("tests.behaviour.swept:hang", seconds=0, kill_after=60).code == 0
        with pytest.raises(errors.InvalidConfigError, match=r"(?s)could not be loaded by nowhere:nothing.*No module"):
            server.here("nowhere:nothing")


def test_a_process_keeps_what_its_functions_keep_until_it_dies():
    with Process() as other:
        other.begin("tests.behaviour.swept:LEDGER.append", name="did", key="it")
        assert other.result().code == 0
        other.begin("tests.behaviour.swept:LEDGER.entries")
        assert other.result().value == [["did", "it", "", 0, 0]]
        other.begin("tests.behaviour.swept:LEDGER.gone")
        assert "cannot be imported" in other.result().error
        other.begin("durable_graph.testing.life:kill_this_process")
        assert other.result().code == -signal.SIGKILL


def test_a_process_that_hangs_is_killed():
    with Process() as other:
        other.begin("tests.behaviour.swept:hang", seconds=60)
        ended = other.result(seconds=0.05)
    assert (ended.code, ended.error) == (-signal.SIGKILL, "the process died, or did not answer in time")


def test_a_name_leads_to_the_same_object_in_every_process():
    assert importable_name(swept.chain) == "tests.behaviour.swept:chain"
    assert import_named(importable_name(swept.State)) is swept.State
    copied = type("chain", (), {"__module__": swept.__name__, "__qualname__": "chain"})
    with pytest.raises(errors.InvalidConfigError, match="is another object than the one that was passed"):
        importable_name(copied)
