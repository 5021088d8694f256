"""The kinds of state: TypedDict, dataclass, pydantic model, a bare value; what nodes get of them and may return."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from durable_graph import START, Command, IsLastStep, Overwrite, RemainingSteps, StateGraph
from durable_graph.channels import AnyValue, EphemeralValue, Topic, UntrackedValue
from durable_graph.errors import InvalidInputError, InvalidUpdateError, InvalidValueError
from tests.behaviour.making import Number
from tests.behaviour.small_graphs import Log, chain, parallel, thread


@dataclass
class Data:
    items: Annotated[list[str], operator.add] = field(default_factory=list)
    count: int = 7


class Model(BaseModel):
    items: Annotated[list[str], operator.add] = Field(default_factory=list)
    count: int = 7

    @field_validator("count")
    @classmethod
    def _small(cls, value):
        if value > 100:
            text = "too many"
            raise ValueError(text)
        return value


class Ranged(BaseModel):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            text = "low is above high"
            raise ValueError(text)
        return self


STATES = pytest.mark.parametrize("schema", [Data, Model])


@STATES
def test_a_node_gets_an_instance_with_defaults_filled_in(face, schema):
    got = []
    face.invoke(chain(schema, a=got.append).compile(), {"items": ["in"]})
    assert got == [schema(items=["in"])]
    assert (type(got[0]), got[0].count) == (schema, 7)


@STATES
def test_a_run_returns_a_dict_of_what_was_written_and_fills_no_defaults_in(face, schema):
    graph = chain(schema, a=lambda state: {"items": ["a"]}).compile()
    assert face.invoke(graph, {"items": ["in"]}) == {"items": ["in", "a"]}


@STATES
def test_an_instance_of_the_state_can_be_the_input(face, schema):
    graph = chain(schema, a=lambda state: {"count": state.count + 1}).compile()
    assert face.invoke(graph, schema(items=["in"], count=1)) == {"items": ["in"], "count": 2}


@STATES
def test_a_node_may_return_an_instance(face, schema):
    graph = chain(schema, a=lambda state: schema(items=["a"], count=3)).compile()
    assert face.invoke(graph, {"items": ["in"]}) == {"items": ["in", "a"], "count": 3}


@STATES
def test_each_node_gets_an_instance_of_its_own(face, schema):
    def change(state):
        state.items.append("changed in place")
        state.count = 0

    seen = []
    graph = chain(schema, a=change, b=lambda state: seen.append((state.items, state.count))).compile()
    assert face.invoke(graph, {"items": ["in"], "count": 5}) == {"items": ["in"], "count": 5}
    assert seen == [(["in"], 5)]


def test_a_returned_pydantic_instance_writes_only_what_was_set(face):
    graph = chain(Model, a=lambda state: Model(items=["a"])).compile()
    assert face.invoke(graph, {"items": [], "count": 1}) == {"items": ["a"], "count": 1}


@STATES
def test_v2_returns_an_instance_of_the_output_schema(face, schema):
    graph = chain(schema, a=lambda state: {"items": ["a"]}).compile()
    assert face.invoke(graph, {"items": []}, version="v2").value == schema(items=["a"])


# --- pydantic ---------------------------------------------------------------------------------------------------------


def test_a_pydantic_state_refuses_an_input_that_violates_it(face):
    with pytest.raises(InvalidInputError, match="count"):
        face.invoke(chain(Model, a=lambda state: None).compile(), {"count": "many"})


def test_a_pydantic_state_refuses_a_write_at_the_node_that_made_it(face):
    graph = chain(Model, writer=lambda state: {"count": "many"}, reader=lambda state: None).compile()
    with pytest.raises(InvalidValueError) as caught:
        face.invoke(graph, {"items": []})
    for part in ("node 'writer'", "'count'", "Model"):
        assert part in str(caught.value)


def test_a_field_validator_is_asked_when_a_node_writes(face):
    with pytest.raises(InvalidValueError, match="too many"):
        face.invoke(chain(Model, a=lambda state: {"count": 101}).compile(), {"items": []})


def test_a_pydantic_state_coerces_as_pydantic_does(face):
    assert face.invoke(chain(Model, a=lambda state: {"count": "5"}).compile(), {"items": []})["count"] == 5


def test_a_model_validator_looks_at_the_whole_state_at_the_end_of_a_step_and_blames_the_writer(face):
    graph = chain(Ranged, narrows=lambda state: {"low": 11}, after=lambda state: None).compile()
    with pytest.raises(InvalidValueError) as caught:
        face.invoke(graph, {"low": 1})
    assert "low is above high" in str(caught.value)
    assert "'narrows'" in str(caught.value)


def test_a_model_validator_is_asked_once_both_fields_are_written(face):
    graph = parallel(Ranged, a=lambda state: {"low": 50}, b=lambda state: {"high": 60}).compile()
    assert face.invoke(graph, {"low": 1, "high": 2}) == {"low": 50, "high": 60}


# --- TypedDict --------------------------------------------------------------------------------------------------------


class Typed(TypedDict):
    x: int
    names: list[str]


def test_a_typeddict_state_is_a_plain_dict_with_the_keys_that_have_a_value(face):
    got = []
    face.invoke(chain(Typed, a=lambda state: got.append((isinstance(state, dict), dict(state)))).compile(), {"x": 1})
    assert got == [(True, {"x": 1})]


def test_a_typeddict_state_checks_keys_and_not_value_types(face):
    graph = chain(Typed, a=lambda state: {"names": 5}).compile()
    assert face.invoke(graph, {"x": "text"}) == {"x": "text", "names": 5}


def test_value_types_of_a_typeddict_are_checked_on_request(face):
    graph = chain(Typed, a=lambda state: {"names": 5}).compile(validate="values")
    with pytest.raises(InvalidValueError, match=r"node 'a'(.|\n)*'names'"):
        face.invoke(graph, {"x": 1})
    with pytest.raises(InvalidInputError, match="'x'"):
        face.invoke(graph, {"x": "text"})


def test_a_reducers_key_starts_empty_and_a_plain_key_starts_absent(face):
    class Kinds(TypedDict):
        items: Annotated[list, operator.add]
        total: Annotated[int, operator.add]
        plain: int

    got = []
    face.invoke(chain(Kinds, a=lambda state: got.append(dict(state))).compile(), {})
    assert got == [{"items": [], "total": 0}]


# --- a bare value -----------------------------------------------------------------------------------------------------


def test_a_state_can_be_one_bare_value(face):
    graph = chain(Annotated[list, operator.add], a=lambda state: ["a", len(state)], b=lambda state: ["b"]).compile()
    assert face.invoke(graph, ["in"]) == ["in", "a", 1, "b"]


def test_a_bare_value_is_streamed_bare(face):
    graph = chain(Annotated[list, operator.add], a=lambda state: ["a"]).compile()
    assert face.stream(graph, ["in"], stream_mode="values") == [["in"], ["in", "a"]]
    assert face.stream(graph, ["in"]) == [{"a": ["a"]}]


def test_a_command_updates_a_bare_value(face):
    graph = chain(Annotated[list, operator.add], a=lambda state: Command(update=["a"])).compile()
    assert face.invoke(graph, ["in"]) == ["in", "a"]


# --- input, output and private schemas ----------------------------------------------------------------------------


class Input(TypedDict):
    question: str


class Output(TypedDict):
    answer: str


class Everything(Input, Output):
    notes: Annotated[list[str], operator.add]


def test_input_and_output_schemas_name_what_goes_in_and_comes_out(face):
    graph = StateGraph(Everything, input_schema=Input, output_schema=Output)
    graph.add_node("a", lambda state: {"answer": state["question"] + "!", "notes": ["n"]}).add_edge(START, "a")
    compiled = graph.compile()
    assert face.invoke(compiled, {"question": "q"}) == {"answer": "q!"}
    with pytest.raises(InvalidInputError, match=r"'notes'(.|\n)*'question'"):
        face.invoke(compiled, {"question": "q", "notes": ["x"]})


class Private(TypedDict):
    secret: str


def test_nodes_hand_private_keys_on_that_the_output_does_not_show(face):
    def read(state: Private):
        return {"log": [dict(state)]}

    graph = chain(a=lambda state: {"secret": "s"}, b=read).compile()
    assert face.invoke(graph, {"log": []}) == {"log": [{"secret": "s"}]}


def test_input_schema_of_a_node_wins_over_its_hint(face):
    class Narrow(TypedDict):
        log: list

    def read(state: Private):
        return {"log": [sorted(state)]}

    graph = StateGraph(Log).add_node("b", read, input_schema=Narrow).add_edge(START, "b").compile()
    assert face.invoke(graph, {"log": [], "other": 1})["log"] == [["log"]]


# --- managed values and channels ----------------------------------------------------------------------------------


def test_nodes_read_how_many_steps_remain(face):
    class State(Log):
        left: RemainingSteps
        last: IsLastStep

    read = lambda state: {"log": [(state["left"], state["last"])]}
    graph = chain(State, a=read, b=read, c=read).compile()
    result = face.invoke(graph, {"log": []}, {"recursion_limit": 3})
    assert result == {"log": [(2, False), (1, False), (0, True)]}


def test_a_computed_value_cannot_be_written(face):
    class State(Log):
        left: RemainingSteps

    with pytest.raises(InvalidUpdateError, match="'left'"):
        face.invoke(chain(State, a=lambda state: {"left": 3}).compile(), {"log": []})


class Channels(TypedDict):
    log: Annotated[list[Any], operator.add]
    any: Annotated[int, AnyValue]
    once: Annotated[int, EphemeralValue]
    memory: Annotated[Any, UntrackedValue]
    topic: Annotated[list[str], Topic(str)]
    grows: Annotated[list[str], Topic(str, accumulate=True)]


def look(state):
    return {"log": [{key: value for key, value in state.items() if key != "log"}]}


def test_any_value_takes_equal_writes_of_one_step_and_forgets_them_after_a_step_without(face):
    graph = StateGraph(Channels)
    for name in "ab":
        graph.add_node(name, lambda state: {"any": 3}).add_edge(START, name).add_edge(name, "see")
    graph.add_node("see", look).add_node("later", look).add_edge("see", "later")
    assert [seen.get("any") for seen in face.invoke(graph.compile(), {})["log"]] == [3, None]


def test_ephemeral_values_are_seen_for_one_step(face):
    graph = chain(Channels, a=lambda state: {"once": 1}, see=look, later=look).compile()
    assert [seen.get("once") for seen in face.invoke(graph, {})["log"]] == [1, None]


def test_a_topic_is_what_was_written_in_a_step_or_all_of_it(face):
    write = lambda word: lambda state: {"topic": word, "grows": [word, word]}
    graph = chain(Channels, a=write("a"), see=look, b=write("b"), see2=look).compile()
    seen = face.invoke(graph, {})["log"]
    assert [one["topic"] for one in seen] == [["a"], ["b"]]
    assert [one["grows"] for one in seen] == [["a", "a"], ["a", "a", "b", "b"]]


def test_an_untracked_value_may_be_anything_and_is_not_stored(face, backend):
    tool = lambda: "a client that cannot be stored"
    see = lambda state: {"log": [state["memory"] is tool]}
    graph = chain(Channels, a=lambda state: {"memory": tool}, see=see).compile(checkpointer=backend.make())
    assert face.invoke(graph, {}, thread())["log"] == [True]
    assert "memory" not in face.get_state(graph, thread()).values


def test_overwrite_replaces_what_a_reducer_would_have_added_to(face):
    graph = chain(a=lambda state: {"log": Overwrite(["new"])}, b=lambda state: {"log": ["b"]}).compile()
    assert face.invoke(graph, {"log": ["old"]}) == {"log": ["new", "b"]}


def test_two_overwrites_of_one_key_in_one_step_are_an_error(face):
    graph = parallel(a=lambda state: {"log": Overwrite([1])}, b=lambda state: {"log": Overwrite([2])}).compile()
    with pytest.raises(InvalidUpdateError, match="'log'"):
        face.invoke(graph, {"log": []})


def test_two_writes_to_a_plain_key_in_one_step_are_an_error_that_names_key_nodes_and_cure(face):
    graph = parallel(Number, left=lambda state: {"x": 1}, right=lambda state: {"x": 2}).compile()
    with pytest.raises(InvalidUpdateError) as caught:
        face.invoke(graph, {"x": 0})
    for part in ("'x'", "'left'", "'right'", "Annotated[int, reducer]"):
        assert part in str(caught.value)


# --- what a node may return -------------------------------------------------------------------------------------------


class Annotations:
    """Any annotated class will do."""

    log: list[Any]
    other: Any = None

    def __init__(self):
        self.log = ["annotated"]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (None, ["in"]),
        ({}, ["in"]),
        ({"log": ["a"]}, ["in", "a"]),
        (Annotations(), ["in", "annotated"]),
        (Command(update={"log": ["a"]}), ["in", "a"]),
        (Command(update=[("log", ["a"]), ("log", ["b"])]), ["in", "a", "b"]),
        (Command(update=Annotations()), ["in", "annotated"]),
        (Command(), ["in"]),
        ([Command(update={"log": ["a"]}), None, {"log": ["b"]}], ["in", "a", "b"]),
        ((Command(update={"log": ["a"]}), {"log": ["b"]}), ["in", "a", "b"]),
    ],
)
def test_what_a_node_may_return(face, returned, expected):
    assert face.invoke(chain(a=lambda state: returned).compile(), {"log": ["in"]}) == {"log": expected}


@pytest.mark.parametrize("returned", [5, "text", [1, 2], {"log"}, 1j], ids=str)
def test_what_is_no_update_is_an_error_that_names_the_node_and_what_it_returned(face, returned):
    with pytest.raises(InvalidUpdateError, match=f"node 'a' returned(.|\n)*{type(returned).__name__}"):
        face.invoke(chain(a=lambda state: returned).compile(), {"log": []})
