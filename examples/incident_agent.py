"""Watch an agent survive kill -9, and ask before it does harm: the show around the agent in incident_graph.py.

A child process (incident_worker.py) runs the agent on a log. This process kills it inside the second call of a tool,
looks at what the store holds, lets a new process go on, and hands the question that the agent then asks to you.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

try:
    from demo_effects import keys_in, starts
    from demo_screen import Screen, shown
    from demo_show import FOLDER, KILL_ATTEMPTS, PAUSE, DemoError, Show, add_places, check_places, perform
    from incident_graph import Desk, build
    from incident_model import SCRIPTED, chat_model
    from incident_screen import Call, calls_of, table, transcript, unanswered

    from durable_graph import DurableGraphError
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Run `make agent-demo`, which installs what is needed, or `pip install -e .` first.")

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from durable_graph import Interrupt, StateSnapshot

DANGEROUS = "restart_worker"
MOST_QUESTIONS = 5

EPILOG = """\
exit status: 0 all went as promised; 1 something did not; 2 wrong arguments, or log or model cannot be used;
130 Ctrl-C; 141 nobody reads the output.
"""


@dataclass(frozen=True)
class Kill:
    """How far the calls were just after the kill, by the store and the ledger."""

    stored: list[Call]
    running: list[Call]
    waiting: list[Call]


@dataclass
class Incident(Show):
    """One incident, which an agent looks into."""

    kind = "incident"
    script = "incident_worker.py"

    model: str = SCRIPTED
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = Desk(self.folder, self.log)
        self.database = self.folder / "runs.db"
        self.agent = build(f"sqlite:///{self.database}", self.model)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A new process that works on the thread."""
        return super().start(str(self.log), self.model, *words)

    # --- looking from outside: the store, the ledger, the restarts ---------------------------------------------------

    def state(self) -> StateSnapshot:
        """What the store holds of the thread now, whoever runs it."""
        return self.agent.get_state(self.config)

    def messages(self) -> list[Any]:
        """What was said."""
        return self.state().values.get("messages", [])

    def started(self) -> dict[str, Counter[str]]:
        """By the ledger: for each call, by its id, how often it started with which idempotency key."""
        found: dict[str, Counter[str]] = {}
        for task, often in starts(self.desk.ledger, self.thread).items():
            call, _, key = task.split(" ")
            found.setdefault(call, Counter())[key] += often
        return found

    def often(self, call: Call) -> int:
        """How often a call started."""
        return self.started().get(call.id, Counter()).total()

    def done(self) -> set[str]:
        """The ids of the calls whose results are stored: in messages, or in tasks of a step that is not complete."""
        state = self.state()
        said: list[Any] = list(state.values.get("messages", []))
        for task in state.tasks:
            result: dict[str, Any] = task.result or {}
            said += result.get("messages", [])
        return {message.tool_call_id for message in said if message.type == "tool"}

    def restarts(self) -> Counter[str]:
        """How often each key is among the restarts that were ordered."""
        return Counter(keys_in(self.desk.restarts.read_bytes()) if self.desk.restarts.exists() else [])

    # --- act 1 -------------------------------------------------------------------------------------------------------

    def run_and_kill(self) -> Kill:
        """Start a run and kill it inside the second call of a tool.

        A busy machine can be so slow to look that the moment is over; then a new thread is tried, slower.

        Raises:
            DemoError: the run failed, made fewer than two calls, or was through each time.
        """
        for attempt in range(KILL_ATTEMPTS):
            self.pause = 2 * PAUSE * 2**attempt
            killed = self.start_and_kill(self.is_moment, "start")
            done, started, calls = self.done(), self.started(), calls_of(self.messages())
            kill = Kill(
                stored=[call for call in calls if call.id in done],
                running=[call for call in calls if call.id in started and call.id not in done],
                waiting=[call for call in calls if call.id not in started and call.id not in done],
            )
            if killed and kill.stored and kill.running:
                return kill
            if not killed and len(started) <= 1:
                raise DemoError("the model asked for fewer than two calls of tools that read; one more try may help")
        raise DemoError(f"the second call was over before the kill, {KILL_ATTEMPTS} times; is the machine busy?")

    def is_moment(self) -> bool:
        """Whether a second call runs, and the result of the first is stored."""
        started = list(self.started())
        return len(started) > 1 and started[-1] not in (done := self.done()) and done.issuperset(started[:-1])

    # --- act 2 -------------------------------------------------------------------------------------------------------

    def check_calls(self, kill: Kill) -> None:
        """Hold the ledger against the promise: each call started once, and those that were cut off once more, with the
        same key.

        Raises:
            DemoError: it was not kept.
        """
        again = {call.id for call in kill.running}
        results = {one.tool_call_id: one for one in self.messages() if one.type == "tool"}
        for call in calls_of(self.messages()):
            found = self.started().get(call.id, Counter())
            wanted = 2 if call.id in again else 1
            failed = call.id not in results or results[call.id].status == "error"
            if call.name != DANGEROUS and found.total() != wanted and not (failed and not found):
                raise DemoError(f"{call} started {found.total()} times, expected {wanted}")
            if len(found) > 1:
                raise DemoError(f"{call} started with {len(found)} idempotency keys, expected one")

    # --- act 3 -------------------------------------------------------------------------------------------------------

    def ask(self, question: Interrupt, answer: str | None, why: str) -> str:
        """What the human says: "yes" or "no". answer: what is said in their place, and why."""
        prompt = f"Restart {question.value['worker']}? [y/n]"
        if answer is not None:
            self.screen.say(f"{prompt} {answer[0]}", note=f"answered by itself: {why}")
            return answer
        while True:
            try:
                said = input(f"   {prompt} ").strip().lower()
            except EOFError:
                said = "n"
                print(said)
            if said in ("y", "yes", "n", "no"):
                return "yes" if said.startswith("y") else "no"
            self.screen.say("Please answer y or n.")

    def check_restarts(self, answers: dict[str, str]) -> int:
        """Hold the ledger and the orders against what was answered, by the id of the call. How many were ordered.

        Raises:
            DemoError: an approved restart was not done exactly once, or one was done without an approval.
        """
        orders = self.restarts()
        for call in calls_of(self.messages()):
            if call.name != DANGEROUS:
                continue
            wanted = int(answers.get(call.id) == "yes")
            ordered = [orders[key] for key in self.started().get(call.id, ())]
            if self.often(call) != wanted or ordered != [1] * wanted:
                said = answers.get(call.id, "not asked")
                raise DemoError(f"{call} was answered {said}, started {self.often(call)} times, ordered {ordered}")
        return list(answers.values()).count("yes")


