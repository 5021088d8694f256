"""Random histories of a thread: runs, answers, edits, forks, replays, copies, crashes.

After each of them everything the thread shows is what a naive model of it says (`naive_thread`).
"""

import operator
import time
import warnings
from collections import Counter
from random import Random
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import END, START, Command, Send, StateGraph, interrupt, once
from durable_graph.errors import (
    DurableGraphError,
    GraphRecursionError,
    InterruptMismatchError,
    InvalidUpdateError,
    StorageError,
    UsageError,
)
from tests.faces import FACES
from tests.property import naive_thread as naive
from tests.property import plain_graphs as plans

SEEDS = 500
EACH = 25
ON_DISK = 200
"""So many of them run on SQLite too; all of them among the slow tests."""
CONFIG = {"configurable": {"thread_id": "t"}, "recursion_limit": naive.LIMIT}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]
    note: str


class DiedError(StorageError):
    """The process ended here."""


def mortal(kind):
    """A checkpointer whose process dies at its n-th commit, before or after it is written."""

    class Mortal(kind):
        left = 0
        after = False
        dead = False

        def claim(self, request):
            return self.strike(super().claim, request)

        def commit(self, items):
            return self.strike(super().commit, items)

        def strike(self, verb, given):
            if self.dead:
                raise DiedError("dead already")
            self.left -= 1
            self.dead = self.left == 0
            if self.dead and not self.after:
                raise DiedError("before it was written")
            found = verb(given)
            if self.dead:
                raise DiedError("once it was written")
            return found

    return Mortal


# --- the real thing --------------------------------------------------------------------------------------------------


class Real:
    """The plan's graph over a checkpointer.

    marks: what ran.   running: what runs now.   broken: nodes that fail.   ids: question of the model -> its id.
    """

    def __init__(self, plan, saver, random):
        self.saver = saver
        self.random = random
        self.marks = []
        self.running = []
        self.broken = frozenset()
        self.ids = {}
        self.graph = self.build(plan).compile(saver)

    def build(self, plan):
        builder = StateGraph(State)
        for name in [*plan["names"], "work"]:
            builder.add_node(name, self.node(plan, name))
        for name in [START, *plan["names"], "work"]:
            for target in plan["starts"] if name == START else plans.leads(plan, name):
                builder.add_edge(name, target)
        for sources, target in plan["barriers"]:
            builder.add_edge(list(sources), target)
        for name in plan["routers"]:
            builder.add_conditional_edges(name, self.router(plan, name), [*plan["names"], "work", END])
        warnings.simplefilter("ignore", UserWarning)  # a random graph has nodes that nothing leads to
        return builder

    def node(self, plan, name):
        def recorded(word):
            self.marks.append(f"once {word}")
            return f"once {word}"

        def run(seen):
            self.marks.append(name)
            self.running.append(name)
            try:
                result = plans.behave(plan, name, seen, interrupt, lambda word: once(word, recorded, word))
            finally:
                self.running.remove(name)
            if name in self.broken:
                raise ValueError(f"broken {name}")
            return result

        return run

    def router(self, plan, name):
        def route(state):
            targets = plans.route(plan, name, state)
            return [Send(*target) if isinstance(target, tuple) else target for target in targets] or END

        return route

    @property
    def face(self):
        return FACES[self.random.random() < 0.25]

    def history(self):
        return self.face.get_state_history(self.graph, CONFIG)[::-1]

    def live(self):
        return self.face.get_state(self.graph, CONFIG)

    def config(self, at):
        return CONFIG if at is None else {**self.history()[at].config, "recursion_limit": naive.LIMIT}

    def bury(self):
        """The process is gone, and with it the nodes that still ran; another one goes on."""
        time.sleep(0.002)
        while self.running:
            time.sleep(0.001)
        self.saver.dead = False

    def known(self, asked):
        """The real id of a question of the model."""
        return self.ids[asked]


# --- operations: what they are to the model, and to the graph --------------------------------------------------------


class Operation:
    """One call. `abrupt`: it may be cut short by a crash."""

    abrupt = True

    def __init__(self, thread, random, number):
        self.at = None
        if thread.points and random.random() < 0.35:
            self.at = random.randrange(len(thread.points))
        if thread.points and self.at == len(thread.points) - 1 and random.random() < 0.5:
            self.at = None
        self.random, self.number = random, number
        self.prepare(thread)

    def prepare(self, thread):
        """Decide what to do with this thread."""

    def values(self):
        found = {"log": [f"given {self.number}"], "total": self.random.randint(0, 2), "note": f"note {self.number}"}
        return {key: found[key] for key in found if self.random.random() < 0.6}

    def __repr__(self):
        return f"{type(self).__name__} {vars(self)}"


class Input(Operation):
    def prepare(self, thread):
        self.given = self.values()
        self.abandon = self.random.random() < 0.7

    def of_model(self, thread):
        thread.invoke(self.given, self.at, abandon=self.abandon)

    def of_real(self, real, **options):
        if self.abandon:
            options["on_unfinished"] = "abandon"
        real.face.invoke(real.graph, self.given, real.config(self.at), **options)


