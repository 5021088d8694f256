"""Replay and fork from every checkpoint: the engine against graphs that are run by hand.

A cell is a graph, a thread that is finished or waits, one of its checkpoints, and one of three ways to go on from
there: replay it, edit it and go on, give its question another answer. Where that waits, the question is answered then.
`pytest -s` prints the table of all cells.
"""

from dataclasses import dataclass

import pytest

from durable_graph import START, Command
from durable_graph.errors import UnknownInterruptError
from tests.behaviour.by_hand import GRAPHS, applied, engine_graph, hand_run, marks_of, name_of
from tests.behaviour.small_graphs import Marks, dump, thread

# Graphs inside nodes have a table of their own: test_subgraph_matrix.
SHAPES = tuple(GRAPHS)
KINDS = ("finished", "waiting")
WAYS = ("replay", "edit", "other answer")
EDITED = {"other": "right"}
ROW = "{:<10} {:<9} {:<30} {:<13} {:<28} {:<52} {}"


@dataclass
class Expected:
    """made: the source of every new checkpoint.   trail: values and tasks of each.

    first, last: what the call, and the answer to what it asked, give (`last` is None where it asked nothing).
    """

    made: list
    trail: list
    first: object
    last: object


def by_hand(hand, kind):
    """Values and tasks of every checkpoint of the thread, oldest first."""
    answers = {"go?": "first"} if kind == "finished" else {}
    return hand_run(hand, {"log": []}, [(START, hand.given)], answers).trail


def asks_something(hand, values, tasks):
    """Whether one of these tasks asks."""
    run = hand_run(hand, values, tasks, {})
    return bool(run.waits) and len(run.trail) == 1


def node_before(trail, at):
    """As which node an edit of a checkpoint counts, and whether it has to be named as several ran."""
    ran = {name_of(task) for task in trail[at - 1][1]} if at else {START}
    return max(ran), len(ran) > 1


def expected(hand, kind, at, way, *, head):
    """What must come of a cell; None where the call is refused."""
    trail = by_hand(hand, kind)
    values, tasks = trail[at]
    answers, made = {}, ["fork"] if tasks else []
    in_place = head and kind == "waiting"
    if way == "other answer":
        if not asks_something(hand, values, tasks):
            return None
        answers = {"go?": "other"}
    known = marks_of(tasks) if in_place else ()
    if way == "edit":
        values = applied(values, EDITED)
        tasks = hand.leads[node_before(trail, at)[0]](values)
        known = [one for one in marks_of(tasks) if one in known]
        made = ["update"]
    elif in_place:
        made = []
    first = hand_run(hand, values, tasks, answers, known)
    ahead = first.trail if made else first.trail[1:]
    last = None
    if first.waits:
        values, tasks = first.trail[-1]
        last = hand_run(hand, values, tasks, {"go?": "again"}, marks_of(tasks))
        ahead = ahead + last.trail[1:]
    return Expected([*made, *["loop"] * (len(ahead) - len(made))], ahead, first, last)