# --- the show --------------------------------------------------------------------------------------------------------


def play(incident: Incident, answer: str | None, why: str) -> None:
    """The demo, act by act. answer: what is said in place of a human, and why.

    Raises:
        DemoError: it cannot go on, or shows something else than it promises.
    """
    screen = incident.screen
    screen.title("An agent that survives kill -9, and asks before it does harm")
    screen.say("It reads a log with tools, and may restart a worker if a human says yes. The result of every call is")
    screen.say("on disk before the model sees it; so nothing that can happen to a process loses or repeats one.")
    screen.say(f"log {shown(incident.log)}   store {shown(incident.database)}")
    free = "a script that reads what the tools return (MODEL=provider:name takes a real one)"
    screen.say(f"model {free if incident.model == SCRIPTED else incident.model}")

    screen.act("1. Kill it inside a tool call")
    kill = incident.run_and_kill()
    show_kill(incident, kill)

    screen.act("2. A new process goes on, and repeats no call that was finished")
    worker = incident.start("resume")
    incident.finish(worker)
    screen.say(f"Process {worker.pid} called invoke(None). A tool signs {shown(incident.desk.ledger)} when it starts:")
    show_calls(incident, kill)
    incident.check_calls(kill)
    screen.good("no call that was finished ran again; the one that was cut off did, with the same idempotency key")

    screen.act("3. It asks before it restarts anything")
    answers = ask_all(incident, answer, why)
    incident.check_calls(kill)
    show_restarts(incident, answers)

    screen.act("4. What was said, from the store")
    show_transcript(incident)
    screen.say("Run it again and answer otherwise; LOG=path takes a log of yours.")


