"""The invariants of the core, over the transcript of effects."""

import asyncio
import re

import pytest

from durable_graph import Command
from tests.property.driver import (
    AtRandom,
    Backwards,
    CrashError,
    Disk,
    Driver,
    InOrder,
    check_write_order,
    explore,
    replay,
)
from tests.property.graphs import CASES, make, worker
from tests.property.test_crash_sweep import MODES, play, undisturbed

ALL = MODES | {"custom"}


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_that_follows_from_a_write_comes_before_that_write_is_stored(case, sync):
    def one(choices):
        case.world.clear()
        driver = Driver(case.graph, Disk(), choices, sync=sync, modes=MODES)
        play(case, driver, choices)
        assert any(entry.tokens for entry in driver.transcript if entry.kind == "Emit")
        assert any(entry.tokens for entry in driver.transcript if entry.kind == "Launch")
        check_write_order(driver.transcript, sync=sync)

    explore(one)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_that_a_task_starts_is_shown_before_it_runs(case):
    case.world.clear()
    driver = Driver(case.graph, Disk(), at_once=True, modes={"tasks"})
    play(case, driver, InOrder())
    shown = [entry for entry in driver.transcript if entry.kind in ("Emit", "Launch")]
    first_attempts = [at for at, entry in enumerate(shown) if entry.kind == "Launch" and ", 1, 0.0, " in entry.text]
    assert len(first_attempts) >= 2
    for at in first_attempts:
        assert shown[at - 1].kind == "Emit"
        assert "'triggers'" in shown[at - 1].text


def wide(builder, world):
    for name in "dbca":
        builder.add_node(name, worker(name))
        builder.add_edge("__start__", name)
        builder.add_edge(name, "join")
    builder.add_node("join", worker("join"))


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("case", [*CASES, make(wide)], ids=lambda case: case.name)
def test_the_state_after_each_step_does_not_depend_on_the_order_in_which_tasks_ended(case, sync):
    expected = undisturbed(case)

    def one(choices):
        case.world.clear()
        driver = Driver(case.graph, Disk(), choices, sync=sync, recording=False)
        assert play(case, driver, choices) == expected[0]
        assert driver.disk.trail(case.graph) == expected[1]

    orders = explore(one)
    assert orders == {"chain": 1, "loop": 1, "wide": 192}.get(case.name, orders)


@pytest.mark.parametrize("how", [InOrder(), Backwards(), AtRandom(1), AtRandom(2)], ids=["in order", "back", "1", "2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_scripts_that_get_the_same_replies_do_the_same(case, how):
    case.world.clear()
    driver = Driver(case.graph, Disk(), how, modes=MODES)
    driver.run(case.given)
    twin = replay(driver, case.given)
    assert [(entry.kind, entry.text) for entry in twin] == [(entry.kind, entry.text) for entry in driver.transcript]
    assert twin == driver.transcript


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_scripts_that_resume_the_same_crashed_run_do_the_same(case):
    case.world.clear()
    disk, effects = Disk(), iter(range(1000))
    crash = lambda moment, effect: CrashError() if next(effects) == 14 else None
    with pytest.raises(CrashError):
        play(case, Driver(case.graph, disk, fault=crash), InOrder())
    disk.crash(Backwards())
    driver = Driver(case.graph, disk, modes=MODES)
    driver.run(None)
    assert replay(driver, None) == driver.transcript


# --- one order of events, on every driver ---------------------------------------------------------------------------


def normalised(events):
    """Events without what differs from run to run: ids by order of appearance, no clock."""
    ids = {}
    name = lambda found: ids.setdefault(found.group(), f"id {len(ids)}")
    text = re.sub(
        r"\d{12}\.\d+\.[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|intr_[0-9a-f]{32}", name, repr(events)
    )
    return re.sub(r"'timestamp': '[^']*'", "", text)


def through_sync(case, given, config):
    return list(case.graph.stream(given, config, stream_mode=sorted(ALL)))


def through_async(case, given, config):
    async def main():
        return [event async for event in case.graph.astream(given, config, stream_mode=sorted(ALL))]

    return asyncio.run(main())


def conversation(case, thread, stream):
    """All events of a run and of the answers to its questions."""
    case.world.clear()
    config = {"configurable": {"thread_id": thread}, "run_id": "r", "max_concurrency": 1}
    events = stream(case, case.given, config)
    while asked := case.graph.get_state(config).interrupts:
        events += stream(case, Command(resume={asked[0].id: case.answer(asked[0])}), config)
    return events


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "retry"], ids=lambda case: case.name)
def test_events_come_in_one_order_which_is_the_same_on_every_driver(case):
    scripted = Driver(case.graph, Disk(), modes=ALL)
    case.world.clear()
    play(case, scripted, InOrder())
    seen = scripted.events
    text = normalised(seen).replace("thread_id': 't'", "thread_id': ''")
    for stream in (through_sync, through_async):
        found = conversation(case, f"events {stream.__name__}", stream)
        assert len(found) == len(seen)
        assert normalised(found).replace(f"thread_id': 'events {stream.__name__}'", "thread_id': ''") == text
