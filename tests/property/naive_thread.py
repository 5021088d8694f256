"""A thread as a naive model keeps it: every checkpoint in memory, with full values; nothing shared, nothing encoded.

It says what each operation means, step by step, and knows nothing of lanes, rows, commits or deltas. Its graph is a
plan of `plain_graphs`.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from durable_graph import END, START
from tests.property.plain_graphs import behave, leads, route

LIMIT = 4
"""Supersteps that one call may take."""


# --- what the model keeps --------------------------------------------------------------------------------------------


@dataclass
class Task:
    """identity: what its questions are known by.   result: what it wrote; None while it has not finished.

    answered, open: its questions; shown: those that were open the last time it waited.   calls: what it recorded.
    brought: a Command brought it, later than its checkpoint.
    """

    name: str
    path: str
    arg: Any
    identity: Any
    result: Any = None
    routes: list[Any] = field(default_factory=list)
    answered: list[Any] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    error: str | None = None
    brought: bool = False

    def blank(self):
        return Task(self.name, self.path, self.arg, self.identity, brought=self.brought)


@dataclass
class Point:
    """A checkpoint. origin: the point whose identity its tasks have.   command: writes and targets brought later.

    edited: an edit made it, and tasks of the step before it stayed.
    """

    number: int
    parent: int | None
    source: str
    step: int
    values: dict[str, Any]
    tasks: list[Task]
    arrived: dict[Any, set[str]]
    ran: list[str]
    origin: int | None = None
    answers: dict[Any, Any] = field(default_factory=dict)
    command: list[dict[str, Any]] = field(default_factory=list)
    edited: bool = False


class RefusedError(Exception):
    """The call is refused and nothing changes."""


class BrokenError(Exception):
    """A node failed."""


class LimitError(Exception):
    """Out of supersteps."""


class LostAnswerError(Exception):
    """A node asks something else than it was asked about."""


class WaitsError(Exception):
    """A node asks and has no answer."""


def applied(values, writes):
    """The values after writes; the old ones stay as they are."""
    new = dict(values)
    for key, value in writes.items():
        new[key] = value if key == "note" else new[key] + value
    return new


class NaiveThread:
    """points: all checkpoints, oldest first; the last one is the head.   ran: what ran since somebody cleared it.
    broken: nodes that fail.
    """

    def __init__(self, plan):
        self.plan = plan
        self.points = []
        self.ran = []
        self.broken = frozenset()

    @property
    def head(self):
        return self.points[-1] if self.points else None

    def copy(self):
        return deepcopy(self)

    # --- running ---

    def invoke(self, given, at=None, *, abandon=False):
        """New input, at the head or at an old checkpoint."""
        base = self.head if at is None else self.points[at]
        if base is self.head and base is not None and base.tasks and not abandon:
            raise RefusedError
        self._input(base, given)
        if START not in self.plan["routers"]:  # the input and what follows from it are one step
            self._perform(self.head, self.head.tasks[0])
            self._close()
        self._run()

    def resume(self, answers=None, at=None, update=None, goto=()):
        """Go on, with answers, at the head or at an old checkpoint."""
        base = self.head if at is None else self.points[at]
        command = {"update": update or {}, "goto": list(goto)} if update or goto else None
        if (base is None and command is None) or (answers and not base.tasks):
            raise RefusedError
        if base is None:
            self._add(None, "update", -1, applied({"log": [], "total": 0}, command["update"]), goto, {}, [])
            self._run()
            return
        if not base.tasks:
            if command is not None:
                self._add(base, "update", base.step + 1, applied(base.values, command["update"]), goto, {}, base.ran)
                self._run()
            return
        if base is not self.head:
            self._fork(base)
        self.head.answers |= answers or {}
        if command is not None:
            self._bring(self.head, command)
        self._run()

    def asked_at(self, at):
        """Questions that an answer may be for."""
        point = self.head if at is None else self.points[at]
        if point is None or not point.tasks:
            return []
        if point is self.head:
            return [one for task in point.tasks if task.result is None for one in task.open if one not in point.answers]
        return list(dict.fromkeys(one for task in self._saved(point) for one in (*task.answered, *task.shown)))

    def _bring(self, point, command):
        if point.command and "note" in command["update"]:
            for earlier in point.command:
                earlier["update"].pop("note", None)
        point.command.append(command)
        pulled = {task.name for task in point.tasks if task.arg is None}
        sent = [task for task in point.tasks if task.arg is not None]
        place = self._origin(point)
        added = [Task(name, name, None, (place, name), brought=True) for name in command["goto"] if name not in pulled]
        point.tasks = (
            sorted([*(task for task in point.tasks if task.arg is None), *added], key=lambda one: one.name) + sent
        )

    @staticmethod
    def _origin(point):
        return point.number if point.origin is None else point.origin

    def _input(self, base, given):
        step, parent, values = (
            (-1, None, {"log": [], "total": 0}) if base is None else (base.step + 1, base, base.values)
        )
        self._add(parent, "input", step, values, [(START, given)], {}, [START])

    def _fork(self, base):
        self._copy(base, base, base.step + 1)

    def _copy(self, base, parent, step):
        """A copy of a checkpoint, which takes nothing along of what happened since; its questions are the same ones."""
        targets = self._targets(base)
        point = self._add(parent, "fork", step, base.values, targets, base.arrived, base.ran, origin=self._origin(base))
        for task, original in zip(point.tasks, self._saved(base), strict=True):
            task.identity = original.identity

    @staticmethod
    def _saved(point):
        """The tasks of a checkpoint as it was saved."""
        return [task for task in point.tasks if not task.brought]

    def _targets(self, point):
        return [task.name if task.arg is None else (task.name, task.arg) for task in self._saved(point)]

    def _add(self, parent, source, step, values, targets, arrived, ran, origin=None):
        number = len(self.points)
        names = sorted({target for target in targets if not isinstance(target, tuple)})
        sends = [target for target in targets if isinstance(target, tuple)]
        place = number if origin is None else origin
        tasks = [Task(name, name, None, (place, name)) for name in names]
        for index, (name, arg) in enumerate(sends):
            tasks.append(Task(name, f"{name}#{index}", arg, (place, f"{name}#{index}")))
        kept = {barrier: set(there) for barrier, there in arrived.items()}
        point = Point(
            number,
            None if parent is None else parent.number,
            source,
            step,
            dict(values),
            tasks,
            kept,
            list(ran),
            origin,
        )
        self.points.append(point)
        return point

    def seen(self, point):
        """The values that the step of a point reads: with what a Command brought."""
        values = point.values
        for one in point.command:
            values = applied(values, one["update"])
        return values

    def _run(self):
        steps = 0
        while self.head.tasks:
            point = self.head
            ready = [task for task in point.tasks if task.result is None and self._may_run(point, task)]
            if ready and ready[0].name != START:
                if steps >= LIMIT:
                    raise LimitError
                steps += 1
            failed = [task for task in ready if not self._perform(point, task)]
            if failed:
                raise LostAnswerError if any("Mismatch" in task.error for task in failed) else BrokenError
            if any(task.result is None for task in point.tasks):
                return
            self._close()

    @staticmethod
    def _may_run(point, task):
        return not task.open or any(one in point.answers for one in task.open)

    def _perform(self, point, task):
        """Run a task; False when it failed."""
        if task.name == START:
            task.result = task.arg
            task.routes = list(route(self.plan, START, applied(self.seen(point), task.arg)))
            return True
        seen = self.seen(point)
        self.ran.append(task.name)
        conversation = Conversation(self, point, task)
        try:
            result = behave(
                self.plan, task.name, seen if task.arg is None else task.arg, conversation.ask, conversation.once
            )
        except WaitsError:
            task.open, task.answered, task.error = conversation.open, conversation.answered, None
            task.shown = task.open
            return True
        except LostAnswerError:
            task.error = "InterruptMismatchError"
            return False
        if task.name in self.broken:
            task.error = f"ValueError('broken {task.name}')"
            return False
        task.result, task.answered, task.open, task.error = result, conversation.answered, [], None
        task.routes = list(route(self.plan, task.name, applied(seen, result)))
        return True

    def _close(self):
        point = self.head
        values = self.seen(point)
        for task in point.tasks:
            values = applied(values, task.result)
        targets, arrived = self._ahead(point.tasks, point.arrived)
        self._add(point, "loop", point.step + 1, values, targets, arrived, [task.name for task in point.tasks])

    def _ahead(self, tasks, arrived):
        """Where finished tasks lead."""
        arrived = {barrier: set(there) for barrier, there in arrived.items()}
        targets = [target for task in tasks for target in (*leads(self.plan, task.name), *task.routes)]
        for barrier in self.plan["barriers"]:
            sources, target = barrier
            there = arrived.setdefault(barrier, set())
            there |= {task.name for task in tasks} & set(sources)
            if there == set(sources):
                targets.append(target)
                there.clear()
        return targets, arrived

    # --- editing ---

    def edit(self, values, as_node=None, at=None):
        """`update_state`."""
        base = self.head if at is None else self.points[at]
        past = base is not self.head
        if as_node == "__input__":
            self._input(base, values)
            return
        if as_node == "__copy__":
            if base is None:
                raise RefusedError
            self._copy(base, None if base.parent is None else self.points[base.parent], base.step)
            return
        if base is None:
            if as_node == END:
                raise RefusedError
            name = as_node or START
            values = applied({"log": [], "total": 0}, values)
            targets, arrived = self._ahead([self._as_task(name, {}, values)], {})
            self._add(None, "update", 0, values, targets, arrived, [name])
            return
        ran = sorted(set(base.ran))
        if as_node is None and len(ran) > 1:
            raise RefusedError
        Edit(self, base, as_node or (ran or [START])[0], values, past=past).apply()

    def _as_task(self, name, writes, state):
        found = Task(name, name, None, None, writes)
        found.routes = list(route(self.plan, name, state))
        return found


class Conversation:
    """What one attempt of a task asks and records."""

    def __init__(self, thread, point, task):
        self.thread, self.point, self.task = thread, point, task
        self.known = [*task.answered, *task.open]
        self.counts = {}
        self.answered, self.open = [], []

    def ask(self, question):
        count = self.counts[question] = self.counts.get(question, 0) + 1
        found = (self.task.identity, question, count)
        answers = self.point.answers
        if found not in answers and found not in self.known:
            waiting = [one for one in self.known if one in answers and one not in self.answered]
            if waiting:
                place = len(self.answered)
                if (
                    not (self.point.edited or any(one["update"] for one in self.point.command))
                    or self.known[place] != waiting[0]
                ):
                    raise LostAnswerError
                found = waiting[0]
        if found in answers:
            self.answered.append(found)
            return answers[found]
        self.open.append(found)
        raise WaitsError

    def once(self, name):
        if name not in self.task.calls:
            self.task.calls.append(name)
            self.thread.ran.append(f"once {name}")
        return f"once {name}"


class Edit:
    """An edit of a thread that has checkpoints."""

    def __init__(self, thread, base, name, values, *, past):
        self.thread, self.base, self.name, self.values, self.past = thread, base, name, values, past
        self.waiting = [task.blank() for task in thread._saved(base)] if past else base.tasks
        self.before = base.values if past else thread.seen(base)

    def apply(self):
        thread, base, name = self.thread, self.base, self.name
        ends = name == END
        edited = Task(name, name, None, None, self.values or {})
        if not ends:
            edited.routes = list(route(thread.plan, name, applied(self.before, self.values)))
        led, arrived = ([], {}) if ends else thread._ahead([edited], base.arrived)
        place = self._place()
        again = place is None and not ends and name in base.ran and name in thread.plan["routers"]
        stay = [] if ends else self._staying(place, led, again=again)
        over = [task for task in self.waiting if task not in stay and task is not place and task.result is not None]
        if again:
            over = [task for task in over if task.arg is None]
        late, arrived = ([], {}) if ends else thread._ahead(over, arrived)
        if not ends:
            stay += [
                t
                for t in self.waiting
                if t.arg is None and t.name in late and t.result is None and t is not place and t not in stay
            ]
        values = self.before
        for task in over:
            values = applied(
                values, {key: one for key, one in task.result.items() if key != "note" or key not in self.values}
            )
        values = applied(values, self.values)
        if place is not None and not self.past:
            place.result, place.answered, place.error = dict(self.values), [], None
        sends = [(task.name, task.arg) for task in stay if task.arg is not None and not again]
        pulled = [task.name for task in stay if task.arg is None]
        ran = base.ran if ends else [name]
        point = thread._add(base, "update", base.step + 1, values, [*pulled, *sends, *led, *late], arrived, ran)
        if stay and not self.past:
            self._keep(point, stay, again=again)

    def _place(self):
        """The waiting task that the edit answers for."""
        same = [task for task in self.waiting if task.name == self.name]
        return next((task for task in same if task.result is None), same[0] if same else None)

    def _staying(self, place, led, *, again):
        if place is not None:
            return [task for task in self.waiting if task is not place and task.result is None]
        sent = [target for target in led if isinstance(target, tuple)]
        found = [task for task in self.waiting if task.arg is None and task.name in led]
        sends = [task for task in self.waiting if task.arg is not None]
        if again:
            return found + [task for task, target in zip(sends, sent, strict=False) if (task.name, task.arg) == target]
        return found + [task for task in sends if task.name != START]

    def _keep(self, point, stay, *, again):
        """Tasks that stay keep all that is known of them; the others are new, whatever had their path before."""
        base = self.base
        point.origin, point.edited = self.thread._origin(base), True
        kept_sends = [task for task in stay if task.arg is not None]
        for task in point.tasks:
            same = [one for one in stay if (one.path == task.path if again or task.arg is None else one in kept_sends)]
            if task.arg is not None and not again:
                index = int(task.path.rpartition("#")[2])
                same = kept_sends[index : index + 1]
            if not same:
                task.identity = (point.origin, f"{task.path}##{point.step}")
                continue
            old = same[0]
            for name in ("identity", "result", "routes", "answered", "open", "shown", "calls", "error"):
                setattr(task, name, deepcopy(getattr(old, name)))
            mine = {*task.answered, *task.shown}
            point.answers |= {one: answer for one, answer in base.answers.items() if one in mine}
