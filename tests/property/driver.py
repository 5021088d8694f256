"""A driver without OS threads, event loop or database: it performs a script as a test tells it to.

`Choices` make every accident explicit: which task ends next, how much mail waits together, where the process dies, what
the disk kept. `explore` goes through all of them.
"""

import contextvars
import copy
import re
from dataclasses import dataclass, field
from random import Random

from durable_graph.core.effects import Cancel, Emit, Launch, Load, Persist, Receive
from durable_graph.core.history import snapshot
from durable_graph.core.scripts import run_graph
from durable_graph.errors import StorageError
from durable_graph.graph.calls import make_call
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import own
from durable_graph.persistence.layout import read_head
from durable_graph.records import Address
from durable_graph.runtime import config as configs
from durable_graph.runtime.attempt import perform
from durable_graph.runtime.blocking import call_here
from durable_graph.runtime.context import RunContext
from tests.rowstore import RowStore

THREAD = "t"
UNTOUCHED = "this run stored nothing yet"
TOKEN = re.compile(r"<[^<>]+>")


class CrashError(BaseException):
    """The process died here."""


# --- accidents -------------------------------------------------------------------------------------------------------


class Choices:
    """Accidents as a path through a tree; `pick(n)` answers a number below n. Beyond the path it is always 0."""

    def __init__(self, path=()):
        self.path = list(path)
        self.at = 0

    def pick(self, options):
        if self.at == len(self.path):
            self.path.append((0, options))
        chosen, known = self.path[self.at]
        assert known == options, "the same accidents led to something else: the core is not deterministic"
        self.at += 1
        return chosen


class InOrder:
    """One piece of mail at a time, in the order in which tasks were launched."""

    def pick(self, options):
        return 0


class Backwards:
    """The last task first, and all mail of a step together."""

    def pick(self, options):
        return options - 1


class AtRandom:
    def __init__(self, seed):
        self.random = Random(seed)

    def pick(self, options):
        return self.random.randrange(options)


def explore(body):
    """Call `body(choices)` for every path through its choices; answers how many there are."""
    path, count = [], 0
    while True:
        choices = Choices(path)
        body(choices)
        count += 1
        path = choices.path
        while path and path[-1][0] + 1 == path[-1][1]:
            del path[-1]
        if not path:
            return count
        path[-1] = (path[-1][0] + 1, path[-1][1])


# --- what survives ---------------------------------------------------------------------------------------------------


class Disk:
    """The rows of a thread. What was flushed survives a crash; of what was only persisted, a first part may."""

    def __init__(self):
        self.store = RowStore(CODEC)
        self.unflushed = []
        self.epoch = 1

    def head(self, **options):
        return self.store.head(**options)[0]

    def open(self):
        """The newest checkpoint and a writer behind it, for a run of its own epoch."""
        self.epoch += 1
        return self.store.drive(read_head(self.store.load(), CODEC, tasks=False))

    def flush(self):
        for rows in self.unflushed:
            self.store.add(rows)
        self.unflushed = []

    def crash(self, choices):
        """The process is gone, and with it a last part of what was not flushed."""
        kept = choices.pick(len(self.unflushed) + 1)
        self.unflushed = self.unflushed[:kept]
        self.flush()

    def trail(self, graph):
        """(step, values, next) of every checkpoint, oldest first."""
        found = []
        for stored in reversed(self.store.history()):
            shown = snapshot(graph.program, THREAD, stored, live=False, copy=own)
            found.append((shown.metadata["step"], shown.values, shown.next))
        return found

    def finished(self):
        """(step, path) of tasks whose result is stored, as far as the newest checkpoint tells; and its step."""
        head = self.head()
        if head is None:
            return set(), -2
        step = head.step.step
        return {(step + 1, path) for path, task in head.pending.items() if task.writes is not None}, step


# --- the driver ------------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    """One effect as it was performed. text: all that can be told of it. tokens: the marks of writes it shows."""

    kind: str
    text: str
    tokens: frozenset = frozenset()


