"""The graph of the log-triage demo: what you would write yourself. The show around it is in log_triage.py.

read -> parse -> widen -> count (one task per chunk) -> compare -> judge -> report -> ask -> send -> remember
          |        ^                                                                   |
          v        +---------------------------- "more data" -------------------------+
       give_up
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import demo_effects
from demo_effects import append_once
from demo_log import ENTRY, TROUBLE, lines_of, short, worst_first

from durable_graph import END, START, Command, RetryPolicy, Runtime, Send, StateGraph, interrupt, once

if TYPE_CHECKING:
    from durable_graph import CompiledStateGraph

CHUNKS = 8
"""Tasks that one window of the log is counted by."""
TOP = 4
"""Message shapes a report names."""
THRESHOLD = 25.0
"""An alarm is raised when more percent of the lines than this are errors or worse."""


class ParseError(Exception):
    """The log cannot be made sense of, at least not now."""


# --- the state: what is stored after each step -------------------------------------------------------------------


class Entry(NamedTuple):
    """One line that was understood. `shape` is its message with every run of digits replaced by "#"."""

    level: str
    shape: str


class Chunk(TypedDict):
    """What one `count` task works on. `lines` says which lines these are, such as "1001-1125"."""

    lines: str
    entries: list[Entry | None]


class State(TypedDict):
    """A key with a reducer adds up what tasks write; any other keeps the last value. Keys come as nodes write them."""

    log: str
    threshold: float  # percent; in the state, so that somebody who travels back can change it
    size: int  # bytes
    entries: list[Entry | None]  # one per line, oldest first; None: a bad line
    window: tuple[int, int]  # the lines to count next: entries[first:last]
    counted: Annotated[list[str], operator.add]  # the chunks that are in these sums:
    levels: Annotated[Counter[str], operator.add]
    shapes: Annotated[Counter[str], operator.add]
    bad: Annotated[int, operator.add]
    change: dict[str, float] | None  # see shares(): percentage points since the last report; None: there is none
    alarm: bool
    report: str
    answers: Annotated[list[str], operator.add]  # what the human said
    problem: str


@dataclass(frozen=True)
class Desk:
    """What nodes work with besides the state. It comes with each call as `context=` and is never stored.

    pause: seconds that counting a chunk takes, in place of the model call that real triage would make there.
    branch: a branch of the thread that keeps a ledger of its own.
    """

    folder: Path
    pause: float = 0.0
    branch: str = ""

    @property
    def outbox(self) -> Path:
        """Reports that were sent, one JSON object per line."""
        return self.folder / "outbox.jsonl"

    @property
    def notices(self) -> Path:
        """What the person on duty was told, one JSON object per line."""
        return self.folder / "notices.jsonl"

    @property
    def ledger(self) -> Path:
        """Who started what: one line `thread process task` each time a node starts its work."""
        return self.folder / (f"ledger-{self.branch}.txt" if self.branch else "ledger.txt")

    def baseline(self, log: str) -> Path:
        """Shares per level and shape in the last report about this log."""
        return self.folder / f"baseline-{hashlib.sha256(log.encode()).hexdigest()[:12]}.json"


# --- the nodes: functions from the state to what they change in it ------------------------------------------------


def read(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Note how long the log is now. What is written to it later belongs to the next run."""
    sign(runtime, "read")
    return {"size": Path(state["log"]).stat().st_size}


PATIENCE = RetryPolicy(max_attempts=4, initial_interval=0.1, jitter=False, retry_on=(ParseError, OSError))
"""A log that is being rotated or copied is fine a moment later: try 3 times more, after 0.1, 0.2 and 0.4 seconds."""


def parse(state: State, runtime: Runtime[Desk]) -> Command[Literal["widen", "give_up"]]:
    """Make entries of lines. A bad line is no failure, it is counted; a log without one good line is."""
    sign(runtime, "parse")
    try:
        entries = read_entries(Path(state["log"]), state["size"])
    except (ParseError, OSError) as error:
        attempt = runtime.execution_info.node_attempt if runtime.execution_info else 1
        if attempt < PATIENCE.max_attempts:
            raise  # the retry policy tries again
        return Command(update={"problem": f"{error} ({attempt} attempts)"}, goto="give_up")
    return Command(update={"entries": entries}, goto="widen")


