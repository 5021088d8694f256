"""The demo keeps its promises: as a user starts it, and its parts one by one."""

import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.behaviour import playing
from tests.behaviour.playing import EXAMPLES, SAMPLE

DEMO = "log_triage.py"
TIMES = "\N{MULTIPLICATION SIGN}"
ENTRY = "[Sun Dec 04 04:47:44 2005] [{}] {}"

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def _examples_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


play = functools.partial(playing.play, DEMO)
play_by_hand = functools.partial(playing.play_by_hand, DEMO)


def starts(folder, ledger="ledger.txt"):
    """How often each task started in the folder's only run."""
    lines = [line.split(" ", 2) for line in (folder / ledger).read_text().splitlines()]
    assert len({thread for thread, _, _ in lines}) == 1
    return Counter(task for _, _, task in lines)


def outbox(folder, name="outbox.jsonl"):
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_log(path, *, end="\n"):
    """2,000 lines: 595 errors, 539 of them of one shape, 1,403 notices and 2 bad lines; CRLF, no final newline."""
    lines = [ENTRY.format("error", f"mod_jk child workerEnv in error state {number}") for number in range(539)]
    lines += [ENTRY.format("error", f"[client 10.0.0.{number}] File does not exist: /x") for number in range(56)]
    lines += [ENTRY.format("notice", f"Found child {number} in slot {number % 9}") for number in range(1403)]
    lines += ["", "at Cart.total(Cart.java:214)"]
    random.Random(7).shuffle(lines)
    path.write_bytes(end.join(lines).encode())
    return path


# --- as a user starts it ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A demo that was played to its end: what became of the process, and its folder."""
    where = tmp_path_factory.mktemp("played")
    return play(where / "a folder", cwd=where), where / "a folder"


def test_the_demo_kills_its_child_with_signal_9_and_ends_well(played):
    done, folder = played
    assert (done.returncode, done.stderr) == (0, "")
    assert "ended with signal 9 (SIGKILL)" in done.stdout
    assert "nothing that had finished ran twice" in done.stdout
    assert "no baseline yet" in done.stdout
    assert [message["report"].splitlines()[0] for message in outbox(folder)] == [
        "sample.log: 96 lines, the whole log, 4 bad; no baseline yet"
    ]
    assert starts(folder)["send"] == 1
    assert "ask started 4 times" in done.stdout
    assert (starts(folder)["enter ask"], starts(folder)["notify"]) == (4, 2)
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    assert "\x1b" not in done.stdout


def test_a_log_is_counted_to_the_last_line_and_compared_with_the_last_report(tmp_path):
    log = write_log(tmp_path / "server.log", end="\r\n")
    first, second = play(tmp_path / "demo", log), play(tmp_path / "demo", log)
    assert (first.returncode, second.returncode) == (0, 0)
    before, after = (message["report"] for message in outbox(tmp_path / "demo"))
    assert before.splitlines()[:2] == [
        "server.log: 2,000 lines, the whole log, 2 bad; no baseline yet",
        "595 error 29.8%   1,403 notice 70.2%",
    ]
    assert f'539 {TIMES} "mod_jk child workerEnv in error state #"  26.9%' in before
    assert "595 error 29.8% (=)   1,403 notice 70.2% (=)" in after
    assert before.endswith("ALARM: 29.8% of the lines are errors or worse, the threshold is 25%")
    assert "+ no alarm: 29.8% of the lines are errors or worse, the threshold is 30%" in first.stdout
    assert "no baseline yet" not in second.stdout


