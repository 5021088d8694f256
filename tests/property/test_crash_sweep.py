"""Every crash point times every completion order: a run that died anywhere ends as if it had not."""

from itertools import count

import pytest

from durable_graph import Command
from durable_graph.core.opening import unfinished
from durable_graph.errors import StorageError
from tests.property.driver import AtRandom, Backwards, CrashError, Disk, Driver, InOrder, explore
from tests.property.graphs import CASES, ON_ITSELF

MODES = frozenset({"values", "updates", "tasks", "checkpoints", "debug"})


def play(case, driver, human):
    """What a caller does who wants the end: start or go on, then answer one question after the other."""
    stored = driver.disk.head()
    if stored is not None and not unfinished(stored):
        return stored.values
    outcome = driver.run(case.given if stored is None else None)
    while outcome.interrupts:
        asked = outcome.interrupts[human.pick(len(outcome.interrupts))]
        outcome = driver.run(Command(resume={asked.id: case.answer(asked)}))
    return outcome.values


def undisturbed(case):
    """The final state and the history of a run that nothing befell."""
    case.world.clear()
    driver = Driver(case.graph, Disk())
    values = play(case, driver, InOrder())
    return values, driver.disk.trail(case.graph)


def go_on(case, disk, before, how, **options):
    """Resume in a new process. What was flushed must not run again. `before`: what was executed; grows."""
    finished, step = disk.finished()
    known = {place for place in before if place[0] <= step} | finished
    driver = Driver(case.graph, disk, how, **options)
    try:
        return play(case, driver, how)
    finally:
        assert not known.intersection(driver.executed), "a task whose result was flushed ran again"
        before += driver.executed


def once(error, moment, at):
    """A fault: `error` at one moment of the effect with this number."""
    effects = count()
    return lambda when, effect: error("now") if when == moment and next(effects) == at else None


@pytest.mark.parametrize(("sync", "eager"), [(True, True), (False, False)], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_that_crashed_anywhere_in_any_order_ends_in_the_uncrashed_state(case, sync, eager, capsys):
    expected = undisturbed(case)
    crashes = 0

    def one(choices):
        nonlocal crashes
        case.world.clear()
        crash = lambda moment, effect: CrashError() if choices.pick(2) else None
        how = {"sync": sync, "eager": eager, "at_once": not eager}
        driver = Driver(case.graph, Disk(), choices, fault=crash, recording=False, **how)
        try:
            values = play(case, driver, choices)
        except CrashError:
            crashes += 1
            driver.disk.crash(choices)
            order = Backwards() if crashes % 2 else InOrder()
            values = go_on(case, driver.disk, driver.executed, order, recording=False, **how)
        assert (values, driver.disk.trail(case.graph)) == expected

    runs = explore(one)
    assert crashes > 20
    with capsys.disabled():
        print(f"\n{case.name}, {'sync' if sync else 'async'}: {crashes} crash points, {runs} runs", end=" ")  # noqa: T201 - the figure is asked for


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_that_crashes_again_and_again_ends_in_the_uncrashed_state(case, seed):
    expected = undisturbed(case)
    case.world.clear()
    accidents = AtRandom(seed)
    disk, before, crash = Disk(), [], lambda moment, effect: CrashError() if not accidents.pick(12) else None
    for _ in range(50):
        options = {name: accidents.pick(2) == 0 for name in ("sync", "eager", "at_once")}
        try:
            values = go_on(case, disk, before, accidents, fault=crash, **options)
        except CrashError:
            disk.crash(accidents)
            continue
        assert (values, disk.trail(case.graph)) == expected
        return
    pytest.fail("fifty crashes and no end: these accidents are too many for this graph")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("eager", [True, False], ids=["started at once", "started when due"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageError], ids=lambda error: error.__name__)
@pytest.mark.parametrize("case", [*CASES, ON_ITSELF], ids=lambda case: case.name)
def test_a_run_that_was_stopped_at_any_effect_goes_on_and_ends_in_the_same_state(case, error, eager, moment):
    expected = undisturbed(case)
    at, stopped = 0, True
    while stopped:
        case.world.clear()
        driver = Driver(case.graph, Disk(), eager=eager, at_once=not eager, modes=MODES, fault=once(error, moment, at))
        try:
            values = play(case, driver, InOrder())
            stopped = False
        except error:
            driver.disk.unflushed = []
            values = go_on(case, driver.disk, driver.executed, InOrder())
        assert (values, driver.disk.trail(case.graph)) == expected
        at += 1
    assert at > 10
