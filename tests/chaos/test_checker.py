"""The checker sees each kind of broken promise: stories that are forged, each in one place."""

from dataclasses import replace

import pytest

from tests.chaos.checker import NEXT, SECOND, Point, Run, Story, violations
from tests.chaos.graphs import PARTS, STEPS, came_to
from tests.chaos.ledger import Line


def tasks(step):
    return [f"{step}#{index}" for index in range(PARTS)] if step == "part" else [step]


def good():
    """Two runs of one thread, without any trouble."""
    story, state, at, seq, before = Story([], []), {}, 0, 0, None
    points = []
    for run in ("one", "two"):
        for number, step in enumerate(STEPS, 1):
            for task in tasks(step):
                story.lines.append(Line(at := at + SECOND, 1, "start", run, number, task))
            if step == "pay":
                story.lines.append(Line(at := at + SECOND, 1, "body", run, number, "charge key"))
                story.lines.append(Line(at := at + SECOND, 1, "after", run, number, "charge"))
        for due in NEXT:
            seq += 1
            points.append(Point(f"{seq:012d}.1.a", before, seq - 2, run, due))
            before = points[-1].id
        state = came_to(state, run, len(story.runs))
        story.runs.append(Run(run, "t", len(story.runs), "done", state, before, float(seq - 5), float(seq)))
    story.points, story.lanes, story.owners = {"t": points}, {"t": [""]}, {"t": None}
    return story


def line_of(story, **wanted):
    [place] = [
        place
        for place, line in enumerate(story.lines)
        if all(getattr(line, name) == value for name, value in wanted.items())
    ]
    return place


def again(story, pid=2, **wanted):
    """The same thing is said once more, at the end, by another process."""
    last = story.lines[-1]
    story.lines.append(story.lines[line_of(story, **wanted)]._replace(at=last.at + 1, pid=pid))


def swapped(story, place, **changes):
    points = story.points["t"]
    points[place] = points[place]._replace(**changes)


def run_again(story, place, **changes):
    story.runs[place] = story.runs[place]._replace(**changes)


def stored(story, what):
    """A look into the store found the result of a task while its sibling ran; the task starts once more."""
    place = line_of(story, run="one", name="part#3")
    at = story.lines[place].at
    story.lines.insert(place + 1, Line(at + 1, 9, "stored", "one", 0, "part#1"))
    story.lines.insert(place + 2, Line(at + 2, 2, "start", "one", 5, what))


def lost_step(story):
    del story.points["t"][5]
    swapped(story, 5, parent=story.points["t"][4].id)


FORGED = {
    "run one is failed: why": lambda story: run_again(story, 0, status="failed", error="why"),
    "run two is waiting": lambda story: run_again(story, 1, status="waiting"),
    "run two came to another state; wrong: total": lambda story: run_again(
        story, 1, state={**story.runs[1].state, "total": 0}
    ),
    "began before one had ended": lambda story: run_again(story, 1, started=1.0),
    "ran before one was through": lambda story: story.lines.insert(0, Line(1, 1, "start", "two", 1, "open")),
    "pay was started again by 2 after nap had begun": lambda story: again(story, run="one", what="start", name="pay"),
    "is over, but never started join": lambda story: story.lines.pop(line_of(story, run="one", name="join")),
    "part#1 was started again by 2 after its result was stored": lambda story: stored(story, "part#1"),
    "charge was done again by 2 after it was recorded": lambda story: again(story, run="two", what="body"),
    "the idempotency key of charge changed": lambda story: story.lines.insert(
        0, Line(1, 1, "body", "one", 2, "charge other")
    ),
    "thread t has the runs ['one']": lambda story: story.points.update(t=story.points["t"][: len(NEXT)]),
    "run one has the steps": lost_step,
    "says that it ended at elsewhere": lambda story: run_again(story, 0, checkpoint="elsewhere"),
    "has the lanes ['', '']": lambda story: story.lanes.update(t=["", ""]),
    "is still held by somebody": lambda story: story.owners.update(t="somebody"),
    "has the heads": lambda story: swapped(story, 7, parent=story.points["t"][5].id),
    "is gone": lambda story: swapped(story, 7, parent="nowhere"),
    "cannot come after": lambda story: swapped(story, 3, id="000000000004.1.9"),
    "000000000008.1.a follows": lambda story: swapped(story, 7, parent=story.points["t"][5].id),
    "comes after step": lambda story: swapped(story, 7, step=5),
}


def test_a_good_story_breaks_no_promise():
    assert violations(good()) == []


@pytest.mark.parametrize("told", FORGED)
def test_a_broken_promise_is_told(told):
    story = good()
    FORGED[told](story)
    assert [text for text in violations(story) if told in text], violations(story)


def test_a_task_whose_siblings_result_is_stored_may_start_again():
    story = good()
    stored(story, "part#2")
    assert violations(story) == []


def late(story, frozen_at, thawed_at, said_at):
    """Process 2 was frozen, and says after it what others had long done."""
    known = story.lines[line_of(story, run="two", name="nap")].at
    spans = [(frozen_at, "frozen"), (thawed_at, "thawed")]
    story.lines += [Line(known + int(at * SECOND), 2, what) for at, what in spans]
    story.lines.append(Line(known + int(said_at * SECOND), 2, "start", "two", 2, "pay"))
    return violations(story)


def test_who_was_frozen_is_excused_for_what_he_missed_and_for_nothing_else():
    assert late(good(), -1, 20, 20.5) == []
    assert len(late(good(), 1, 20, 20.5)) == 1, "it was known before he was frozen"
    assert len(late(good(), -1, 20, 23)) == 1, "he has had time to see it"


def test_who_could_not_reach_the_database_is_excused_too():
    story = good()
    known = story.lines[line_of(story, run="two", name="nap")].at
    story.lines += [
        Line(known - 1, 0, "away"),
        Line(known + 20 * SECOND, 0, "back"),
        Line(known + 21 * SECOND, 2, "start", "two", 2, "pay"),
    ]
    assert violations(story) == []
    story.lines[-1] = story.lines[-1]._replace(at=known + 30 * SECOND)
    assert len(violations(story)) == 1


def test_who_saw_that_he_stood_still_is_excused_too():
    story = good()
    known = story.lines[line_of(story, run="two", name="nap")].at
    said = Line(known + 3 * SECOND, 2, "start", "two", 2, "pay")
    story.lines += [said, Line(known + 4 * SECOND, 2, "stalled", name="4.5")]
    assert violations(story) == []
    assert violations(replace(story, lines=story.lines[:-1])) != []
