"""A backend that knows nothing of ours (tests/logstore.py): the kit asks it for what it offers, and runs live on it."""

import os
import signal

import pytest

from durable_graph import Command, interrupt
from durable_graph.errors import UsageError
from durable_graph.testing import Ledger, conformance, crash_sweep
from durable_graph.testing.conformance.acting import FIRST_ROW, SYNC, seqs, start, step
from durable_graph.testing.ledger import write_to
from durable_graph.testing.life import kill_this_process
from durable_graph.testing.processes import Process
from tests.behaviour.small_graphs import chain, thread
from tests.logstore import LogCheckpointer, open_log

BACKEND = conformance.Backend(open_log, {"durable", "many_processes"})
LACKS = {"leases", "lists_threads", "survives_fork"}
LEDGER = Ledger()
HERE = "tests.conformance.test_third_party:"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")


@conformance.parametrize(BACKEND)
def test_it_keeps_every_promise_of_what_it_offers(case):
    case()


def test_what_it_does_not_offer_is_listed_and_is_no_failure(monkeypatch):
    asked = {name: one for name, one in conformance.PROMISES.items() if not one.needs or one.needs & LACKS}
    monkeypatch.setattr("durable_graph.testing.conformance.PROMISES", asked)
    lines = []
    report = conformance.check(BACKEND, faces=[SYNC], report=lines.append).check()
    assert {need for one in report.left_out for need in one.needs} >= LACKS
    for one in report.left_out:
        [need] = one.needs & LACKS
        assert f"-       {one.name} (needs {need})" in lines
    assert lines[-1].endswith(f"promises kept, {len(report.left_out)} not given")


def test_what_needs_a_list_of_threads_says_what_to_implement(tmp_path):
    graph = asking(open_log(tmp_path))
    with pytest.raises(UsageError, match=r"LogCheckpointer cannot list its threads(?s:.*)Checkpointer\.threads"):
        graph.doctor()


# --- a graph on it ---------------------------------------------------------------------------------------------------


def book(state):
    LEDGER.append("book")
    return {"log": ["booked"]}


def ask(state):
    return {"answer": interrupt("pay?"), "log": ["asked"]}


def asking(checkpointer=None):
    return chain(book=book, ask=ask, pay=lambda state: {"log": [f"paid: {state['answer']}"]}).compile(checkpointer)


def begin(folder):
    """In a process that dies once the question is stored."""
    write_to(f"{folder}/ledger")
    asking(LogCheckpointer(f"{folder}/runs.jsonl")).invoke({"log": ["in"]}, thread())
    kill_this_process()


def answer(folder, given):
    """In another one."""
    write_to(f"{folder}/ledger")
    return asking(LogCheckpointer(f"{folder}/runs.jsonl")).invoke(Command(resume=given), thread())["log"]


def test_a_run_asks_dies_goes_on_in_another_process_and_is_travelled_in_a_third(tmp_path, face):
    with Process() as first:
        first.begin(f"{HERE}begin", folder=str(tmp_path))
        assert first.result().code == -signal.SIGKILL
    with Process() as second:
        second.begin(f"{HERE}answer", folder=str(tmp_path), given="yes")
        ended = second.result()
    assert ended.value == ["in", "booked", "asked", "paid: yes"], ended.error
    assert [entry.name for entry in Ledger(tmp_path / "ledger").entries()] == ["book"]

    graph = asking(open_log(tmp_path))
    history = face.get_state_history(graph, thread())
    assert [shown.next for shown in history] == [(), ("pay",), ("ask",), ("book",), ("__start__",)]
    assert face.invoke(graph, None, history[2].config).get("__interrupt__")
    assert face.invoke(graph, Command(resume="no"), thread())["log"] == ["in", "booked", "asked", "paid: no"]
    ends = [shown.values["log"][-1] for shown in face.get_state_history(graph, thread()) if not shown.next]
    assert ends == ["paid: no", "paid: yes"]


def test_a_line_that_a_dying_process_did_not_finish_is_as_if_it_had_not_begun(tmp_path):
    claim = start(open_log(tmp_path))
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"thread": [1, "thr')
    again = open_log(tmp_path)
    assert again.load("thread").rows == (FIRST_ROW,)
    assert again.commit([step(claim, 2)]) == ["written"]
    assert seqs(SYNC, open_log(tmp_path)) == [1, 2]


@pytest.mark.parametrize("kill", [False, True])
def test_wherever_a_run_crashes_on_it_it_goes_on(kill):
    sweep = crash_sweep(
        asking,
        {"log": ["in"]},
        resumes=["yes"],
        ledger=LEDGER,
        recorded=["book"],
        kill=kill,
        backend=open_log,
        faces=["sync"],
        report=None,
    )
    assert sweep.check().ok