def give_up(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """The way out when there is nothing to report: the run ends in order, and its state says why."""
    sign(runtime, "give_up")
    return {"report": f"No report: {state['problem']}"}


def widen(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Choose the lines to count next: first the newest half (all of a short log), then those before it."""
    sign(runtime, "widen")
    total = len(state["entries"])
    if "window" in state:
        return {"window": (0, state["window"][0])}
    return {"window": (total // 2 if total >= 2 * CHUNKS else 0, total)}


def chunks(state: State) -> list[Send]:
    """Fan out: each Send becomes a task of its own, with its own input, and they run in parallel."""
    first, last = state["window"]
    bounds = sorted({first + (last - first) * part // CHUNKS for part in range(CHUNKS + 1)})
    return [
        Send("count", Chunk(lines=f"{start + 1}-{end}", entries=state["entries"][start:end]))
        for start, end in pairwise(bounds)
    ]


def count(chunk: Chunk, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Count one chunk. The reducers of the state add the chunks up, in whatever order they finish."""
    sign(runtime, f"count {chunk['lines']}")
    time.sleep(runtime.context.pause)  # here a model would be asked
    good = [entry for entry in chunk["entries"] if entry is not None]
    return {
        "counted": [chunk["lines"]],
        "levels": Counter(entry.level for entry in good),
        "shapes": Counter(entry.shape for entry in good),
        "bad": len(chunk["entries"]) - len(good),
    }


def compare(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Look up the last report. It is read in a node, so its content is stored: a resumed run sees the same."""
    sign(runtime, "compare")
    try:
        before: dict[str, float] = json.loads(runtime.context.baseline(state["log"]).read_text("utf-8"))
    except FileNotFoundError:
        return {"change": None}
    now = shares(state)
    return {"change": {name: now.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **now}}}


def judge(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Decide whether this is an alarm."""
    sign(runtime, "judge")
    return {"alarm": trouble(state) > state["threshold"]}


def report(state: State, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Write the report."""
    sign(runtime, "report")
    return {"report": write_report(state)}


def ask(state: State, runtime: Runtime[Desk]) -> Command[Literal["send", "widen", "__end__"]]:
    """Stop for a human. The run needs no process while it waits; the answer makes this node start once more.

    What it did before it stopped is a recorded step, which the second start does not repeat.
    """
    sign(runtime, "enter ask")
    once("notify", notify, state["report"].splitlines()[0])
    if is_whole(state):
        answer = interrupt({"report": state["report"]}, response_schema=Literal["send", "stop"])
    else:
        answer = interrupt({"report": state["report"]}, response_schema=Literal["send", "stop", "more data"])
    sign(runtime, f"ask ({answer})")
    return Command(update={"answers": [answer]}, goto={"send": "send", "stop": END, "more data": "widen"}[answer])


def notify(headline: str, runtime: Runtime[Desk]) -> None:
    """Tell the person on duty. Killed before this is recorded, it runs again, with the same key: still one notice."""
    sign(runtime, "notify")
    append_once(runtime.context.notices, runtime.idempotency_key, report=headline)


def send(state: State, runtime: Runtime[Desk]) -> None:
    """Send the report, once: should this node be killed and run again, it finds that the message is there."""
    sign(runtime, "send")
    append_once(runtime.context.outbox, thread_of(runtime), report=state["report"])


def remember(state: State, runtime: Runtime[Desk]) -> None:
    """Keep the shares for the next run to compare with. Replacing a file is safe to do twice."""
    sign(runtime, "remember")
    path = runtime.context.baseline(state["log"])
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(shares(state)), "utf-8")
    draft.replace(path)


# --- the graph ----------------------------------------------------------------------------------------------------


def build(checkpointer: str) -> CompiledStateGraph[State, Desk, State, State]:
    """The graph, with its runs kept at a URL such as "sqlite:///runs.db"."""
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node(read)
    graph.add_node(parse, retry_policy=PATIENCE)
    for node in (give_up, widen, count, compare, judge, report, ask, send, remember):
        graph.add_node(node)

    graph.add_edge(START, "read")
    graph.add_edge("read", "parse")  # parse says itself where it goes, and so does ask
    graph.add_edge("give_up", END)
    graph.add_conditional_edges("widen", chunks, ["count"])
    graph.add_edge("count", "compare")
    graph.add_edge("compare", "judge")
    graph.add_edge("judge", "report")
    graph.add_edge("report", "ask")
    graph.add_edge("send", "remember")
    graph.add_edge("remember", END)
    return graph.compile(checkpointer, name="log triage")


# --- the work itself: plain functions that know nothing of graphs --------------------------------------------------


def read_entries(log: Path, size: int) -> list[Entry | None]:
    """The first `size` bytes of a log, line by line; None stands for a bad line.

    Raises:
        ParseError: the file has shrunk, or not one line is an Apache error-log line.
    """
    with log.open("rb") as file:
        data = file.read(size)
    if len(data) < size:
        raise ParseError(f"{log.name} has shrunk from {size:,} to {len(data):,} bytes")
    found = [as_entry(line) for line in lines_of(data)]
    if not any(found):
        raise ParseError(f"no line of {log.name} looks like an Apache error log: [time] [level] message")
    return found


def as_entry(line: str) -> Entry | None:
    """One line, understood; None when it is no log line."""
    match = ENTRY.fullmatch(line)
    return Entry(match["level"], re.sub("[0-9]+", "#", match["message"])) if match else None


def is_whole(state: State) -> bool:
    """Whether every line of the log is counted."""
    return state["window"][0] == 0


def shares(state: State) -> dict[str, float]:
    """Percent of the lines counted, by "level error" and "shape child # is slow"."""
    lines = state["levels"].total() + state["bad"]
    levels = {f"level {name}": 100 * number / lines for name, number in state["levels"].items()}
    return levels | {f"shape {name}": 100 * number / lines for name, number in state["shapes"].items()}


def trouble(state: State) -> float:
    """Percent of the lines counted that are errors or worse."""
    lines = state["levels"].total() + state["bad"]
    return 100 * sum(state["levels"][level] for level in TROUBLE) / lines


def write_report(state: State) -> str:
    """What a person reads before deciding."""
    total, change, share = len(state["entries"]), state["change"], shares(state)
    lines = total - state["window"][0]
    scope = "the whole log" if is_whole(state) else f"the newest of {total:,}"
    last = "no baseline yet" if change is None else "(change): points since the last report"

    def part(kind: str, found: str) -> str:
        name = f"{kind} {found}"
        moved = round(change[name], 1) if change is not None else None
        return f"{share[name]:.1f}%" + ("" if moved is None else f" ({moved:+.1f})" if moved else " (=)")

    levels = [f"{state['levels'][level]:,} {level} {part('level', level)}" for level in worst_first(state["levels"])]
    shapes = sorted(state["shapes"].items(), key=lambda pair: (-pair[1], pair[0]))
    word = "ALARM" if state["alarm"] else "no alarm"
    rest = sum(number for _, number in shapes[TOP:])
    return "\n".join(
        [
            f"{Path(state['log']).name}: {lines:,} lines, {scope}, {state['bad']:,} bad; {last}",
            *("   ".join(levels[at : at + 4]) for at in range(0, len(levels), 4)),
            *(f'{number:6,} × "{short(shape)}"  {part("shape", shape)}' for shape, number in shapes[:TOP]),  # noqa: RUF001 - the sign for times
            *([f"{rest:6,} of rarer shapes"] if rest else []),
            f"{word}: {trouble(state):.1f}% of the lines are errors or worse, the threshold is {state['threshold']:g}%",
        ]
    )


# --- side effects ----------------------------------------------------------------------------------------------------


def thread_of(runtime: Runtime[Any]) -> str:
    """The thread this run belongs to."""
    info = runtime.execution_info
    return (info.thread_id if info else None) or ""


def sign(runtime: Runtime[Desk], task: str) -> None:
    """Write into the ledger that a task starts."""
    demo_effects.sign(runtime.context.ledger, thread_of(runtime), task)