@dataclass
class Driver:
    """Performs scripts over one disk.

    sync: durability "sync", else "async".
    eager: tasks run when they are launched, else when their mail is due. at_once: mail of a task that is launched alone
    is the reply to its Launch, as when a driver runs it on the spot.
    fault: called with the moment ("before" | "after") and the effect; what it answers is raised there.
    recording: keep the transcript and the replies.
    executed: (step, path) of every attempt.
    """

    graph: object
    disk: Disk
    choices: object = field(default_factory=InOrder)
    sync: bool = True
    eager: bool = True
    at_once: bool = False
    modes: frozenset = frozenset()
    fault: object = lambda moment, effect: None
    recording: bool = True
    executed: list = field(default_factory=list)
    transcript: list = field(default_factory=list)
    replies: list = field(default_factory=list)
    events: list = field(default_factory=list)

    def request(self, given, config=None, on_unfinished="reject", before=frozenset(), after=frozenset()):
        config = {"configurable": {"thread_id": THREAD}, "run_id": "r", **(config or {})}
        return make_call(
            self.graph.program,
            self.graph.schemas,
            given,
            configs.normalise(config),
            modes=frozenset(self.modes),
            context=None,
            interrupt_before=before,
            interrupt_after=after,
            durability="sync" if self.sync else "async",
            on_unfinished=on_unfinished,
            on_busy="reject",
            encode=CODEC.encode,
        )

    def run(self, given, **options):
        """Perform one call to its end; the outcome."""
        call = self.request(given, **options)
        self.shared = RunContext(self.graph.program, call.config, CODEC.encode)
        self.outstanding = []
        self.said = []
        self.status = UNTOUCHED
        self.unsure = False
        if "custom" in self.modes:
            self.shared.post = self.said.append
        script = run_graph(self.graph.program, call.request, self.shared.watch)
        try:
            return self._drive(script)
        finally:
            script.close()  # an effect here would be a RuntimeError: cleaning up is the driver's

    def _drive(self, script):
        advance, reply = script.send, None
        while True:
            try:
                effect = advance(reply)
            except StopIteration as end:
                self._check_over()
                return end.value
            except StorageError:
                raise  # the backend failed: nothing more can be told to it
            except BaseException:
                self._check_over()
                raise
            if self.recording:
                self.transcript.append(self._entry(effect))
            wrong = self.fault("before", effect)
            if wrong is None:
                try:
                    reply = getattr(self, f"_{type(effect).__name__.lower()}")(effect)
                    if self.recording:
                        self.replies.append(recorded(effect, reply))
                    wrong = self.fault("after", effect)
                except Exception as error:  # noqa: BLE001 - the script decides what it means
                    wrong = error
            if isinstance(wrong, CrashError):
                raise wrong
            self.unsure = wrong is not None and isinstance(effect, Persist)
            advance, reply = (script.throw, wrong) if wrong is not None else (script.send, reply)

    def _check_over(self):
        """A run that stored something gave its thread back."""
        assert self.status is not None or self.unsure

    def _entry(self, effect):
        kind = type(effect).__name__
        values = self.shared.run.values if self.shared.run is not None else {}
        if isinstance(effect, Persist):
            batch = effect.batch
            text = repr((batch.steps, batch.pending, batch.status))
            return Entry(kind, text, tokens(text))
        if isinstance(effect, Launch):
            text = repr([(task.path, task.arg, task.attempt, task.delay, task.origin) for task in effect.tasks])
            return Entry(kind, text, tokens(text) | tokens(values))
        if isinstance(effect, Emit):
            return Entry(kind, repr(effect.events), tokens(effect.events))
        return Entry(kind, repr(effect.wait) if isinstance(effect, Receive) else "")

    # --- effects ---

    def _load(self, effect):
        stored, self.writer = self.disk.open()
        self.status = UNTOUCHED
        if self.recording:
            self.transcript[-1].tokens = tokens(stored)
        return stored

    def _persist(self, effect):
        batch, writer, epoch = effect.batch, self.writer, self.disk.epoch
        assert self.status in (None, UNTOUCHED) or self.unsure, "a run stores something after it gave its thread back"
        self.status = batch.status
        addresses, rows = [], []
        for record in batch.steps:
            rows += writer.checkpoint(record, writer.seq + 1, epoch)
            addresses.append(Address(1, writer.seq, epoch))
        if batch.pending is not None and (batch.pending.tasks or batch.pending.answers):
            rows += writer.pending(batch.pending, writer.seq + 1, epoch)
        if rows:
            self.disk.unflushed.append(rows)
        return addresses

    def _flush(self, effect):
        self.disk.flush()

    def _launch(self, effect):
        if self.at_once and len(effect.tasks) == 1 and not self.outstanding:
            return self._perform(effect.tasks[0])
        for task in effect.tasks:
            assert task not in [other for other, _ in self.outstanding]
            self.outstanding.append((task, self._perform(task) if self.eager else None))
        return []

    def _cancel(self, effect):
        taken = [task for task, mails in self.outstanding if mails is None]
        self.outstanding = [(task, mails) for task, mails in self.outstanding if mails is not None]
        return taken

    def _receive(self, effect):
        found = []
        while self.outstanding:
            if effect.wait and found and not self.choices.pick(2):
                break  # the rest is not here yet
            at = self.choices.pick(len(self.outstanding)) if effect.wait else 0
            task, mails = self.outstanding.pop(at)
            found += self._perform(task) if mails is None else mails
        assert found or not effect.wait, "nothing is outstanding that could answer this Receive"
        return found

    def _emit(self, effect):
        self.events += copy.deepcopy(effect.events)

    def _perform(self, task):
        """Run a task now, whatever its delay: nobody sleeps here."""
        self.executed.append((self.shared.run.step + 1, task.path))
        mail = contextvars.copy_context().run(perform, task, self.shared, call_here)
        said, self.said = self.said, []
        return [*said, mail]


