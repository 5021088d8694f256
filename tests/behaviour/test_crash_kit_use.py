"""The ledger of effects, and the crash kit used in a wrong way."""

import asyncio
import re

import pytest

from checkpointers import InMemorySaver
from durable_graph import START, StateGraph, errors
from durable_graph.testing import Ledger, crash_sweep
from durable_graph.testing.life import Crashed, Life
from tests.behaviour import swept
from tests.behaviour.swept import sweep

# --- the ledger ------------------------------------------------------------------------------------------------------


def test_a_ledger_counts_and_clears(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.entries() == []
    ledger.append("charge", 17)
    ledger.append("charge", 17)
    ledger.append("ship")
    assert ledger.counts() == {("charge", "17"): 2, ("ship", ""): 1}
    assert Ledger(tmp_path / "ledger").counts() == ledger.counts()
    ledger.clear()
    assert ledger.entries() == []


def test_a_ledger_without_a_path_has_a_file_of_its_own_and_removes_it():
    ledger, other = Ledger(), Ledger()
    ledger.append("\ud800", "\n")
    path = ledger.path
    assert ledger.counts() == {("\ud800", "\n"): 1}
    assert other.path != path
    assert path.exists()
    del ledger
    assert not path.exists()


def test_entries_know_the_task_that_made_them():
    ledger = Ledger()
    builder = StateGraph(swept.State).add_node("node", lambda state: ledger.append("did")).add_edge(START, "node")
    graph = builder.compile(InMemorySaver())
    graph.invoke({"turns": 1}, {"thread_id": "t"})
    [entry] = ledger.entries()
    done = [task.id for shown in graph.get_state_history({"thread_id": "t"}) for task in shown.tasks]
    assert entry.task in done
    assert entry[2:] == (entry.task, 0, 0)


def test_a_dead_life_has_no_effects():
    life = Life(1, dies_at=1)
    with pytest.raises(Crashed):
        life.before("commit")
    with pytest.raises(Crashed):
        life.before("load")
    with pytest.raises(Crashed):
        life.effect("charge")
    assert life.where == "before commit 1"


# --- wrong use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"faces": []}, "faces="),
        ({"faces": ["both"]}, "faces="),
        ({"only": 0}, "only=0; points are counted from 1"),
        ({"max_points": -1}, "max_points=-1"),
        ({"backend": "postgres"}, "unknown backend 'postgres'"),
        ({"resumes": ["yes"]}, "`resumes` has 1 answers, and the graph asked for 0"),
    ],
)
def test_wrong_arguments_are_refused(options, text):
    with pytest.raises(errors.InvalidConfigError, match=re.escape(text)):
        sweep(swept.chain, **options)


@pytest.mark.parametrize(
    ("resumes", "text"),
    [
        (["yes"], "the graph asks 'Go on?', and `resumes` has only 1 answers"),
        ({"Stop?": 1}, "the graph asks 'Go on?', and `resumes` has answers only to 'Stop?'"),
    ],
)
def test_a_question_without_an_answer_is_an_error_that_shows_it(resumes, text):
    with pytest.raises(errors.InvalidConfigError, match=re.escape(text)):
        sweep(swept.asking, resumes=resumes)


@pytest.mark.parametrize("graph", [5, lambda: 5, "tests.behaviour.swept:LEDGER"], ids=["number", "function", "name"])
def test_what_is_no_graph_is_refused(graph):
    with pytest.raises(errors.InvalidConfigError, match="which is no graph"):
        sweep(graph)


def test_a_graph_that_fails_by_itself_raises_its_own_error():
    with pytest.raises(ValueError, match="broken from the start") as caught:
        sweep(swept.failing)
    assert "undisturbed" in "".join(caught.value.__notes__)


def test_a_graph_that_never_does_the_same_is_refused():
    runs = iter(range(100))
    builder = StateGraph(swept.State).add_node("node", lambda state: {"seen": next(runs)}).add_edge(START, "node")
    with pytest.raises(
        errors.InvalidConfigError, match="two runs that nobody crashed end differently: state key 'seen'"
    ):
        sweep(builder)


def test_a_run_without_an_end_is_refused():
    builder = StateGraph(swept.State).add_node("ask", lambda state: swept.interrupt("again?")).add_edge(START, "ask")
    builder.add_edge("ask", "ask")
    with pytest.raises(errors.InvalidConfigError, match="not over after 1000 calls; it waits in ask"):
        sweep(builder, resumes=lambda asked: {}, ledger=None)


def test_async_code_is_told_to_sweep_the_sync_face_only():
    async def main():
        with pytest.raises(errors.EventLoopError, match="runs already in this OS thread"):
            crash_sweep(swept.fan_out, {}, report=None)
        return sweep(swept.fan_out, {}, faces=["sync"], max_points=2)

    assert asyncio.run(main()).ok
