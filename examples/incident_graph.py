"""The agent of the agent demo: what you would write yourself. The show around it is in incident_agent.py.

It looks into the error log of a web server with tools that only read, and may restart a worker if a human says yes.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import demo_effects
from demo_log import ENTRY, TROUBLE, lines_of, short, worst_first
from incident_model import chat_model

from durable_graph import interrupt
from durable_graph.agents import create_agent
from durable_graph.prebuilt import ToolRuntime, tool

if TYPE_CHECKING:
    from durable_graph import CompiledStateGraph

WORKERS = Path(__file__).resolve().parent / "workers.properties"
LONGEST = 160
MOST_LINES = 50

PROMPT = """\
You are on call for a web shop: an Apache server with workers behind it. You find out what is wrong, and mend it if you
can. Begin by asking for everything you want to read in one turn. When a worker keeps failing, look at its settings and
then restart it: a human is asked before that happens. Do not ask again for what was refused. End with a report of a few
sentences, in plain text, which says what you found and what was done."""


@dataclass(frozen=True)
class Desk:
    """What tools work with. It comes with each call as `context=` and is never stored.

    pause: seconds that a call takes, in place of the service that real tools would ask.
    """

    folder: Path
    log: Path
    pause: float = 0.0

    @property
    def ledger(self) -> Path:
        """Which calls started: one line `thread process call tool key` each time a tool starts its work."""
        return self.folder / "ledger.txt"

    @property
    def restarts(self) -> Path:
        """The restarts that were ordered, one JSON object per line."""
        return self.folder / "restarts.jsonl"


# --- tools that read: the model sees their names, signatures and docstrings ------------------------------------------


@tool
def summarize_levels(runtime: ToolRuntime[Desk]) -> str:
    """How many lines of the log there are of each level, and from when to when they are."""
    start(runtime, "summarize_levels")
    lines = read_lines(runtime)
    entries = [entry for line in lines if (entry := ENTRY.fullmatch(line))]
    if not entries:
        return f"{len(lines):,} lines, and none of them has the form [time] [level] message"
    levels = Counter(entry["level"] for entry in entries)
    counts = ", ".join(f"{levels[level]:,} {level}" for level in worst_first(levels))
    bad = f", {len(lines) - len(entries):,} unreadable" if len(entries) < len(lines) else ""
    return f"{len(lines):,} lines from {entries[0]['time']} to {entries[-1]['time']}: {counts}{bad}"


@tool
def recent_errors(runtime: ToolRuntime[Desk], count: Annotated[int, "how many lines"] = 5) -> str:
    """The newest lines that are errors or worse."""
    start(runtime, "recent_errors")
    matches = ((line, ENTRY.fullmatch(line)) for line in read_lines(runtime))
    found = [line for line, entry in matches if entry and entry["level"] in TROUBLE]
    return newest(f"{len(found):,} lines are errors or worse", found, count)


@tool
def search_lines(text: str, runtime: ToolRuntime[Desk], count: Annotated[int, "how many lines"] = 3) -> str:
    """How many lines hold a text, in capitals or not, and the newest of them."""
    start(runtime, "search_lines")
    lines = read_lines(runtime)
    found = [line for line in lines if text.casefold() in line.casefold()]
    return newest(f"{len(found):,} of {len(lines):,} lines have '{text}'", found, count)


@tool
def show_worker(worker: str, runtime: ToolRuntime[Desk]) -> str:
    """The settings of a worker, which the web server passes requests on to."""
    start(runtime, "show_worker")
    workers = read_workers()
    if worker not in workers:
        return unknown(worker)
    return "\n".join(f"{name}={value}" for name, value in workers[worker].items())


# --- the tool that does something ------------------------------------------------------------------------------------


@tool
def restart_worker(
    worker: str, reason: Annotated[str, "in one sentence, for the human who decides"], runtime: ToolRuntime[Desk]
) -> str:
    """Restart a worker. The requests it works on are lost, so a human is asked first."""
    if worker not in read_workers():
        return unknown(worker)
    question = {"call": runtime.tool_call_id, "tool": "restart_worker", "worker": worker, "reason": reason}
    if interrupt(question, response_schema=Literal["yes", "no"]) == "no":  # stops here, until somebody answers
        return f"refused by the operator: {worker} was not restarted"
    start(runtime, "restart_worker")
    # Killed before its result is stored, this call runs again, with the same key: still one order.
    demo_effects.append_once(runtime.context.restarts, runtime.idempotency_key, worker=worker)
    return f"restarted {worker}, order {runtime.idempotency_key[:8]}"


# --- the agent -------------------------------------------------------------------------------------------------------


def build(checkpointer: str, model: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The agent, with its runs kept at a URL such as "sqlite:///runs.db". model: see `chat_model`."""
    return create_agent(
        chat_model(model),
        [summarize_levels, recent_errors, search_lines, show_worker, restart_worker],
        system_prompt=PROMPT,
        context_schema=Desk,
        checkpointer=checkpointer,
        name="incident-agent",
    )


# --- the work itself: plain functions --------------------------------------------------------------------------------


def start(runtime: ToolRuntime[Desk], name: str) -> None:
    """Sign the ledger, which only the demo needs, and take as long as a real tool would."""
    thread = runtime.execution_info.thread_id or ""
    demo_effects.sign(runtime.context.ledger, thread, f"{runtime.tool_call_id} {name} {runtime.idempotency_key}")
    time.sleep(runtime.context.pause)


def read_lines(runtime: ToolRuntime[Desk]) -> list[str]:
    """The lines of the log, oldest first."""
    return lines_of(runtime.context.log.read_bytes())


def newest(headline: str, lines: list[str], count: int) -> str:
    """How many lines there are, and the last of them."""
    last = lines[-min(max(count, 1), MOST_LINES) :]
    shown = f"; the newest {len(last)}:" if len(last) > 1 else ":" if last else ""
    return "\n".join([f"{headline}{shown}", *(short(line, LONGEST) for line in last)])


def read_workers() -> dict[str, dict[str, str]]:
    """The settings of each worker."""
    found: dict[str, dict[str, str]] = {}
    for name, key, value in re.findall(r"^worker\.(\w+)\.(\w+)=(.*)$", WORKERS.read_text("utf-8"), re.MULTILINE):
        found.setdefault(name, {})[key] = value
    return found


def unknown(worker: str) -> str:
    """What a model is told about a worker that is not there."""
    return f"there is no worker '{worker}'; there are: {', '.join(read_workers())}"
