"""Watch a graph survive kill -9: the show around the graph in triage_graph.py.

A child process (triage_worker.py) runs the graph on a log. This process kills it in the middle, looks at what the
store holds, lets a new process go on, and hands the question that the graph then asks to you. When the report is sent,
it travels back (triage_travel.py) and shows what another threshold would have led to.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

try:
    from demo_effects import keys_in, starts
    from demo_screen import Screen, shown
    from demo_show import FOLDER, KILL_ATTEMPTS, PAUSE, DemoError, Show, add_places, check_places, perform
    from triage_graph import CHUNKS, Desk, build
    from triage_screen import difference, fork_tree, history_tree, joined, side_by_side
    from triage_travel import BRANCH, before_judge, other_threshold, split
    from triage_worker import PARALLEL
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Run `make demo`, which installs what is needed, or `pip install -e .` first.")

if TYPE_CHECKING:
    import subprocess
    from collections import Counter
    from collections.abc import Sequence

    from durable_graph import Interrupt, StateSnapshot

PAUSE_PER_BYTE = 2.5e-7  # seconds more for a long log, whose state takes longer to look at from here

EPILOG = """\
exit status: 0 all went as promised; 1 something did not; 2 wrong arguments, or the log cannot be read;
3 the log is no Apache error log (the run ended at its own exit node); 130 Ctrl-C;
141 nobody reads the output.
"""


@dataclass(frozen=True)
class Kill:
    """What the store and the ledger held just after the kill. All are names of tasks, as the ledger writes them."""

    finished: list[str]  # steps before the fan-out
    stored: list[str]  # chunks whose result is in the store
    running: list[str]  # chunks that had started and have none
    chunks: int


@dataclass
class Demo(Show):
    """The triage of one log."""

    kind = "triage"
    script = "triage_worker.py"

    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = Desk(self.folder)
        self.database = self.folder / "runs.db"
        self.graph = build(f"sqlite:///{self.database}")

    # --- looking from outside: the store, the ledger, the outbox -------------------------------------------------

    def state(self) -> StateSnapshot:
        """What the store holds of the thread now, whoever runs it."""
        return self.graph.get_state(self.config)

    def starts(self, branch: str = "") -> Counter[str]:
        """How often each task started, by the ledger of the thread or of its branch."""
        return starts(replace(self.desk, branch=branch).ledger, self.thread)

    def sent(self) -> int:
        """How often the outbox has this thread's report."""
        return keys_in(self.desk.outbox.read_bytes()).count(self.thread) if self.desk.outbox.exists() else 0

    def history(self) -> list[StateSnapshot]:
        """All checkpoints of all branches, the newest first."""
        return list(self.graph.get_state_history(self.config))

    def chunks(self) -> tuple[list[str], int]:
        """The chunks of the running step whose result is stored, and how many chunks there are."""
        tasks = [task for task in self.state().tasks if task.name == "count"]
        return [f"count {task.result['counted'][0]}" for task in tasks if task.result], len(tasks)

    # --- act 1 -------------------------------------------------------------------------------------------------------

    def run_and_kill(self, after: int) -> Kill:
        """Start a run and kill it while some chunks are stored and others are not.

        A busy machine can be so slow to look that the run is through before; then a new thread is tried, slower.

        Raises:
            DemoError: the run failed or gave up, or was through each time.
        """
        for attempt in range(KILL_ATTEMPTS):
            self.pause = (PAUSE + PAUSE_PER_BYTE * self.log.stat().st_size) * 2**attempt
            killed = self.start_and_kill(lambda: self.is_moment(after), "start", str(self.log))
            kill = self.look()
            if killed and len(kill.stored) < kill.chunks:
                return kill
            self.check_not_given_up()
        raise DemoError(f"the run was through before it could be killed, {KILL_ATTEMPTS} times; is the machine busy?")

    def is_moment(self, after: int) -> bool:
        """Whether the store has `after` chunks and another one is running.

        The last ones end at about the same time, too close to hit between them: of few chunks it waits for less.
        """
        stored, total = self.chunks()
        started = sum(task.startswith("count ") for task in self.starts())
        return total > 0 and min(after, max(0, total - PARALLEL)) <= len(stored) < started

    def look(self) -> Kill:
        """What is there after the kill."""
        stored, total = self.chunks()
        begun = list(self.starts())
        finished = [task for task in begun if not task.startswith("count ")]
        running = [task for task in begun if task.startswith("count ") and task not in stored]
        return Kill(finished, stored, running, total)

    def check_not_given_up(self) -> None:
        """Raise when the run ended at its own exit node."""
        problem = self.state().values.get("problem")
        if problem:
            tries = self.starts()["parse"]
            raise DemoError(
                f"{problem}\nThe ledger has {tries} starts of parse; then the run left through its node give_up:\n"
                "it ended in order, nothing hangs and nothing is left to resume.",
                status=3,
            )

    # --- act 2 -------------------------------------------------------------------------------------------------------

    def show_starts(self, kill: Kill) -> None:
        """How often each task started, in groups that tell the story."""
        starts = self.starts()
        fresh = [task for task in starts if task.startswith("count ") and task not in kill.stored + kill.running]
        groups = [
            (kill.finished, "finished before the kill, not run again"),
            (kill.stored, "result was stored, not run again"),
            (kill.running, "were running when the kill came, run again"),
            (fresh, "had not started"),
        ]
        width = max(len(joined(tasks)) for tasks, _ in groups if tasks)
        for tasks, meaning in groups:
            if tasks:
                often = "/".join(str(number) for number in sorted({starts[task] for task in tasks}))
                self.screen.say(f"{often} x  {joined(tasks):<{width}}  {meaning}")

    def check_once(self, tasks: Sequence[str]) -> None:
        """Hold the ledger against the promise.

        Raises:
            DemoError: one of these tasks did not start exactly once.
        """
        starts = self.starts()
        wrong = [f"{task} ({starts[task]} starts)" for task in tasks if starts[task] != 1]
        if wrong:
            raise DemoError(f"finished before the kill and yet not started exactly once: {', '.join(wrong)}")

    # --- act 3 -------------------------------------------------------------------------------------------------------

    def answer(self, question: Interrupt, *, by_hand: bool) -> str:
        """What the human says."""
        options: list[str] = list((question.response_schema or {})["enum"])
        offered = "more data" if "more data" in options else "send"
        prompt = f"{joined(options, ', ', ' or ')}?"
        if not by_hand:
            self.screen.say(f"{prompt} {offered}", note="answered by itself: stdin is no terminal")
            return offered
        while True:
            try:
                said = input(f"   {prompt} [{offered}] ").strip().lower() or offered
            except EOFError:
                said = "stop"
                print(said)
            found = [option for option in options if option.startswith(said)]
            if len(found) == 1:
                return found[0]
            self.screen.say(f"Please answer {joined(options, ', ', ' or ')}.")

    # --- act 5 -------------------------------------------------------------------------------------------------------

    def take_branch(self, threshold: float, answer: str) -> subprocess.Popen[str]:
        """Let a process take the other branch; when it is killed, another one goes on. The one that ended well.

        Raises:
            DemoError: it failed, or was killed each time.
        """
        for _ in range(KILL_ATTEMPTS):
            worker = self.start("branch", f"{threshold:g}", answer)
            self.finish(worker, killed=True)
            if not worker.returncode:
                return worker
            self.screen.say(f"Process {worker.pid} was killed on the branch; the next one goes on.")
        raise DemoError(f"the process on the branch was killed {KILL_ATTEMPTS} times")


