"""Stored checkpoints in today's terms: names, values, and what the next checkpoint has to say anew."""

import operator

import pytest

from durable_graph.channels import BinaryOperatorAggregate, LastValue
from durable_graph.core.program import Join, NodeSpec, Program
from durable_graph.core.versions import Changes, adapted, rewritten, stamp, version_of
from durable_graph.errors import InvalidGraphError, MigrationError
from durable_graph.records import Address, CallRecord, Change, Frontier, StepRecord, StoredCheckpoint, TaskRecord, Write
from durable_graph.types import MISSING, START, Command, Send


def program(**changes):
    joins = [Join("n+x->m", ("n", "x"), "m"), Join("a+b->x", ("a", "b"), "x"), Join("c+d->x", ("c+d",), "x")]
    return Program(
        "g",
        {name: NodeSpec(name, None, hidden=name == START) for name in (START, "n", "m", "x")},
        {join.name: join for join in joins},
        {"entries": BinaryOperatorAggregate(list, operator.add), "last": LastValue(object)},
        ("entries", "last"),
        ("entries", "last"),
        stamp("f", changes.get("version", "")),
        changes=Changes(**changes),
    )


def checkpoint(frontier=None, values=None, version="", **more):
    record = StepRecord(1, "loop", {}, frontier or Frontier(), fingerprint=stamp("e", version))
    return StoredCheckpoint(Address(1, 5, 9), None, values or {}, {}, record, **more)


# --- stamps ----------------------------------------------------------------------------------------------------------


def test_a_version_stands_behind_the_fingerprint():
    assert stamp("abc", "") == "abc"
    assert version_of(checkpoint()) == ""
    assert version_of(checkpoint(version="2.0-rc1")) == "2.0-rc1"


# --- what is not to be changed ---------------------------------------------------------------------------------------


def test_without_changes_the_checkpoint_is_what_was_read():
    stored = checkpoint()
    assert adapted(program(version="2"), stored) is stored
    assert adapted(program(nodes={"o": "n"}), None) is None
    assert rewritten(program(), stored, stored) == {}
    assert rewritten(program(), None, None) == {}


def test_what_was_read_stays_as_it_is():
    stored = checkpoint(Frontier(("o",)), {"log": [1]}, pending={"o": TaskRecord("o", "o", "")})
    before = repr(stored)
    both = program(nodes={"o": "n"}, keys={"log": "entries"}, version="2", migrate=lambda values, _: {"last": 1})
    assert adapted(both, stored).values == {"last": 1}
    assert repr(stored) == before


# --- names of nodes --------------------------------------------------------------------------------------------------


def test_a_frontier_is_renamed_everywhere_and_in_order():
    old = Frontier(("o", "x"), (Send("o", 1, timeout=3), Send("x", 2)), {"o+x->p": ("o",)}, ("o", "p"))
    found = adapted(program(nodes={"o": "n", "p": "m"}), checkpoint(old)).step.frontier
    assert found == Frontier(("n", "x"), (Send("n", 1, timeout=3), Send("x", 2)), {"n+x->m": ("n",)}, ("m", "n"))


def test_two_nodes_that_became_one_run_once():
    old = Frontier(("o", "p"), deferred=("o", "p"))
    found = adapted(program(nodes={"o": "n", "p": "n"}), checkpoint(old)).step.frontier
    assert (found.nodes, found.deferred) == (("n",), ("n",))


def test_a_barrier_that_the_graph_still_has_keeps_its_name_whatever_signs_are_in_it():
    old = Frontier(arrived={"c+d->x": ("c+d",)})
    found = adapted(program(nodes={"o": "n"}), checkpoint(old)).step.frontier
    assert found.arrived == {"c+d->x": ("c+d",)}


def test_records_are_found_under_todays_paths_and_ids_are_made_of_the_first_ones():
    pending = {
        "o": TaskRecord("o", "o", "", routes=("o", "x", Send("o", 1), Command(graph=Command.PARENT, goto="o"))),
        "o#3": TaskRecord("o#3", "o", ""),
        "__error_handler__o#3": TaskRecord("__error_handler__o#3", "__error_handler__o", ""),
        "": TaskRecord("", "", "", routes=("o",)),
    }
    stored = checkpoint(Frontier(("o", "x")), pending=pending, ran=("o", "x"))
    found = adapted(program(nodes={"o": "n"}), stored)
    assert list(found.pending) == ["n", "n#3", "__error_handler__n#3", ""]
    assert [record.node for record in found.pending.values()] == ["n", "n", "__error_handler__n", ""]
    assert all(path == record.path for path, record in found.pending.items())
    assert found.pending["n"].routes == ("n", "x", Send("n", 1), Command(graph=Command.PARENT, goto="o"))
    assert found.pending[""].routes == ("n",)
    assert found.renamed["n"] == "o"
    assert found.renamed["x"] == "x"
    assert found.ran == ("n", "x")


def test_that_a_failed_task_was_handed_over_is_still_known():
    record = TaskRecord("o", "o", "", routes=("__error_handler__o",))
    found = adapted(program(nodes={"o": "n"}), checkpoint(Frontier(("o",)), pending={"o": record}))
    assert found.pending["n"].routes == ("__error_handler__n",)


def test_a_later_record_under_the_new_name_counts_and_the_id_stays():
    """The thread was resumed by the new version and asked again."""
    pending = {"o": TaskRecord("o", "o", "", attempt=1), "n": TaskRecord("n", "n", "", attempt=2)}
    found = adapted(program(nodes={"o": "n"}), checkpoint(Frontier(("o",)), pending=pending))
    assert found.pending["n"].attempt == 2
    assert found.renamed["n"] == "o"