class Journey:
    """One thread, looked at through one graph object and travelled with another."""

    def __init__(self, shape, kind, face, backend, name="t"):
        self.hand, self.kind, self.face = GRAPHS[shape], kind, face
        self.marks, self.config = Marks(), thread(name)
        builder = engine_graph(self.hand, self.marks)
        self.saver = backend.make()
        self.graph, self.other = builder.compile(self.saver), builder.compile(backend.reopen())
        self.trail = by_hand(self.hand, kind)
        face.invoke(self.graph, self.hand.given, self.config)
        if kind == "finished":
            face.invoke(self.graph, Command(resume="first"), self.config)
        self.original = [one.config for one in reversed(self.history())]

    def history(self):
        return self.face.get_state_history(self.graph, self.config)

    def rows(self):
        _, _, parts = dump(self.saver, self.config["configurable"]["thread_id"])
        return {row for part in parts for row in part}

    def call(self, given, config):
        """Values, questions, and what ran."""
        self.marks.seen.clear()
        values = self.face.invoke(self.other, given, config)
        asked = [one.value for one in values.pop("__interrupt__", ())]
        return values, asked, sorted(self.marks.seen)

    def go_on(self, at, way):
        config = self.original[at]
        if way == "other answer":
            return self.call(Command(resume="other"), config)
        if way == "edit":
            node, named = node_before(self.trail, at)
            self.marks.seen.clear()
            config = self.face.update_state(self.other, config, EDITED, as_node=node if named else None)
            assert self.marks.seen == []
        return self.call(None, config)

    def cell(self, at, way, *, head):
        """Everything that must hold in one cell. The answer is its row of the table."""
        wanted = expected(self.hand, self.kind, at, way, head=head)
        before, rows = self.history(), self.rows()
        origin = next(one for one in before if one.config == self.original[at])
        assert (origin.values, [*origin.next]) == (self.trail[at][0], [name_of(one) for one in self.trail[at][1]])
        place = (self.hand.name, self.kind, f"{at} (next {', '.join(origin.next) or 'nothing'})"[:30], way)
        if wanted is None:
            with pytest.raises(UnknownInterruptError):
                self.go_on(at, way)
            assert (self.history(), self.rows()) == (before, rows)
            return ROW.format(*place, "", "", "refused: nothing is asked there")
        values, asked, ran = self.go_on(at, way)
        assert (values, asked, ran) == (wanted.first.values, wanted.first.waits, sorted(wanted.first.ran))
        ran_then = []
        if wanted.last is not None:
            values, asked, ran_then = self.call(Command(resume="again"), self.config)
            assert (values, asked, ran_then) == (wanted.last.values, [], sorted(wanted.last.ran))
        self.check_branch(before, rows, origin, wanted, head=head)
        return ROW.format(
            *place, " ".join(wanted.made), " ".join([*ran, *(["|"] if ran_then else []), *ran_then]), values
        )

    def check_branch(self, before, rows, origin, wanted, *, head):
        """The new checkpoints follow the one that was addressed; nothing of what was there has changed."""
        after = self.history()
        new, old = after[: len(after) - len(before)], after[len(after) - len(before) :]
        if head and self.kind == "waiting":  # its step was closed: what it did is told from now on
            assert [one._replace(tasks=(), interrupts=()) for one in old] == [
                one._replace(tasks=(), interrupts=()) for one in before
            ]
        else:
            assert old == before
            assert [repr(one) for one in old] == [repr(one) for one in before]
        assert rows <= self.rows()
        made = new[::-1]
        assert [one.metadata["source"] for one in made] == wanted.made
        shown = [(one.values, [*one.next]) for one in made]
        assert shown == [(values, [name_of(task) for task in tasks]) for values, tasks in wanted.trail]
        configs = [origin.config, *(one.config for one in made)]
        assert [one.parent_config for one in made] == configs[:-1]
        now = self.face.get_state(self.graph, self.config)
        if made:
            assert now.config == made[-1].config
            assert self.face.get_state_history(self.graph, now.config)[: len(made)] == new
        assert (now.next, now.interrupts) == ((), ())


HEAD = ROW.format("graph", "thread", "from checkpoint", "way", "new checkpoints", "ran | after the answer", "end")


def told(rows):
    print("", HEAD, *rows, sep="\n")  # noqa: T201 - the table is what a person asked for with -s


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_cell_on_a_thread_of_its_own_goes_as_by_hand(shape, kind, face, backend):
    rows = []
    count = len(by_hand(GRAPHS[shape], kind))
    for at in range(count):
        for way in WAYS:
            journey = Journey(shape, kind, face, backend, f"{at} {way}")
            rows.append(journey.cell(at, way, head=at == count - 1))
    told(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_cell_on_one_thread_with_all_branches_of_the_others_goes_as_by_hand(shape, kind, face, backend):
    journey = Journey(shape, kind, face, backend)
    journey.call(None, journey.original[0])  # from here on the whole of the first branch is past
    journey.call(Command(resume="again"), journey.config)
    for at in range(len(journey.trail)):
        for way in WAYS:
            journey.cell(at, way, head=False)
