"""The agent demo keeps its promises: as a user starts it, and its parts one by one."""

import functools
import json
import os
import signal
import subprocess
import sys

import pytest

from durable_graph.messages import AIMessage, HumanMessage, ToolMessage
from tests.behaviour import playing
from tests.behaviour.openai_server import OpenAIServer, Reply
from tests.behaviour.playing import EXAMPLES, SAMPLE

DEMO = "incident_agent.py"
READ_ONCE = {"summarize_levels": 1, "recent_errors": 2, "search_lines": 1, "show_worker": 1}

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def _examples_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


play = functools.partial(playing.play, DEMO)
play_by_hand = functools.partial(playing.play_by_hand, DEMO)


def ledger(folder):
    """The starts in the folder's only run: (process, call, tool, key)."""
    lines = [line.split(" ") for line in (folder / "ledger.txt").read_text().splitlines()]
    assert len({thread for thread, *_ in lines}) == 1
    return [tuple(words) for _, *words in lines]


def starts(folder):
    """How often each tool started; each of its calls with one idempotency key."""
    found = {}
    for _, call, name, key in ledger(folder):
        found.setdefault(name, []).append((call, key))
    assert all(len(set(calls)) == 1 for calls in found.values())
    return {name: len(calls) for name, calls in found.items()}


def orders(folder):
    path = folder / "restarts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# --- as a user starts it ----------------------------------------------------------------------------------------------


def test_it_kills_the_agent_inside_the_second_call_goes_on_and_restarts_after_the_approval(tmp_path):
    folder = tmp_path / "a folder"
    done = play(folder, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "killed inside the call of recent_errors, and ended with signal 9 (SIGKILL)" in done.stdout
    assert "no call that was finished ran again" in done.stdout
    assert "answered by itself: stdin is no terminal" in done.stdout
    assert "each of the 5 calls has exactly one result" in done.stdout
    assert starts(folder) == {**READ_ONCE, "restart_worker": 1}
    processes = [process for process, *_ in ledger(folder)]
    assert processes[0] == processes[1] != processes[2] == processes[4] != processes[5]
    assert [(order["id"], order["worker"]) for order in orders(folder)] == [(ledger(folder)[-1][-1], "workerEnv")]
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("answer", "restarts"), [("y", 1), ("no", 0)])
def test_a_person_at_a_terminal_decides(tmp_path, answer, restarts):
    status, shown = play_by_hand(tmp_path, "perhaps", answer)
    assert status == 0
    assert "Please answer y or n." in shown
    assert "answered by itself" not in shown
    assert starts(tmp_path) == {**READ_ONCE, **({"restart_worker": 1} if restarts else {})}
    assert len(orders(tmp_path)) == restarts
    assert ("restarted once, after the approval" in shown) == bool(restarts)
    assert ("refused: nothing was restarted" in shown) != bool(restarts)


def test_a_log_that_names_no_worker_leads_to_no_question_and_no_restart(tmp_path):
    (tmp_path / "novel.log").write_text("It was a dark and stormy night.\n" * 50)
    done = play(tmp_path / "demo", "--yes", tmp_path / "novel.log")
    assert done.returncode == 0
    assert "it asked for no approval" in done.stdout
    assert starts(tmp_path / "demo") == {name: READ_ONCE[name] for name in READ_ONCE if name != "show_worker"}
    assert orders(tmp_path / "demo") == []


@pytest.mark.parametrize(("model", "reason"), [("bogus", "no name of a chat model"), ("nobody:x", "'nobody:x'")])
def test_a_model_that_does_not_exist_is_refused_before_anything_starts(tmp_path, model, reason):
    done = play(tmp_path / "demo", "--model", model)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert reason in done.stderr
    assert "Cure:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "demo").exists()


def test_a_log_that_cannot_be_read_is_refused(tmp_path):
    done = play(tmp_path / "demo", tmp_path / "x.log")
    assert (done.returncode, done.stderr) == (2, f"error: cannot read {tmp_path / 'x.log'}: there is no such file\n")


def test_a_damaged_database_is_told_with_its_cure(tmp_path):
    (tmp_path / "runs.db").write_bytes(b"no database" * 1000)
    done = play(tmp_path)
    assert done.returncode == 1
    assert "Cure:" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


# --- a model behind a server ------------------------------------------------------------------------------------------


def play_with_model(folder, *replies):
    """The demo with a model that gives these replies."""
    with OpenAIServer(*replies) as server:
        there = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        return play(folder, "--model", "openai-chat:tiny", env=there), server.requests


def test_a_real_model_is_asked_by_each_process_with_what_the_others_found(tmp_path):
    first = Reply("Let me see.", calls=[("a", "summarize_levels", {}), ("b", "recent_errors", {"count": 1})])
    second = Reply(calls=[("c", "restart_worker", {"worker": "workerEnv", "reason": "It fails."})])
    done, requests = play_with_model(tmp_path, first, second, Reply("Restarted it."))
    assert (done.returncode, done.stderr) == (0, "")
    assert starts(tmp_path) == {"summarize_levels": 1, "recent_errors": 2, "restart_worker": 1}
    assert len(orders(tmp_path)) == 1
    assert [[one["role"] for one in request["messages"]] for request in requests] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool", "tool"],
        ["system", "user", "assistant", "tool", "tool", "assistant", "tool"],
    ]
    assert "It fails." in done.stdout
    assert "Restarted it." in done.stdout