class GoOn(Operation):
    def of_model(self, thread):
        if not thread.points:
            raise naive.RefusedError
        thread.resume(at=self.at)

    def of_real(self, real, **options):
        real.face.invoke(real.graph, None, real.config(self.at), **options)


class Answer(Operation):
    def prepare(self, thread):
        asked = thread.asked_at(self.at) if thread.points else []
        point = thread.points[self.at] if self.at is not None else thread.head
        # Where values were changed after the checkpoint was made, a branch of it may ask something else.
        if point is not thread.head and (point.edited or point.command):
            asked = []
        chosen = [one for one in asked if self.random.random() < 0.7]
        self.scalar = len(asked) == 1 and self.random.random() < 0.5
        self.answers = {one: f"answer {self.number}.{n}" for n, one in enumerate(asked if self.scalar else chosen)}

    def of_model(self, thread):
        if not self.answers:
            raise naive.RefusedError
        thread.resume(self.answers, self.at)

    def of_real(self, real, **options):
        given = {real.known(one): answer for one, answer in self.answers.items()}
        answer = next(iter(given.values())) if self.scalar else given
        answer = answer or {"intr_" + "0" * 32: "nobody asked"}
        real.face.invoke(real.graph, Command(resume=answer), real.config(self.at), **options)


class Tell(Answer):
    """A Command with an update and targets, and maybe answers."""

    abrupt = False

    def prepare(self, thread):
        super().prepare(thread)
        if self.random.random() < 0.5:
            self.answers = {}
        self.update = self.values()
        if self.at is not None and self.answers:  # on a branch an answer must fit the question as it was
            self.update.pop("note", None)
        self.goto = self.random.sample(thread.plan["names"], self.random.randint(0, 1))

    def of_model(self, thread):
        if not (self.update or self.goto or self.answers):
            raise naive.RefusedError
        thread.resume(self.answers, self.at, self.update, self.goto)

    def of_real(self, real, **options):
        given = {real.known(one): answer for one, answer in self.answers.items()}
        more = {"resume": given} if given else {}
        command = Command(update=self.update or None, goto=self.goto, **more)
        real.face.invoke(real.graph, command, real.config(self.at), **options)


class Edit(Operation):
    def prepare(self, thread):
        names = [None, None, *thread.plan["names"], "work", START, END, "__input__", "__copy__"]
        self.as_node = self.random.choice(names)
        self.given = self.values()

    def of_model(self, thread):
        thread.edit(self.given, self.as_node, self.at)

    def of_real(self, real, **options):
        given = None if self.as_node == "__copy__" else self.given
        real.face.update_state(real.graph, real.config(self.at), given, as_node=self.as_node)


OPERATIONS = (Input, GoOn, GoOn, Answer, Answer, Answer, Tell, Edit, Edit)
EXPECTED = {
    naive.RefusedError: (UsageError, InvalidUpdateError),
    naive.BrokenError: (ValueError, ExceptionGroup),
    naive.LostAnswerError: (InterruptMismatchError, ValueError, ExceptionGroup),
    naive.LimitError: (GraphRecursionError,),
}


# --- what is compared ------------------------------------------------------------------------------------------------


class Comparison:
    """Model against graph. ids: question of the model -> id, both unique."""

    def __init__(self, thread, real):
        self.thread, self.real = thread, real

    def check(self):
        history = self.real.history()
        points = self.thread.points
        assert len(history) == len(points)
        configs = [one.config for one in history]
        for point, shown in zip(points, history, strict=True):
            told = (shown.metadata["source"], shown.metadata["step"], shown.values, [*shown.next])
            saved = self.thread._saved(point)
            assert told == (point.source, point.step, point.values, [task.name for task in saved]), point.number
            assert shown.parent_config == (None if point.parent is None else configs[point.parent])
            late = [task for task in point.tasks if task.brought and task.open and task.result is None]
            self.check_tasks([*saved, *late], shown, {})
        self.check_live(self.real.live(), configs)

    def check_live(self, shown, configs):
        head = self.thread.head
        if head is None:
            assert shown.metadata is None
            return
        values = self.thread.seen(head)
        for task in head.tasks:
            values = naive.applied(values, task.result or {})
        waiting = [task.name for task in head.tasks if task.result is None]
        assert (shown.config, shown.values, [*shown.next]) == (configs[-1], values, waiting)
        self.check_tasks(head.tasks, shown, head.answers, live=True)

    def check_tasks(self, tasks, shown, answers, *, live=False):
        assert [task.name for task in tasks] == [one.name for one in shown.tasks]
        for task, one in zip(tasks, shown.tasks, strict=True):
            assert one.result == task.result, (task, one)
            error = None if task.result is not None else task.error
            assert (one.error or "").startswith(error or "\0" * (one.error is not None)), (task, one)
            assert [*one.calls] == task.calls, (task, one)
            asked = task.shown if not live else [q for q in task.open if task.result is None and q not in answers]
            self.check_questions(asked, [found.id for found in one.interrupts])
            if task.error is None:
                self.check_questions(task.answered, one.answered)
        if live:
            listed = [q for task in tasks if task.result is None for q in task.open if q not in answers]
            self.check_questions(listed, [found.id for found in shown.interrupts])

    def check_questions(self, asked, found):
        assert len(asked) == len(found), (asked, found)
        ids = self.real.ids
        for one, other in zip(asked, found, strict=True):
            assert ids.setdefault(one, other) == other
        assert len(set(ids.values())) == len(ids)