def test_a_name_that_was_kept_by_an_edit_goes_before():
    stored = checkpoint(Frontier(("o",)), renamed={"o": "first"})
    assert adapted(program(nodes={"o": "n"}), stored).renamed == {"n": "first"}


def test_recorded_steps_go_with_their_task():
    call = CallRecord("o#1", "charge", b"", 0)
    found = adapted(program(nodes={"o": "n"}), checkpoint(calls=(call,)))
    assert found.calls == (call._replace(task="n#1"),)


def test_memories_of_graphs_inside_go_with_their_node():
    values = {"\0pin:o": [2, 3], "\0pin:o:1+2": [4, 5], "\0pin:x|o": [6, 7], "\0owner": [1, 2]}
    assert adapted(program(nodes={"o": "n"}), checkpoint(values=values)).values == {
        "\0pin:n": [2, 3],
        "\0pin:n:1+2": [4, 5],
        "\0pin:x|n": [6, 7],
        "\0owner": [1, 2],
    }


# --- names of keys ---------------------------------------------------------------------------------------------------


def test_values_writes_and_inputs_are_renamed_and_what_nodes_are_sent_is_not():
    record = TaskRecord("x", "x", "", writes=(Write("log", [1], b"1"), Write("last", 2)))
    frontier = Frontier(sends=(Send(START, {"log": [1], "last": 2}), Send("x", {"log": "not a key"})))
    stored = checkpoint(frontier, {"log": [0], "last": 1}, pending={"x": record})
    found = adapted(program(keys={"log": "entries"}), stored)
    assert found.values == {"entries": [0], "last": 1}
    assert found.pending["x"].writes == (Write("entries", [1], b"1"), Write("last", 2))
    assert [send.arg for send in found.step.frontier.sends] == [{"entries": [1], "last": 2}, {"log": "not a key"}]


def test_two_keys_of_one_checkpoint_cannot_become_one():
    stored = checkpoint(values={"log": [1], "entries": [2]})
    with pytest.raises(MigrationError, match=r"thread 't' has stored keys 'entries' and 'log'.*'entries'"):
        adapted(program(keys={"log": "entries"}), stored, "t")


def test_the_next_checkpoint_says_the_new_name_and_forgets_the_old_one():
    changed = program(keys={"log": "entries"})
    stored = checkpoint(values={"log": [1], "last": 2})
    assert rewritten(changed, stored, adapted(changed, stored)) == {"log": Change(MISSING), "entries": Change([1])}


def test_a_checkpoint_with_todays_names_has_nothing_to_say_anew():
    changed = program(keys={"log": "entries"}, nodes={"o": "n"})
    stored = checkpoint(values={"entries": [1], "\0pin:n": [1, 2]})
    assert rewritten(changed, stored, adapted(changed, stored)) == {}


# --- values ----------------------------------------------------------------------------------------------------------


def migrating(migrate):
    return program(version="2", migrate=migrate)


def test_a_migration_sees_no_values_of_the_engine_and_loses_none():
    seen = []
    changed = migrating(lambda values, version: seen.append((dict(values), version)) or {"last": 2})
    stored = checkpoint(values={"entries": [1], "\0owner": [1, 2]}, version="1")
    found = adapted(changed, stored)
    assert seen == [({"entries": [1]}, "1")]
    assert found.values == {"last": 2, "\0owner": [1, 2]}
    assert rewritten(changed, stored, found) == {"entries": Change(MISSING), "last": Change(2)}


def test_all_migrated_values_are_said_anew():
    """A value may have been changed in place."""
    changed = migrating(lambda values, version: values)
    stored = checkpoint(values={"entries": [1], "last": 2, "\0pin:n": [1, 2]}, version="1")
    assert rewritten(changed, stored, adapted(changed, stored)) == {"entries": Change([1]), "last": Change(2)}


def test_a_checkpoint_of_this_version_is_not_migrated():
    changed = migrating(lambda values, version: pytest.fail("it is of this version"))
    assert adapted(changed, checkpoint(values={"last": 1}, version="2")).values == {"last": 1}


def test_what_it_raises_is_the_cause():
    def migrate(values, version):
        raise KeyError(version)

    with pytest.raises(MigrationError, match=r"KeyError.*thread 't'.*version '1'") as caught:
        adapted(migrating(migrate), checkpoint(version="1"), "t")
    assert isinstance(caught.value.__cause__, KeyError)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": "a b"}, "version 'a b'"),
        ({"nodes": {"o": "gone"}}, "node 'gone'"),
        ({"nodes": {"o": START}}, START),
        ({"nodes": {START: "n"}}, START),
        ({"nodes": {"n": "m"}}, "'n' is the name of a node"),
        ({"keys": {"log": "gone"}}, "key 'gone'"),
        ({"keys": {"last": "entries"}}, "'last' is the name of a key"),
        ({"migrate": lambda values, version: values}, "no version"),
    ],
    ids=["version", "node", "to START", "of START", "node in use", "key", "key in use", "no version"],
)
def test_changes_that_cannot_be_meant_are_refused(changes, text):
    made = program(**changes)
    with pytest.raises(InvalidGraphError, match=text):
        made.changes.check(made)


def test_changes_that_can_be_meant_are_not():
    made = program(nodes={"o": "n", "p": "n"}, keys={"log": "entries"}, version="2", migrate=lambda values, _: values)
    made.changes.check(made)