def test_a_log_that_is_no_apache_log_leaves_by_the_exit_node_after_three_retries(tmp_path):
    (tmp_path / "novel.log").write_text("It was a dark and stormy night.\n" * 50)
    done = play(tmp_path / "demo", tmp_path / "novel.log")
    assert done.returncode == 3
    assert "no line of novel.log looks like an Apache error log" in done.stdout
    assert starts(tmp_path / "demo") == {"read": 1, "parse": 4, "give_up": 1}
    assert outbox(tmp_path / "demo") == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        (b"", "it is empty"),
        (b"\x1f\x8b\x08\x00", "it is compressed"),
        (b"\x7fELF\0\0", "it is not a text file"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused_before_anything_starts(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "x.log").write_bytes(content)
    done = play(tmp_path / "demo", tmp_path / "x.log")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot triage {tmp_path / 'x.log'}: {reason}")
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_cannot_be_made_is_named_with_the_cure(tmp_path):
    (tmp_path / "file").touch()
    done = play(tmp_path / "file" / "demo")
    assert done.returncode == 2
    assert "--dir" in done.stderr


def test_a_damaged_database_is_told_with_its_cure(tmp_path):
    (tmp_path / "runs.db").write_bytes(b"no database" * 1000)
    done = play(tmp_path)
    assert done.returncode == 1
    assert "Cure:" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_log_of_one_line_is_killed_and_resumed_like_any_other(tmp_path):
    (tmp_path / "one.log").write_text(ENTRY.format("warn", "child 7 is slow"))
    done = play(tmp_path / "demo", tmp_path / "one.log")
    assert done.returncode == 0
    assert f'1 {TIMES} "child # is slow"  100.0%' in outbox(tmp_path / "demo")[0]["report"]
    assert starts(tmp_path / "demo")["count 1-1"] == 2
    assert "- no alarm: 0.0% of the lines are errors or worse, the threshold is 25%" in done.stdout
    assert "+ no alarm: 0.0% of the lines are errors or worse, the threshold is 0%" in done.stdout


def test_a_person_at_a_terminal_answers_by_hand(tmp_path):
    status, shown = play_by_hand(tmp_path, "perhaps", "more", "send")
    assert status == 0
    assert "Please answer send, stop or more data." in shown
    assert "answered by itself" not in shown
    assert [task for task in starts(tmp_path) if task.startswith("ask")] == ["ask (more data)", "ask (send)"]
    assert len(outbox(tmp_path)) == 1


def test_a_person_who_says_stop_sends_nothing(tmp_path):
    status, shown = play_by_hand(tmp_path, "stop")
    assert status == 0
    assert "nothing was sent" in shown
    assert outbox(tmp_path) == []
    assert "send" not in starts(tmp_path)
    assert "it travels back" in shown
    assert not (tmp_path / "ledger-branch.txt").exists()


def test_a_report_sent_at_once_covers_the_newest_half(tmp_path):
    status, _ = play_by_hand(tmp_path, "send")
    assert status == 0
    assert outbox(tmp_path)[0]["report"].startswith("sample.log: 48 lines, the newest of 96,")


# --- the branch ------------------------------------------------------------------------------------------------------


def lines_after(text, start):
    """What the demo shows from a line on, without the frame."""
    shown = [line.strip() for line in text.splitlines()]
    return shown[next(at for at, line in enumerate(shown) if line.startswith(start)) :]


def test_the_demo_travels_back_and_shows_both_branches(played):
    done, folder = played
    assert (done.returncode, done.stderr) == (0, "")
    shown = lines_after(done.stdout, "first branch")
    assert [line.split("  ", 1)[0] for line in shown[:8]] == [
        *("first branch", "threshold 25%", "judge (ALARM)", "report", 'ask "send"', "send", "remember", "end")
    ]
    assert [line[24:] for line in shown[:8]] == [
        *("second branch", "threshold 50%", "judge (no alarm)", "report", 'ask "stop"', "end", "", "")
    ]
    assert [line.lstrip("\N{BOX DRAWINGS LIGHT VERTICAL} ") for line in shown[8:10]] == [
        "- ALARM: 44.8% of the lines are errors or worse, the threshold is 25%",
        "+ no alarm: 44.8% of the lines are errors or worse, the threshold is 50%",
    ]
    assert "the 18 checkpoints of the first branch are as they were, and nothing before the fork ran again" in shown[10]
    assert starts(folder, "ledger-branch.txt") == {
        **dict.fromkeys(("judge", "report", "notify", "ask (stop)"), 1),
        "enter ask": 2,
    }
    assert len(outbox(folder)) == 1
    told = [notice["id"] for notice in outbox(folder, "notices.jsonl")]
    assert len(told) == len(set(told)) == 3


def test_the_drawing_names_the_checkpoint_that_forked_and_the_edit(played):
    from triage_graph import build

    done, folder = played
    graph = build(f"sqlite:///{folder}/runs.db")
    thread = outbox(folder)[0]["id"]
    history = list(graph.get_state_history({"thread_id": thread}))
    (edit,) = [one for one in history if one.metadata["source"] == "update"]
    fork, drawn = edit.parent_config["configurable"]["checkpoint_id"], edit.config["configurable"]["checkpoint_id"]
    assert graph.get_state(edit.parent_config).next == ("judge",)
    assert graph.get_state(edit.parent_config).values["threshold"] == 25
    assert f"{fork}  before judge" in done.stdout
    assert f"{drawn}  update_state(threshold=50)" in done.stdout
    graph.checkpointer.close()


def test_the_demo_that_was_killed_on_its_branch_plays_again(tmp_path):
    command = [sys.executable, EXAMPLES / DEMO, "--dir", tmp_path]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8") as demo:
        assert any("5. Travel back" in line for line in demo.stdout)
        demo.kill()
    assert demo.returncode == -signal.SIGKILL
    again = play(tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert "no baseline yet" not in again.stdout
    assert len(outbox(tmp_path)) == 2


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A folder with a thread whose report was sent, and the thread."""
    folder = tmp_path_factory.mktemp("sent")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import log_triage
        from demo_screen import Screen

        demo = log_triage.Demo(folder, SAMPLE, Screen(sys.stdout), "triage-1", pause=0.0)
        demo.finish(demo.start("start", str(SAMPLE)))
        demo.finish(demo.start("answer", "send"))
        demo.graph.checkpointer.close()
    return folder


MOMENTS = ["forked", "judge", "report", "enter ask", "notify", "ask (stop)"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_that_is_killed_on_the_branch_is_followed_by_one_that_goes_on(tmp_path, sent, moment):
    import log_triage
    from demo_screen import Screen
    from triage_travel import split

    class Hunted(log_triage.Demo):
        """Its first process on the branch is killed as soon as this was seen of it."""

        killed = None

        def start(self, *words):
            worker = super().start(*words)
            while self.killed is None and worker.poll() is None:
                if split(self.history())[1] if moment == "forked" else self.starts("branch")[moment]:
                    worker.kill()
                    worker.wait()
                    self.killed = worker
            return worker

    shutil.copytree(sent, tmp_path, dirs_exist_ok=True)
    demo = Hunted(tmp_path, SAMPLE, Screen(sys.stdout), "triage-1", pause=0.0)
    before = demo.history()
    worker = demo.take_branch(70.0, "stop")
    assert demo.killed.returncode in (-signal.SIGKILL, 0)  # 0: it was through before it could be killed
    assert worker.returncode == 0

    first, branch = split(demo.history())
    assert first == before
    assert [one.next for one in branch] == [(), ("ask",), ("report",), ("judge",)]
    assert (branch[0].values["threshold"], branch[0].values["alarm"]) == (70.0, False)
    assert branch[0].values["answers"] == ["stop"]
    assert demo.starts() == starts(sent)
    assert demo.sent() == 1
    assert len(outbox(tmp_path, "notices.jsonl")) == 2
    demo.graph.checkpointer.close()


def test_a_branch_that_is_finished_is_not_taken_again(tmp_path, sent):
    import log_triage
    from demo_screen import Screen

    shutil.copytree(sent, tmp_path, dirs_exist_ok=True)
    demo = log_triage.Demo(tmp_path, SAMPLE, Screen(sys.stdout), "triage-1", pause=0.0)
    demo.take_branch(70.0, "stop")
    once = demo.history()
    demo.take_branch(70.0, "stop")
    assert demo.history() == once
    demo.graph.checkpointer.close()


def test_the_other_threshold_decides_otherwise_where_one_can():
    import triage_graph
    import triage_travel

    for errors in range(101):
        state = {"levels": Counter(error=errors, notice=100 - errors), "bad": 0, "threshold": triage_graph.THRESHOLD}
        other = triage_travel.other_threshold(state)
        assert 0 <= other <= 100
        assert other % 10 == 0
        decided, now = (triage_graph.trouble(state) > threshold for threshold in (state["threshold"], other))
        assert decided != now or errors == 0


# --- its parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_whenever_the_kill_comes_what_was_stored_is_not_run_again(tmp_path, after):
    import log_triage
    from demo_screen import Screen

    demo = log_triage.Demo(tmp_path, SAMPLE, Screen(sys.stdout))
    kill = demo.run_and_kill(after)
    assert demo.worker.returncode == -signal.SIGKILL
    assert after <= len(kill.stored) < kill.chunks
    assert kill.running

    demo.finish(demo.start("resume"))
    counted = demo.starts()
    assert {counted[task] for task in [*kill.finished, *kill.stored]} == {1}
    assert {counted[task] for task in kill.running} == {2}
    values = demo.state().values
    assert values["levels"].total() + values["bad"] == 48
    assert len(values["counted"]) == len(set(values["counted"])) == kill.chunks


def test_every_line_is_counted_once_however_long_the_log_is():
    import triage_graph

    for total in range(1, 60):
        state = {"entries": [None] * total, "window": (0, total)}
        sent = [chunk.arg for chunk in triage_graph.chunks(state)]
        assert sum(len(chunk["entries"]) for chunk in sent) == total
        assert len({chunk["lines"] for chunk in sent}) == min(total, triage_graph.CHUNKS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (ENTRY.format("error", "child 6725 in slot 10"), ("error", "child # in slot #")),
        ("[Sun Dec 04 04:47:44.1 2005] [core:warn] [pid 7] slow", ("warn", "[pid #] slow")),
        ("[Sun Dec 04 04:47:44 2005] [loud] not a level", None),
        ("[Sun Dec 04 04:4", None),
        ("", None),
    ],
)
def test_a_line_is_a_level_and_a_shape_or_it_is_bad(line, expected):
    import triage_graph

    assert triage_graph.as_entry(line) == expected


def test_a_log_that_shrank_meanwhile_is_a_failure_that_is_tried_again(tmp_path):
    import triage_graph

    log = write_log(tmp_path / "server.log")
    with pytest.raises(triage_graph.ParseError, match="has shrunk"):
        triage_graph.read_entries(log, log.stat().st_size + 1)


def test_a_message_is_sent_once_also_after_a_crash_in_the_middle_of_writing_it(tmp_path):
    import demo_effects

    path = tmp_path / "outbox.jsonl"
    path.write_bytes(b'{"id": "a", "rep')
    for key in ("a", "b", "a"):
        demo_effects.append_once(path, key, report="text")
    assert demo_effects.keys_in(path.read_bytes()) == ["a", "b"]


def test_where_utf8_cannot_be_shown_the_demo_speaks_ascii(tmp_path):
    done = play(tmp_path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