def adopt(before, after, real):
    """What is left of an operation that was cut short: a first part of its checkpoints; of the step behind the last
    one, whatever was stored, which is what the model says of it.
    """
    history, live = real.history(), real.live()
    assert len(before.points) <= len(history) <= len(after.points)
    found = after.copy()
    found.points = found.points[: len(history)]
    if not found.points:
        return found
    head = found.head
    old = before.points[head.number] if head.number < len(before.points) else None
    listed = {one.id for task in live.tasks for one in task.interrupts}
    if old is not None and any(real.ids.get(one) in listed for one in head.answers if one not in old.answers):
        head.answers = dict(old.answers)
    known = {} if old is None else {task.path: task for task in old.tasks}
    for number, (task, shown) in enumerate(zip(head.tasks, live.tasks, strict=True)):
        prior = known.get(task.path) or task.blank()
        if shown.result is not None:
            assert shown.result == task.result
        elif task.error is not None and shown.error is not None:
            assert shown.error.startswith(task.error)
        elif not (task.result is None and task.open and paused(task, shown, head)):
            assert {*prior.calls} <= {*shown.calls} <= {*task.calls}
            head.tasks[number] = prior
            prior.calls = [*shown.calls]
    return found


def paused(task, shown, head):
    """Whether what is stored of a task that asks is what the model says: not an earlier question of it."""
    waiting = [one for one in task.open if one not in head.answers]
    return len(shown.interrupts) == len(waiting) and len(shown.answered) == len(task.answered)


# --- the test --------------------------------------------------------------------------------------------------------


def perform(operation, thread, real, random):
    """Do it to both; the thread of the model after it."""
    before, thread = thread.copy(), thread.copy()
    thread.ran, real.marks = [], []
    broken = frozenset(name for name in [*thread.plan["names"], "work"] if random.random() < 0.06)
    thread.broken = real.broken = broken
    dies = operation.abrupt and not broken and random.random() < 0.3
    real.saver.left, real.saver.after = (random.randint(1, 4), random.random() < 0.5) if dies else (0, False)
    expected: tuple = ()
    try:
        operation.of_model(thread)
    except tuple(EXPECTED) as error:
        expected = EXPECTED[type(error)]
        if isinstance(error, naive.RefusedError):
            thread = before.copy()
    options = {} if isinstance(operation, Edit) else {"durability": random.choice(["sync", "sync", "async"])}
    raised = None
    try:
        operation.of_real(real, **options)
    except (DurableGraphError, ValueError, ExceptionGroup) as error:
        raised = error
    if real.saver.dead:
        assert isinstance(raised, DiedError)
        real.bury()
        assert not Counter(real.marks) - Counter(thread.ran)
        if isinstance(operation, Edit) and len(real.history()) == len(before.points):
            return before  # all of it or nothing
        return adopt(before, thread, real)
    assert isinstance(raised, expected) if expected else raised is None, raised
    if expected in (EXPECTED[naive.BrokenError], EXPECTED[naive.LostAnswerError]):
        assert not Counter(real.marks) - Counter(thread.ran)
        return adopt(before, thread, real)
    assert sorted(real.marks) == sorted([] if UsageError in expected else thread.ran)
    return thread


def live_through(seed, saver):
    random = Random(seed)
    plan = plans.random_plan(random)
    thread, real = naive.NaiveThread(plan), Real(plan, saver, random)
    done = []
    for number in range(random.randint(5, 10)):
        kind = Input if not thread.points and random.random() < 0.8 else random.choice(OPERATIONS)
        operation = kind(thread, random, number)
        done.append(operation)
        try:
            thread = perform(operation, thread, real, random)
            Comparison(thread, real).check()
        except BaseException as error:
            error.add_note(f"seed {seed}, plan {plan}, in the last of:\n" + "\n".join(map(repr, done)))
            raise


@pytest.mark.parametrize("first", range(0, SEEDS, EACH))
def test_random_histories_in_memory_are_what_the_naive_model_says(first):
    for seed in range(first, first + EACH):
        live_through(seed, mortal(InMemorySaver)())


@pytest.mark.parametrize(
    "first",
    [
        *range(0, ON_DISK, EACH),
        *(pytest.param(first, marks=pytest.mark.slow) for first in range(ON_DISK, SEEDS, EACH)),
    ],
)
def test_random_histories_on_sqlite_are_what_the_naive_model_says(first, tmp_path):
    for seed in range(first, first + EACH):
        with mortal(SqliteSaver)(tmp_path / f"{seed}.db", synchronous="NORMAL") as saver:
            live_through(seed, saver)
