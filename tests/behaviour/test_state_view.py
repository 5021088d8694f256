"""What get_state and get_state_history show."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from durable_graph import START, Send, StateGraph, interrupt
from durable_graph.errors import InvalidConfigError, NoCheckpointerError
from tests.behaviour.small_graphs import Log, chain, dump, parallel, thread

CFG = thread()


def abc():
    return chain(**{name: lambda state, name=name: {"log": [name]} for name in "abc"})


def test_an_unknown_thread_is_empty_and_stays_unknown(face, backend):
    saver = backend.make()
    graph = abc().compile(saver)
    state = face.get_state(graph, CFG)
    assert (state.values, state.next, state.tasks, state.interrupts) == ({}, (), (), ())
    assert (state.metadata, state.created_at, state.parent_config) == (None, None, None)
    assert state.config["configurable"]["thread_id"] == "t"
    assert face.get_state_history(graph, CFG) == []
    assert dump(saver) is None


def test_history_is_input_then_one_checkpoint_per_step_newest_first(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    history = face.get_state_history(graph, CFG)
    assert [one.metadata["step"] for one in history] == [3, 2, 1, 0, -1]
    assert [one.metadata["source"] for one in history] == ["loop"] * 4 + ["input"]
    assert [one.next for one in history] == [(), ("c",), ("b",), ("a",), (START,)]
    assert ["".join(one.values["log"]) for one in history] == ["inabc", "inab", "ina", "in", ""]
    assert [[task.result for task in one.tasks] for one in history] == [
        [],
        [{"log": ["c"]}],
        [{"log": ["b"]}],
        [{"log": ["a"]}],
        [{"log": ["in"]}],
    ]


def test_each_checkpoint_names_its_parent(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, {}, CFG)
    history = face.get_state_history(graph, CFG)
    assert len(history) == 10
    for newer, older in itertools.pairwise(history):
        assert newer.parent_config == older.config
    assert history[-1].parent_config is None
    assert len({one.config["configurable"]["checkpoint_id"] for one in history}) == 10


def test_every_checkpoint_of_history_can_be_asked_for_by_its_config(face, backend):
    builder = abc()
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    for shown in face.get_state_history(graph, CFG):
        assert face.get_state(graph, shown.config) == shown
        assert face.get_state(builder.compile(backend.reopen()), shown.config) == shown


def test_the_newest_state_is_the_first_of_history_when_nothing_is_pending(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state(graph, CFG) == face.get_state_history(graph, CFG)[0]


def test_live_state_has_results_in_it_and_the_historical_one_has_not(face, backend):
    def fail(state):
        raise ValueError("broken")

    graph = parallel(bad=fail, good=lambda state: {"log": ["good"]}, ask=lambda state: interrupt("?")).compile(
        backend.make()
    )
    with pytest.raises(ValueError, match="broken"):
        face.invoke(graph, {}, CFG, durability="sync")
    with pytest.raises(ValueError, match="broken"):  # those that had not started in the first call run now
        face.invoke(graph, None, CFG)
    live = face.get_state(graph, CFG)
    assert (live.values, live.next) == ({"log": ["good"]}, ("ask", "bad"))
    historical = face.get_state(graph, live.config)
    assert (historical.values, historical.next) == ({"log": []}, ("ask", "bad", "good"))
    for state in (live, historical):
        by_name = {task.name: task for task in state.tasks}
        assert by_name["good"].result == {"log": ["good"]}
        assert "broken" in by_name["bad"].error
        assert [one.value for one in by_name["ask"].interrupts] == ["?"]
        assert len({task.id for task in state.tasks}) == 3


def test_tasks_of_sends_are_told_apart_by_path(face, backend):
    builder = StateGraph(Log).add_node("work", lambda item: {"log": [item["n"]]})
    builder.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(3)])
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    fan_out = face.get_state_history(graph, CFG)[1]
    assert fan_out.next == ("work", "work", "work")
    assert [task.path for task in fan_out.tasks] == [("push", "work", n) for n in range(3)]
    assert [task.result for task in fan_out.tasks] == [{"log": [n]} for n in range(3)]


def test_a_task_that_wrote_nothing_has_an_empty_result(face, backend):
    graph = chain(quiet=lambda state: None).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state_history(graph, CFG)[1].tasks[0].result == {}


def test_metadata_brings_what_the_config_brought_but_no_secrets(face, backend):
    graph = abc().compile(backend.make())
    config = {
        "configurable": {"thread_id": "t", "api_key": "secret"},
        "metadata": {"user": "ada", "tier": 3},
        "run_id": "run-7",
        "tags": ["x"],
    }
    face.invoke(graph, {}, config)
    for shown in face.get_state_history(graph, CFG):
        assert shown.metadata["user"] == "ada"
        assert shown.metadata["tier"] == 3
        assert shown.metadata["run_id"] == "run-7"
        assert "secret" not in str(shown)


def test_checkpoints_of_one_run_share_a_run_id_and_those_of_another_do_not(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, {}, CFG)
    ids = [one.metadata["run_id"] for one in face.get_state_history(graph, CFG)]
    assert len(set(ids[:5])) == len(set(ids[5:])) == 1
    assert ids[0] != ids[-1]


def test_created_at_is_a_time_with_zone_and_grows(face, backend):
    graph = abc().compile(backend.make())
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    face.invoke(graph, {}, CFG)
    times = [datetime.fromisoformat(one.created_at) for one in face.get_state_history(graph, CFG)]
    assert times == sorted(times, reverse=True)
    assert all(before <= one <= datetime.now(UTC) for one in times)


def test_limit_and_before_page_through_history(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    whole = face.get_state_history(graph, CFG)
    assert face.get_state_history(graph, CFG, limit=2) == whole[:2]
    assert face.get_state_history(graph, CFG, limit=99) == whole
    assert face.get_state_history(graph, CFG, limit=0) == []
    pages, before = [], None
    while page := face.get_state_history(graph, CFG, limit=2, before=before):
        pages += page
        before = page[-1].config
    assert pages == whole


def test_before_the_first_checkpoint_there_is_nothing(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    first = face.get_state_history(graph, CFG)[-1]
    assert face.get_state_history(graph, CFG, before=first.config) == []


def test_filter_takes_what_is_equal_and_of_the_same_type(face, backend):
    graph = abc().compile(backend.make())
    values = [None, True, 1, "1", 1.0, [1, 2], {"a": 1}]
    for value in values:
        face.invoke(graph, {}, {**CFG, "metadata": {"k": value}})
    face.invoke(graph, {}, CFG)
    for value in values:
        found = face.get_state_history(graph, CFG, filter={"k": value})
        assert len(found) == 5
        assert all(type(one.metadata["k"]) is type(value) and one.metadata["k"] == value for one in found)
    assert face.get_state_history(graph, CFG, filter={"k": "nothing"}) == []
    assert len(face.get_state_history(graph, CFG, filter={})) == 40


def test_filter_limit_and_before_work_together(face, backend):
    graph = abc().compile(backend.make())
    for user in ("ada", "bob", "ada"):
        face.invoke(graph, {}, {**CFG, "metadata": {"user": user}})
    ada = face.get_state_history(graph, CFG, filter={"user": "ada"})
    assert len(ada) == 10
    assert face.get_state_history(graph, CFG, filter={"user": "ada"}, limit=7) == ada[:7]
    assert face.get_state_history(graph, CFG, filter={"user": "ada"}, before=ada[4].config, limit=2) == ada[5:7]
    assert [one.metadata["step"] for one in face.get_state_history(graph, CFG, filter={"source": "input"})] == [
        9,
        4,
        -1,
    ]
    assert face.get_state_history(graph, CFG, filter={"step": 4, "source": "input"})[0].next == (START,)


def test_a_filter_key_may_be_any_text(face, backend):
    graph = abc().compile(backend.make())
    odd = {"a'b\"; drop table record; --": 1, "x.y[0]": 2, "": 3}
    face.invoke(graph, {}, {**CFG, "metadata": odd})
    for key, value in odd.items():
        assert len(face.get_state_history(graph, CFG, filter={key: value})) == 5


def test_looking_from_inside_a_running_node_shows_the_step_before(face, backend):
    seen = []

    def look(state):
        seen.append(graph.get_state(CFG))
        return {"log": ["b"]}

    graph = chain(a=lambda state: {"log": ["a"]}, b=look).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert (seen[0].values, seen[0].next) == ({"log": ["a"]}, ("b",))


def test_changing_what_a_snapshot_shows_changes_nothing_stored(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": [["nested"]]}, CFG)
    face.get_state(graph, CFG).values["log"][0].append("changed")
    face.get_state(graph, CFG).metadata["source"] = "changed"
    assert face.get_state(graph, CFG).values["log"][0] == ["nested"]
    assert face.get_state(graph, CFG).metadata["source"] == "loop"


def test_the_config_of_the_newest_checkpoint_can_be_passed_back_to_invoke(face, backend):
    graph = abc().compile(backend.make(), interrupt_before=["b"])
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, None, face.get_state(graph, CFG).config)["log"] == ["a", "b", "c"]


def test_ids_of_checkpoints_that_are_none_are_refused(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    for wrong in ("nonsense", "1", "a.b.c"):
        with pytest.raises(InvalidConfigError, match=wrong):
            face.get_state(graph, thread(checkpoint_id=wrong))
        with pytest.raises(InvalidConfigError, match=wrong):
            face.get_state_history(graph, CFG, before=thread(checkpoint_id=wrong))
    with pytest.raises(InvalidConfigError, match="without checkpoint_id"):
        face.get_state_history(graph, CFG, before=CFG)


def test_a_well_formed_id_of_no_checkpoint_shows_an_empty_state(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state(graph, thread(checkpoint_id="000000000099.1.7f")).metadata is None


def test_without_a_checkpointer_there_is_no_state(face):
    graph = abc().compile()
    with pytest.raises(NoCheckpointerError, match="keeps no state"):
        face.get_state(graph, CFG)
    with pytest.raises(NoCheckpointerError, match="keeps no state"):
        face.get_state_history(graph, CFG)


@pytest.mark.parametrize("wrong", [None, "", "  ", 1.5, True, b"t"], ids=repr)
def test_a_thread_id_that_is_none_is_an_error_everywhere(face, backend, wrong):
    graph = abc().compile(backend.make())
    for look in (face.get_state, face.get_state_history, lambda *args: face.invoke(args[0], {}, args[1])):
        with pytest.raises(InvalidConfigError, match="thread_id"):
            look(graph, thread(wrong))
    assert face.get_state(graph, thread("None")).metadata is None


def test_a_thread_id_may_be_a_number_or_a_uuid_or_odd_text(face, backend):
    from uuid import UUID

    graph = abc().compile(backend.make())
    uuid = UUID(int=7)
    for name in (7, uuid, "nul \0", "lone \ud800", "Ärger/'\"", "x" * 3000):
        face.invoke(graph, {"log": [str(name)]}, thread(name))
    assert face.get_state(graph, thread("7")).values["log"][0] == "7"
    assert face.get_state(graph, thread(str(uuid))).values["log"][0] == str(uuid)
    assert face.get_state(graph, thread("lone \ud800")).values["log"][0] == "lone \ud800"
    assert face.get_state(graph, thread("nul ")).metadata is None
