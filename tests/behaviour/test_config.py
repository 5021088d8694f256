"""The config of a call: threads, limits, metadata, and what is wrong with it."""

from uuid import UUID, uuid4

import pytest

from durable_graph import get_config
from durable_graph.errors import InvalidConfigError, UnserializableValueError
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, thread

SECRET = "sk-very-secret-token-31415"  # noqa: S105 - a made-up one, to look for


def keeps_config():
    """A graph that shows the config its node got."""
    got = []
    return chain(a=lambda state, config: got.append(config)), got


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["text", 7, 0, UUID(int=5), "Ünïcode/…", " spaces inside "])
def test_a_thread_id_is_text_a_number_or_a_uuid(face, backend, given):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, thread(given))
    assert face.get_state(graph, thread(str(given))).values == {"log": ["a"]}
    assert face.get_state(graph, thread(given)).config["configurable"]["thread_id"] == str(given)


@pytest.mark.parametrize("given", ["", "  ", "\n", None, True, 1.5, b"bytes", ["list"], {}])
def test_a_thread_id_that_is_none_is_refused_by_every_call(face, backend, given):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    for call in (face.invoke, face.stream):
        with pytest.raises(InvalidConfigError, match="thread_id"):
            call(graph, {"log": []}, thread(given))
    for call in (face.get_state, face.get_state_history):
        with pytest.raises(InvalidConfigError, match="thread_id"):
            call(graph, thread(given))


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"user": "u"}}])
def test_a_run_with_a_checkpointer_needs_a_thread_id_and_the_error_shows_how(face, backend, config):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    with pytest.raises(InvalidConfigError, match=r"needs a thread_id(.|\n)*config=\{\"configurable\""):
        face.invoke(graph, {"log": []}, config)


def test_without_a_checkpointer_no_thread_id_is_needed_and_one_does_no_harm(face):
    graph = chain(a=says("a")).compile()
    assert face.invoke(graph, {"log": []}) == face.invoke(graph, {"log": []}, thread()) == {"log": ["a"]}


def test_the_thread_id_may_stand_at_the_top_level(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, {"thread_id": "top"})
    assert face.get_state(graph, {"thread_id": "top"}).values == {"log": ["a"]}
    assert face.get_state(graph, thread("top")).values == {"log": ["a"]}


