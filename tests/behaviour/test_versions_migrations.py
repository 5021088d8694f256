"""`migrate_state`: what older versions of the code stored becomes a state of today when it is read."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import START, Command, StateGraph, interrupt
from durable_graph.errors import (
    InvalidGraphError,
    InvalidValueError,
    MigrationError,
    UnserializableValueError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel
from tests.behaviour.two_versions import CFG, asks, new_keys, old_keys

# --- migrate_state ---------------------------------------------------------------------------------------------------


class Total(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: int


def counting(seen):
    """old state -> new state: adds a key, and says how often it was called."""

    def migrate(values, version):
        seen.append(version)
        return {**values, "total": len(values.get("log", []))}

    return migrate


def version_one(saver):
    return chain(a=says("a"), ask=asks("?")).compile(saver, version="1")


def version_two(saver, migrate, ask=None):
    return chain(Total, a=says("a"), ask=ask or asks("?")).compile(saver, version="2", migrate_state=migrate)


def test_it_is_called_with_values_and_version_and_what_it_returns_is_the_state(face, backend):
    seen, given = [], []

    def ask(state):
        given.append(dict(state))
        return {"log": [interrupt("?")]}

    face.invoke(version_one(backend.make()), {"log": ["in"]}, CFG)
    graph = version_two(backend.reopen(), counting(seen), ask)
    assert face.get_state(graph, CFG).values == {"log": ["in", "a"], "total": 2}
    assert seen == ["1"]
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["in", "a", "X"], "total": 2}
    assert seen == ["1", "1"]
    assert given == [{"log": ["in", "a"], "total": 2}]


def test_once_a_checkpoint_has_the_new_values_it_is_not_called_any_more(face, backend):
    seen = []
    face.invoke(version_one(backend.make()), {}, CFG)
    face.invoke(version_two(backend.reopen(), counting(seen)), Command(resume="X"), CFG)
    seen.clear()
    graph = version_two(backend.reopen(), counting(seen))
    assert face.get_state(graph, CFG).values == {"log": ["a", "X"], "total": 1}
    face.invoke(graph, {"log": ["more"]}, CFG)
    assert seen == []
    plain = chain(Total, a=says("a"), ask=asks("?")).compile(backend.reopen(), version="2")
    assert face.get_state(plain, CFG).values["total"] == 1


def test_a_thread_of_the_same_version_is_never_migrated(face, backend):
    seen = []
    graph = version_two(backend.make(), counting(seen))
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume="X"), CFG)
    face.get_state_history(graph, CFG)
    assert seen == []


def test_a_thread_without_a_version_is_migrated_from_none(face, backend):
    seen = []
    face.invoke(chain(a=says("a"), ask=asks("?")).compile(backend.make()), {}, CFG)
    face.get_state(version_two(backend.reopen(), counting(seen)), CFG)
    assert seen == [""]


def test_what_is_stored_stays_and_history_is_migrated_as_it_is_read(face, backend):
    saver, seen = backend.make(), []
    face.invoke(version_one(saver), {"log": ["in"]}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), counting(seen))
    assert [shown.values["total"] for shown in face.get_state_history(graph, CFG)] == [2, 1, 0]
    assert len(seen) == 3
    assert dump(saver) == rows
    face.invoke(graph, Command(resume="X"), CFG)
    old = face.get_state_history(version_one(saver), CFG)
    assert [shown.values for shown in old[-3:]] == [{"log": ["in", "a"]}, {"log": ["in"]}, {"log": []}]


def test_it_may_change_values_in_place_without_touching_what_is_stored(face, backend):
    saver = backend.make()

    def migrate(values, version):
        values["log"].append("in place")
        values["total"] = 1
        return values

    face.invoke(version_one(saver), {}, CFG)
    graph = version_two(backend.reopen(), migrate)
    for _ in range(2):
        assert face.get_state(graph, CFG).values["log"] == ["a", "in place"]
    assert face.invoke(graph, Command(resume="X"), CFG)["log"] == ["a", "in place", "X"]
    assert face.get_state(graph, CFG).values == {"log": ["a", "in place", "X"], "total": 1}


def test_a_key_that_it_leaves_out_is_gone(face, backend):
    def migrate(values, version):
        return {"total": len(values["log"])}

    face.invoke(version_one(backend.make()), {"log": ["in"], "answer": "x"}, CFG)
    graph = version_two(backend.reopen(), migrate)
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["X"], "total": 2}
    assert face.get_state(graph, CFG).values == {"log": ["X"], "total": 2}
    assert face.get_state(version_one(backend.reopen()), CFG).values == {"log": ["X"]}


def test_it_sees_the_names_of_today(face, backend):
    seen = []
    face.invoke(old_keys(backend.make(), version="1"), {}, CFG)
    graph = new_keys(backend.reopen(), version="2", migrate_state=lambda values, version: seen.append(values) or values)
    face.get_state(graph, CFG)
    assert seen == [{"entries": ["a"], "after": "b"}]


def test_questions_and_results_of_siblings_stay_beside_migrated_values(face, backend):
    marks = Marks()

    def work(state):
        marks("work")
        return {"log": ["work"]}

    old = parallel(work=work, ask=asks("?")).compile(backend.make(), version="1")
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    seen = []
    new = parallel(Total, work=work, ask=asks("?"))
    graph = new.compile(backend.reopen(), version="2", migrate_state=counting(seen))
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume="X"), CFG) == {"log": ["X", "work"], "total": 0}
    assert marks.count("work") == 1


def test_new_input_for_a_finished_old_thread_begins_with_migrated_values(face, backend):
    face.invoke(chain(a=says("a")).compile(backend.make(), version="1"), {}, CFG)
    graph = chain(Total, a=says("a")).compile(backend.reopen(), version="2", migrate_state=counting([]))
    assert face.invoke(graph, None, CFG) == {"log": ["a"], "total": 1}
    assert face.invoke(graph, {"log": ["in"]}, CFG) == {"log": ["a", "in", "a"], "total": 1}
    assert face.get_state(graph, CFG).values["total"] == 1


def test_branches_and_edits_of_old_checkpoints_begin_with_migrated_values(face, backend):
    old = version_one(backend.make())
    face.invoke(old, {"log": ["in"]}, CFG)
    face.invoke(old, Command(resume="X"), CFG)
    graph = version_two(backend.reopen(), counting([]))
    first = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("a",))
    result = face.invoke(graph, None, first.config)
    assert (result["log"], result["total"]) == (["in", "a"], 1)
    assert face.get_state(graph, CFG).values == {"log": ["in", "a"], "total": 1}
    face.update_state(graph, first.config, {"log": ["edited"]}, as_node="a")
    assert face.get_state(graph, CFG).values == {"log": ["in", "edited"], "total": 1}
    again = version_two(backend.reopen(), lambda values, version: pytest.fail("it was migrated already"))
    assert face.get_state(again, CFG).values == {"log": ["in", "edited"], "total": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_migrated_values_are_stored_with_every_durability(face, backend, durability):
    face.invoke(version_one(backend.make()), {}, CFG)
    graph = version_two(backend.reopen(), counting([]))
    face.invoke(graph, Command(resume="X"), CFG, durability=durability)
    plain = chain(Total, a=says("a"), ask=asks("?")).compile(backend.reopen(), version="2")
    assert face.get_state(plain, CFG).values == {"log": ["a", "X"], "total": 1}


def test_new_input_that_finishes_the_old_run_first_goes_on_with_migrated_values(face, backend):
    failing = [1]

    def ask(state):
        if failing:
            failing.clear()
            text = "down"
            raise ValueError(text)
        return {"log": ["asked"]}

    with pytest.raises(ValueError, match="down"):
        face.invoke(chain(a=says("a"), ask=ask).compile(backend.make(), version="1"), {}, CFG)
    graph = version_two(backend.reopen(), counting([]), ask)
    result = face.invoke(graph, {"log": ["in"]}, CFG, on_unfinished="finish")
    assert result == {"log": ["a", "asked", "in", "a", "asked"], "total": 1}


def test_what_it_raises_is_told_with_thread_and_version_and_nothing_is_changed(face, backend):
    saver = backend.make()

    def migrate(values, version):
        text = "no total"
        raise KeyError(text)

    face.invoke(version_one(saver), {}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), migrate)
    for call in (
        lambda: face.invoke(graph, Command(resume="X"), CFG),
        lambda: face.get_state(graph, CFG),
        lambda: face.get_state_history(graph, CFG),
        lambda: face.update_state(graph, CFG, {"total": 1}),
    ):
        with pytest.raises(MigrationError, match=r"no total.*'t'.*'1'") as caught:
            call()
        assert isinstance(caught.value.__cause__, KeyError)
    assert dump(saver) == rows
    assert face.invoke(version_one(backend.reopen()), Command(resume="X"), CFG)["log"] == ["a", "X"]


@pytest.mark.parametrize("found", [None, 7, [("log", [])]], ids=repr)
def test_what_is_no_mapping_is_refused(face, backend, found):
    face.invoke(version_one(backend.make()), {}, CFG)
    with pytest.raises(MigrationError, match=type(found).__name__):
        face.get_state(version_two(backend.reopen(), lambda values, version: found), CFG)


def test_a_new_key_that_the_state_does_not_have_is_refused(face, backend):
    face.invoke(version_one(backend.make()), {}, CFG)
    graph = version_two(backend.reopen(), lambda values, version: {**values, "totl": 1})
    with pytest.raises(MigrationError, match=r"'totl'.*'log'.*'total'"):
        face.get_state(graph, CFG)


def test_an_old_key_that_the_state_lost_may_come_along(face, backend):
    """`{**values, ...}` holds it."""
    face.invoke(old_keys(backend.make(), version="1"), {}, CFG)
    builder = chain(Total, a=says("a"), ask=asks("?"))
    graph = builder.compile(backend.reopen(), version="2", migrate_state=counting([]))
    assert face.get_state(graph, CFG).values == {"log": ["a"], "total": 1}


def test_a_value_that_cannot_be_stored_is_refused_before_anything_is(face, backend):
    saver = backend.make()
    face.invoke(version_one(saver), {}, CFG)
    rows = dump(saver)
    graph = version_two(backend.reopen(), lambda values, version: {**values, "total": object()})
    with pytest.raises(UnserializableValueError, match=r"migrate_state.*'total'"):
        face.invoke(graph, Command(resume="X"), CFG)
    assert dump(saver) == rows


def test_migrate_state_needs_a_version():
    with pytest.raises(InvalidGraphError, match="version="):
        _ = chain(a=says("a")).compile(migrate_state=lambda values, version: values)


def test_an_async_migration_is_refused(face):
    async def migrate(values, version):
        return values

    with pytest.raises(InvalidGraphError, match="migrate_state"):
        _ = chain(a=says("a")).compile(version="2", migrate_state=migrate)


# --- states with rules -----------------------------------------------------------------------------------------------


class Basket(BaseModel):
    items: list[str] = []


class BasketWithOwner(BaseModel):
    items: list[str] = []
    owner: str


def basket(schema, saver, **more):
    seen = []
    builder = StateGraph(schema).add_node("fill", lambda state: {"items": ["apple"]})
    builder.add_node("count", seen.append).add_edge(START, "fill").add_edge("fill", "count")
    graph = builder.compile(saver, **more)
    return graph, seen


def test_a_new_required_field_is_named_and_the_old_thread_stays_readable(face, backend):
    saver = backend.make()
    old, _ = basket(Basket, saver, interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    new, _ = basket(BasketWithOwner, backend.reopen(), version="2")
    assert face.get_state(new, CFG).values == {"items": ["apple"]}
    with pytest.raises(InvalidValueError, match="owner"):
        face.invoke(new, None, CFG)
    assert face.get_state(new, CFG).values == {"items": ["apple"]}


def test_a_new_required_field_is_filled_by_a_migration(face, backend):
    old, _ = basket(Basket, backend.make(), interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    new, seen = basket(
        BasketWithOwner, backend.reopen(), version="2", migrate_state=lambda values, _: {**values, "owner": "unknown"}
    )
    assert face.invoke(new, None, CFG) == {"items": ["apple"], "owner": "unknown"}
    assert seen == [BasketWithOwner(items=["apple"], owner="unknown")]


def test_a_migrated_value_of_a_wrong_type_is_refused_and_named(face, backend):
    saver = backend.make()
    old, _ = basket(Basket, saver, interrupt_before=["count"])
    face.invoke(old, {}, CFG)
    rows = dump(saver)
    new, _ = basket(BasketWithOwner, backend.reopen(), version="2", migrate_state=lambda values, _: {"owner": 7})
    with pytest.raises(MigrationError, match="owner"):
        face.invoke(new, None, CFG)
    assert dump(saver) == rows


def test_a_scalar_that_became_a_list_is_brought_over(face, backend):
    """Without a migration the reducer would add a list to a text."""

    class Text(TypedDict, total=False):
        notes: str
        other: int

    class Notes(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]
        other: int

    def made(schema, note, saver, **more):
        builder = (
            StateGraph(schema).add_node("a", lambda state: {"notes": note}).add_node("b", lambda state: {"notes": note})
        )
        return builder.add_edge(START, "a").add_edge("a", "b").compile(saver, interrupt_before=["b"], **more)

    face.invoke(made(Text, "first", backend.make()), {}, CFG)
    new = made(
        Notes,
        ["second"],
        backend.reopen(),
        version="2",
        migrate_state=lambda values, _: {**values, "notes": [values["notes"]]},
    )
    assert face.invoke(new, None, CFG)["notes"] == ["first", "second"]


def test_a_removed_key_does_not_make_a_breakpoint_fire_again(face, backend):
    class Wide(Log, total=False):
        gone: int

    old = chain(Wide, a=lambda state: {"log": ["a"], "gone": 1}, last=says("last"))
    face.invoke(old.compile(backend.make(), interrupt_before=["last"]), {}, CFG)
    new = chain(Log, a=says("a"), last=says("last")).compile(backend.reopen(), interrupt_before=["last"])
    assert face.invoke(new, None, CFG)["log"] == ["a", "last"]