def play(demo: Demo, kill_after: int, *, by_hand: bool) -> None:
    """The demo, act by act.

    Raises:
        DemoError: it cannot go on, or shows something else than it promises.
    """
    screen = demo.screen
    screen.title("An agent graph that survives kill -9")
    screen.say("It triages a log: read, parse, count in parallel, compare, report, ask a human, send. Every step is")
    screen.say("on disk before the next one starts; so nothing that can happen to a process loses or repeats one.")
    screen.say(f"log {shown(demo.log)}   store {shown(demo.database)}")

    screen.act("1. Kill it in the middle")
    kill = demo.run_and_kill(kill_after)
    assert demo.worker is not None  # noqa: S101 - a run was started; this tells the type checker
    screen.say(
        f"Process {demo.worker.pid} counted; it was killed and ended with signal 9 (SIGKILL), without a goodbye."
    )
    never = kill.chunks - len(kill.stored) - len(kill.running)
    states = f"{len(kill.stored)} are stored, {len(kill.running)} were running, {never} had not started"
    screen.say(f"Of {kill.chunks} chunks {states}.")

    screen.act("2. A new process goes on, and repeats nothing that was finished")
    worker = demo.start("resume")
    demo.finish(worker)
    screen.say(
        f"Process {worker.pid} called invoke(None). Each node signs {shown(demo.desk.ledger)} when it starts; it says:"
    )
    demo.show_starts(kill)
    demo.check_once([*kill.finished, *kill.stored])
    screen.good("nothing that had finished ran twice")

    screen.act("3. It waits for a human")
    screen.say("No process runs now: the question waits in the store, for a minute or for a week.")
    asked = 0
    while questions := demo.state().interrupts:
        asked += 1
        screen.quote(questions[0].value["report"])
        answer = demo.answer(questions[0], by_hand=by_hand)
        worker = demo.start("answer", answer)
        demo.finish(worker)
    demo.check_once(kill.stored)
    sent = demo.sent()
    wanted = int(demo.state().values["answers"][-1] == "send")
    if sent != wanted:
        raise DemoError(f"the report is in {demo.desk.outbox} {sent} times, expected {wanted}")
    show_notices(demo, asked)
    screen.good(f"sent once, to {shown(demo.desk.outbox)}" if sent else "stopped by you: nothing was sent")

    screen.act("4. What happened, from the store")
    history = demo.history()
    screen.tree(history_tree(history[::-1], kill.stored))
    screen.say(f"{len(history)} checkpoints of thread {demo.thread}, each of them complete.")
    if not sent:
        screen.say("Answer send, and the demo goes on: it travels back and takes another way.")
        return

    screen.act("5. Travel back, and take another way")
    show_branches(demo, history)
    screen.say("Run it again and it compares with this report; LOG=path takes a log of yours.")