def show_kill(incident: Incident, kill: Kill) -> None:
    """Who was killed where."""
    assert incident.worker is not None  # noqa: S101 - a run was started; this tells the type checker
    screen = incident.screen
    where = f"inside the call of {kill.running[0].name}"
    screen.say(f"Process {incident.worker.pid} was killed {where}, and ended with signal 9 (SIGKILL).")
    screen.say("The model had asked for these calls:")
    rows = [("call", "ledger", "store"), *((str(call), "started", "has its result") for call in kill.stored)]
    rows += [(str(call), "started", "has no result: cut off") for call in kill.running]
    rows += [(str(call), "-", "has no result: not started") for call in kill.waiting]
    screen.tree(table(rows))


def show_calls(incident: Incident, kill: Kill) -> None:
    """How often each call started, and why."""
    meanings = {call.id: "had its result, not run again" for call in kill.stored}
    meanings |= {call.id: "was cut off, run again" for call in kill.running}
    meanings |= {call.id: "had not started" for call in kill.waiting}
    calls = [call for call in calls_of(incident.messages()) if call.name != DANGEROUS]
    incident.screen.tree(
        table([(f"{incident.often(one)} ×", str(one), meanings.get(one.id, "asked for later")) for one in calls])  # noqa: RUF001 - the sign for times
    )


def ask_all(incident: Incident, answer: str | None, why: str) -> dict[str, str]:
    """Answer all that the agent asks, and let processes go on with it. The answers by the ids of calls.

    Raises:
        DemoError: it did not come to an end.
    """
    screen, answers = incident.screen, dict[str, str]()
    while questions := incident.state().interrupts:
        if len(answers) == MOST_QUESTIONS:
            raise DemoError(f"the model asked {MOST_QUESTIONS} times, and asks again")
        if not answers:
            screen.say("No process runs now: the question waits in the store, for a minute or for a week.")
        question = questions[0]
        screen.quote(f"{question.value['tool']}, worker {question.value['worker']}\n{question.value['reason']}")
        said = incident.ask(question, answer, why)
        answers[question.value["call"]] = said
        worker = incident.start("answer", question.id, said)
        incident.finish(worker)
        screen.say(f"Process {worker.pid} went on with the answer.")
    if incident.state().next:
        raise DemoError(f"the run is not over: next is {incident.state().next}")
    return answers


def show_restarts(incident: Incident, answers: dict[str, str]) -> None:
    """What became of the restarts.

    Raises:
        DemoError: not what was answered.
    """
    ordered, screen = incident.check_restarts(answers), incident.screen
    if not answers:
        screen.say("The agent found nothing to restart in this log, so it asked for no approval.")
        screen.good("nothing was restarted")
    elif not ordered:
        screen.good("refused: nothing was restarted")
    else:
        often = "once" if ordered == 1 else f"{ordered} times, once for each yes"
        screen.good(f"restarted {often}, after the approval; the order is in {shown(incident.desk.restarts)}")


def show_transcript(incident: Incident) -> None:
    """All messages.

    Raises:
        DemoError: no provider would take them.
    """
    messages = incident.messages()
    incident.screen.tree(transcript(messages, incident.screen.width - 3))
    if problems := unanswered(messages):
        raise DemoError("\n".join(problems))
    calls = len(calls_of(messages))
    incident.screen.good(
        f"each of the {calls} calls has exactly one result, right behind the message that asked for it"
    )


# --- the command line ------------------------------------------------------------------------------------------------


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Read and check the command line; leaves with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="incident_agent.py",
        description="An agent reads an Apache error log; it is killed with SIGKILL inside a call, and goes on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_places(parser, FOLDER / "agent", "store, ledger and orders")
    parser.add_argument("--model", default=SCRIPTED, help='a real model, "provider:name" (default: a script)')
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--yes", dest="answer", action="store_const", const="yes", help="approve what the agent asks")
    answers.add_argument("--no", dest="answer", action="store_const", const="no", help="refuse it")
    found = parser.parse_args(words)
    try:
        chat_model(found.model)
    except DurableGraphError as error:
        parser.exit(2, f"error: {error}\n")
    check_places(parser, found, "read")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Play the demo; its exit status."""
    arguments = parse_arguments(words)
    screen = Screen(sys.stdout)
    answer, why = arguments.answer, f"--{arguments.answer}"
    if answer is None and not (sys.stdin is not None and sys.stdin.isatty()):
        answer, why = "yes", "stdin is no terminal"
    return perform(
        screen,
        lambda: Incident(arguments.dir, arguments.log, screen, model=arguments.model),
        lambda incident: play(incident, answer, why),
    )


if __name__ == "__main__":
    sys.exit(main())