def test_threads_do_not_see_each_other(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": [1]}, thread("one"))
    face.invoke(graph, {"log": [2]}, thread("two"))
    assert face.get_state(graph, thread("one")).values == {"log": [1, "a"]}
    assert face.get_state(graph, thread("two")).values == {"log": [2, "a"]}


def test_the_config_of_a_snapshot_can_be_passed_back(face, backend):
    graph = chain(a=says("a"), b=says("b")).compile(checkpointer=backend.make(), interrupt_before=["b"])
    face.invoke(graph, {"log": []}, thread())
    snapshot = face.get_state(graph, thread())
    assert face.get_state(graph, snapshot.config).values == snapshot.values
    assert face.invoke(graph, None, snapshot.config) == {"log": ["a", "b"]}
    old = face.get_state(graph, snapshot.config)
    assert (old.values, old.next) == ({"log": ["a"]}, ("b",))


def test_the_parents_config_of_a_snapshot_leads_to_the_checkpoint_before(face, backend):
    graph = chain(a=says("a"), b=says("b")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, thread())
    newest, before, *_ = face.get_state_history(graph, thread())
    assert newest.parent_config == before.config
    assert face.get_state(graph, newest.parent_config).values == before.values


def test_something_that_is_no_checkpoint_id_is_refused(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, thread())
    with pytest.raises(InvalidConfigError, match="'nonsense' is not a checkpoint id"):
        face.get_state(graph, thread(checkpoint_id="nonsense"))


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("thread", "thread_id"),
        ("recursion_limits", "recursion_limit"),
        ("max_concurency", "max_concurrency"),
        ("configurables", "configurable"),
        ("runid", "run_id"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest_one(face, key, nearest):
    with pytest.raises(InvalidConfigError, match=f"unknown key '{key}'; did you mean '{nearest}'"):
        face.invoke(chain(a=says("a")).compile(), {"log": []}, {key: 1})


def test_an_unknown_key_that_is_near_to_nothing_belongs_into_configurable(face):
    with pytest.raises(InvalidConfigError, match="belong into 'configurable'"):
        face.invoke(chain(a=says("a")).compile(), {"log": []}, {"zzz": 1})


def test_a_lenient_graph_moves_unknown_keys_into_configurable(face):
    builder, got = keeps_config()
    face.invoke(builder.compile(strict=False), {"log": []}, {"own": 1})
    assert got[0]["configurable"] == {"own": 1}


@pytest.mark.parametrize("config", ["t", 5, ["t"], {"configurable": "t"}, {"configurable": ["t"]}, {"metadata": "m"}])
def test_a_config_of_the_wrong_kind_is_an_error(face, config):
    with pytest.raises(InvalidConfigError, match="expected a dict"):
        face.invoke(chain(a=says("a")).compile(), {"log": []}, config)


@pytest.mark.parametrize("key", ["recursion_limit", "max_concurrency"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True])
def test_counts_are_whole_numbers_from_one_on(face, key, value):
    with pytest.raises(InvalidConfigError, match=f"'{key}'(.|\n)*whole number"):
        face.invoke(chain(a=says("a")).compile(), {"log": []}, {key: value})


@pytest.mark.parametrize(
    ("argument", "value", "known"),
    [
        ("durability", "never", "sync, async, exit"),
        ("on_unfinished", "drop", "reject, finish, abandon"),
        ("interrupt_before", ["zzz"], "'a'"),
        ("interrupt_after", ["zzz"], "'a'"),
        ("output_keys", "zzz", "'log'"),
        ("output_keys", ["log", "zzz"], "'log'"),
    ],
)
def test_an_unknown_argument_is_an_error_that_names_the_known_ones_and_stores_nothing(
    face, backend, argument, value, known
):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    with pytest.raises(InvalidConfigError) as caught:
        face.invoke(graph, {"log": []}, thread(), **{argument: value})
    assert known in str(caught.value)
    assert face.get_state_history(graph, thread()) == []


def test_a_batch_needs_one_config_or_one_for_each_input(face):
    with pytest.raises(InvalidConfigError, match="2 configs were passed for 1 inputs"):
        face.batch(chain(a=says("a")).compile(), [{"log": []}], [{}, {}])


def test_a_batch_may_have_a_thread_for_each_input(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.batch(graph, [{"log": [n]} for n in range(3)], [thread(n) for n in range(3)])
    assert [face.get_state(graph, thread(n)).values["log"][0] for n in range(3)] == [0, 1, 2]


# --- what nodes get ---------------------------------------------------------------------------------------------------


def test_a_node_gets_the_callers_config_and_more(face):
    builder, got = keeps_config()
    builder.nodes["a"].metadata = {"team": "x"}
    given = {"tags": ["t"], "metadata": {"user": "u"}, "configurable": {"model": "m"}}
    face.invoke(builder.compile(), {"log": []}, given)
    (config,) = got
    assert (config["tags"], config["configurable"]) == (["t"], {"model": "m"})
    assert config["metadata"]["user"] == "u"
    assert config["metadata"]["team"] == "x"
    assert config["metadata"]["langgraph_node"] == "a"
    assert config["metadata"]["langgraph_step"] == 1


def test_what_a_node_changes_in_its_config_is_not_seen_by_others_nor_by_the_caller(face):
    seen = []

    def change(state, config):
        seen.append(dict(config["configurable"]))
        config["configurable"]["model"] = "scribbled"
        config["metadata"]["user"] = "scribbled"
        config["tags"].append("scribbled")

    def look(state, config):
        seen.append((config["configurable"]["model"], config["metadata"]["user"], config["tags"]))

    given = {"configurable": {"model": "m"}, "metadata": {"user": "u"}, "tags": ["t"]}
    face.invoke(chain(a=change, b=look).compile(), {"log": []}, given)
    assert seen == [{"model": "m"}, ("m", "u", ["t"])]
    assert given == {"configurable": {"model": "m"}, "metadata": {"user": "u"}, "tags": ["t"]}


def test_values_in_configurable_arrive_as_they_are(face, backend):
    client = object()
    builder, got = keeps_config()
    face.invoke(builder.compile(checkpointer=backend.make()), {"log": []}, thread(client=client))
    assert got[0]["configurable"]["client"] is client


def test_get_config_is_the_config_of_the_node(face):
    got = []
    face.invoke(chain(a=lambda state: got.append(get_config())).compile(), {"log": []}, {"configurable": {"x": 1}})
    assert got[0]["configurable"] == {"x": 1}
    assert got[0]["metadata"]["langgraph_node"] == "a"


# --- with_config ------------------------------------------------------------------------------------------------------


def test_with_config_gives_a_graph_with_a_config_of_its_own(face):
    builder, got = keeps_config()
    graph = builder.compile()
    base = {"tags": ["base"], "metadata": {"a": 1, "b": 1}, "configurable": {"x": 1, "y": 1}, "recursion_limit": 5}
    bound = graph.with_config(base).with_config(tags=["more"], metadata={"b": 2})
    face.invoke(bound, {"log": []}, {"tags": ["call"], "configurable": {"y": 2}, "recursion_limit": 7})
    (config,) = got
    assert config["tags"] == ["base", "more", "call"]
    assert (config["metadata"]["a"], config["metadata"]["b"]) == (1, 2)
    assert config["configurable"] == {"x": 1, "y": 2}
    assert config["recursion_limit"] == 7
    face.invoke(graph, {"log": []})
    assert got[1]["configurable"] == {}


def test_with_config_can_name_the_thread(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make()).with_config(thread())
    face.invoke(graph, {"log": []})
    assert face.get_state(graph, {}).values == {"log": ["a"]}


def test_with_config_checks_like_a_call():
    with pytest.raises(InvalidConfigError, match="did you mean 'thread_id'"):
        chain(a=says("a")).compile().with_config({"threadid": "1"})


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_metadata_is_stored_with_every_checkpoint_of_the_run(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, {**thread(), "metadata": {"user": "u", "tags": ["x"]}})
    for snapshot in face.get_state_history(graph, thread()):
        assert (snapshot.metadata["user"], snapshot.metadata["tags"]) == ("u", ["x"])
    assert len(face.get_state_history(graph, thread(), filter={"user": "u"})) == 3
    assert face.get_state_history(graph, thread(), filter={"user": "other"}) == []


def test_the_engines_own_metadata_cannot_be_overwritten(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, {**thread(), "metadata": {"step": "mine", "source": "mine"}})
    assert [(one.metadata["source"], one.metadata["step"]) for one in face.get_state_history(graph, thread())] == [
        ("loop", 1),
        ("loop", 0),
        ("input", -1),
    ]


def test_metadata_that_cannot_be_stored_is_refused_before_anything_is_stored(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    with pytest.raises(UnserializableValueError, match=r"config\['metadata'\] cannot be stored"):
        face.invoke(graph, {"log": []}, {**thread(), "metadata": {"client": object()}})
    assert face.get_state_history(graph, thread()) == []


def test_a_run_id_is_stored_and_one_is_made_up_when_none_is_given(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    given = uuid4()
    face.invoke(graph, {"log": []}, {**thread("1"), "run_id": given})
    assert {one.metadata["run_id"] for one in face.get_state_history(graph, thread("1"))} == {str(given)}
    face.invoke(graph, {"log": []}, thread("2"))
    (made,) = {one.metadata["run_id"] for one in face.get_state_history(graph, thread("2"))}
    assert made


def test_secrets_in_configurable_are_never_stored(face, tmp_path):
    from checkpointers import SqliteSaver

    path = tmp_path / "runs.db"

    def fails(state, config):
        assert config["configurable"]["api_key"] == SECRET
        if state["log"] == ["fail"]:
            text = "failed"
            raise ValueError(text)

    with SqliteSaver(path) as checkpointer:
        graph = chain(a=fails).compile(checkpointer=checkpointer)
        face.invoke(graph, {"log": []}, thread("1", api_key=SECRET))
        with pytest.raises(ValueError, match="failed"):
            face.invoke(graph, {"log": ["fail"]}, thread("2", api_key=SECRET))
        face.stream(graph, {"log": []}, thread("3", api_key=SECRET), stream_mode="debug")
        assert SECRET not in repr(face.get_state_history(graph, thread("1")))
        assert SECRET not in repr(face.get_state(graph, thread("2")))
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"log" in stored
    assert SECRET.encode() not in stored