def show_notices(demo: Demo, asked: int) -> None:
    """What `ask` did before it stopped: a recorded step, done once for each question although the node ran again.

    Raises:
        DemoError: the ledger says otherwise.
    """
    starts = demo.starts()
    entered, told = starts["enter ask"], starts["notify"]
    if (entered, told) != (2 * asked, asked):
        raise DemoError(f"ask started {entered} times and told {told} times of {asked} questions")
    times = "once" if asked == 1 else f"{asked} times, once for each question"
    demo.screen.good(f"ask started {entered} times, before and after each answer; its once() told the person {times}")


def show_branches(demo: Demo, before: list[StateSnapshot]) -> None:
    """Let a process take the other branch, and show both.

    before: the thread's checkpoints as they were when it was finished, the newest first.

    Raises:
        DemoError: the first branch has changed, or something was done twice.
    """
    screen, starts = demo.screen, demo.starts()
    fork = before_judge(before)
    threshold = other_threshold(fork.values)
    worker = demo.take_branch(threshold, "stop")
    untouched, branch = split(demo.history())
    first, second = before[: before.index(fork) + 1][::-1], branch[::-1]
    change = f"{fork.values['threshold']:g} to {threshold:g}"
    screen.say(f"Process {worker.pid} found the checkpoint before judge in the history, changed its threshold from")
    screen.say(f"{change} (update_state), went on from there (invoke(None)), and answered: stop.")
    screen.tree(fork_tree(fork, first, second))
    screen.say("")
    screen.tree(side_by_side(first, second))
    screen.quote("\n".join(difference(before[0].values["report"], branch[0].values["report"])))
    repeated = demo.starts(BRANCH).keys() - {"judge", "report", "enter ask", "notify", "ask (stop)"}
    if untouched != before or demo.starts() != starts or demo.sent() != 1 or repeated:
        raise DemoError("the branch has changed the past, or repeated it")
    screen.good(
        f"the {len(before)} checkpoints of the first branch are as they were, and nothing before the fork ran again"
    )


# --- the command line -----------------------------------------------------------------------------------------------


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Read and check the command line; leaves with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="log_triage.py",
        description="Triage an Apache error log with a graph that is killed with SIGKILL half-way, and goes on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_places(parser, FOLDER, "store, ledger, outbox and baselines")
    parser.add_argument(
        "--kill-after",
        type=int,
        choices=range(CHUNKS - PARALLEL + 1),
        default=3,
        metavar="CHUNKS",
        help=f"kill when so many of the {CHUNKS} chunks are stored (0 to {CHUNKS - PARALLEL}, default 3)",
    )
    found = parser.parse_args(words)
    check_places(parser, found, "triage")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Play the demo; its exit status."""
    arguments = parse_arguments(words)
    screen = Screen(sys.stdout)
    by_hand = sys.stdin is not None and sys.stdin.isatty()
    return perform(
        screen,
        lambda: Demo(arguments.dir, arguments.log, screen),
        lambda demo: play(demo, arguments.kill_after, by_hand=by_hand),
    )


if __name__ == "__main__":
    sys.exit(main())