def test_a_model_that_refuses_is_told_without_a_traceback(tmp_path):
    done, _ = play_with_model(tmp_path, Reply(status=401))
    assert done.returncode == 1
    assert "model openai-chat:tiny: AuthenticationError" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_model_that_makes_no_second_call_cannot_be_killed_in_it(tmp_path):
    done, _ = play_with_model(tmp_path, Reply("All is well."))
    assert done.returncode == 1
    assert "the model asked for fewer than two calls" in done.stdout


# --- it is stopped ----------------------------------------------------------------------------------------------------


def begin(folder):
    """A demo whose child runs."""
    command = [sys.executable, EXAMPLES / DEMO, "--dir", folder]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    demo = subprocess.Popen(command, **pipes)
    assert any("1. Kill it" in line for line in demo.stdout)
    return demo


def test_ctrl_c_ends_it_at_once_and_leaves_no_process(tmp_path):
    demo = begin(tmp_path)
    demo.send_signal(signal.SIGINT)
    _, told = demo.communicate(timeout=20)
    assert (demo.returncode, told) == (130, "")


def test_a_closed_pipe_ends_it_quietly(tmp_path):
    demo = begin(tmp_path)
    demo.stdout.close()
    assert demo.stderr.read() == ""
    demo.stderr.close()
    assert demo.wait(timeout=20) == 141


# --- its parts --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """An incident whose process was killed, gone on with to the question; and the calls as they were after the kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import incident_agent
        from demo_screen import Screen

        incident = incident_agent.Incident(tmp_path_factory.mktemp("killed"), SAMPLE, Screen(sys.stdout))
        kill = incident.run_and_kill()
        assert incident.worker.returncode == -signal.SIGKILL
        incident.finish(incident.start("resume"))
        yield incident, kill
        incident.agent.checkpointer.close()


def test_the_child_is_killed_with_signal_9_between_what_is_stored_and_what_has_not_started(killed):
    incident, kill = killed
    calls = [[call.name for call in group] for group in (kill.stored, kill.running, kill.waiting)]
    assert calls == [["summarize_levels"], ["recent_errors"], ["search_lines"]]
    incident.check_calls(kill)
    assert incident.state().interrupts[0].value["worker"] == "workerEnv"
    assert incident.check_restarts({}) == 0


@pytest.mark.parametrize("again", ["stored", "running", "waiting"])
def test_a_call_that_ran_once_too_often_would_be_seen(killed, again):
    import incident_agent

    incident, kill = killed
    before = incident.desk.ledger.read_text()
    call = getattr(kill, again)[0]
    line = next(line for line in before.splitlines() if call.id in line)
    try:
        incident.desk.ledger.write_text(f"{before}{line}\n")
        with pytest.raises(incident_agent.DemoError, match=rf"{call.name}.* started \d times, expected \d"):
            incident.check_calls(kill)
    finally:
        incident.desk.ledger.write_text(before)


def test_a_restart_that_nobody_approved_and_one_that_was_not_done_would_be_seen(killed):
    import incident_agent

    incident, _ = killed
    (question,) = incident.state().interrupts
    before = incident.desk.ledger.read_text()
    with pytest.raises(incident_agent.DemoError, match="answered yes, started 0 times"):
        incident.check_restarts({question.value["call"]: "yes"})
    try:
        incident.desk.ledger.write_text(f"{before}{incident.thread} 1 {question.value['call']} restart_worker key\n")
        with pytest.raises(incident_agent.DemoError, match="answered no, started 1 times"):
            incident.check_restarts({question.value["call"]: "no"})
    finally:
        incident.desk.ledger.write_text(before)


CALLS = [{"name": "search", "args": {}, "id": key} for key in ("a", "b")]
ASKED = [HumanMessage("go"), AIMessage("", tool_calls=CALLS)]
RESULTS = [ToolMessage("1", tool_call_id="a"), ToolMessage("2", tool_call_id="b")]


@pytest.mark.parametrize(
    ("history", "valid"),
    [
        ([*ASKED, *RESULTS, AIMessage("done")], True),
        ([*ASKED, RESULTS[0], AIMessage("done")], False),
        ([*ASKED, *RESULTS, RESULTS[1]], False),
        ([*ASKED, RESULTS[0], HumanMessage("and?"), RESULTS[1]], False),
        ([HumanMessage("go"), RESULTS[0]], False),
    ],
)
def test_a_history_that_a_provider_would_refuse_is_seen(history, valid):
    from incident_screen import unanswered

    assert (unanswered(history) == []) == valid


def test_the_scripted_model_restarts_no_worker_that_is_not_there():
    from incident_model import answer

    said = {
        "summarize_levels": "9 lines: 9 error",
        "recent_errors": "9 lines are errors or worse:",
        "search_lines": "9 of 9 lines have 'in error state':\nchild other in error state",
        "show_worker": "there is no worker 'other'; there are: workerEnv",
    }
    told = answer([ToolMessage(text, name=name, tool_call_id=name) for name, text in said.items()])
    assert told.tool_calls == []
    assert "I cannot restart it: there is no worker 'other'" in told.text


def test_a_transcript_spells_out_control_characters_and_keeps_to_its_width():
    from incident_screen import transcript

    lines = list(transcript([HumanMessage("\x1b[31mred " * 30), AIMessage("", tool_calls=CALLS)], 60))
    assert lines[0].startswith("you               \\x1b[31mred")
    assert max(map(len, lines)) <= 60
    assert [line.split() for line in lines[-2:]] == [["agent", "→", "search()"], ["→", "search()"]]