def tokens(shown):
    """The marks of writes in anything that can be shown; every write of the test graphs carries one."""
    return frozenset(TOKEN.findall(shown if isinstance(shown, str) else repr(shown)))


def recorded(effect, reply):
    """A reply as it was, for `replay`; mail names its task by path."""
    if not isinstance(effect, (Launch, Receive, Cancel)):
        return copy.deepcopy(reply)
    found = []
    for one in reply:
        if isinstance(effect, Cancel):
            found.append(one.path)
            continue
        twin = copy.copy(one)
        twin.task = one.task.path
        if hasattr(twin, "writes"):
            twin.writes = copy.deepcopy(twin.writes)
        found.append(twin)
    return found


def replay(driver, given, **options):
    """Feed the replies of `driver`'s first run to a second script; the transcript of that one. No node runs."""
    twin = Driver(driver.graph, Disk(), sync=driver.sync, modes=driver.modes)
    call = twin.request(given, **options)
    twin.shared = RunContext(driver.graph.program, call.config, CODEC.encode)
    script = run_graph(driver.graph.program, call.request, twin.shared.watch)
    launched = {}
    reply = None
    for answer in driver.replies:
        effect = script.send(reply)
        twin.transcript.append(twin._entry(effect))
        reply = copy.deepcopy(answer) if isinstance(effect, (Load, Persist)) else answer
        if isinstance(effect, Load):
            twin.transcript[-1].tokens = tokens(reply)
        if isinstance(effect, Launch):
            launched.update((task.path, task) for task in effect.tasks)
        if isinstance(effect, Cancel):
            reply = [launched[path] for path in answer]
        elif isinstance(effect, (Launch, Receive)):
            for mail in reply:
                mail.task = launched[mail.task]
    try:
        _ = script.send(reply)
    except Exception:  # noqa: BLE001 - StopIteration, or what the first script ended with
        return twin.transcript
    raise AssertionError("the second script wants more than the first")


def check_write_order(transcript, *, sync):
    """Nothing that follows from a write comes before its Persist; in "sync" not before its Flush."""
    persisted, durable = frozenset(), frozenset()
    for entry in transcript:
        if entry.kind == "Load":
            persisted, durable = persisted | entry.tokens, durable | entry.tokens
        elif entry.kind == "Persist":
            persisted |= entry.tokens
        elif entry.kind == "Flush":
            durable = persisted
        elif entry.kind in ("Launch", "Emit"):
            early = entry.tokens - (durable if sync else persisted)
            assert not early, f"{entry.kind} shows {sorted(early)} before they are {'durable' if sync else 'stored'}"
