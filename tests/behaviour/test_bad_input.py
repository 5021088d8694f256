"""Bad input of every kind: a typed error that names place and cure, and a thread that is as it was and goes on once the
code is right.
"""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from durable_graph import START, Command, Send, StateGraph
from durable_graph.errors import (
    EmptyInputError,
    InvalidInputError,
    InvalidUpdateError,
    InvalidValueError,
    NoCheckpointerError,
    NodeFailure,
    UnserializableValueError,
    UsageError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, chain, dump, parallel, thread


class Plain(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: Annotated[int, operator.add]
    x: Any


class Model(BaseModel):
    log: Annotated[list[Any], operator.add] = Field(default_factory=list)
    total: Annotated[int, operator.add] = 0
    x: int = 0
    low: int = 0
    high: int = 10

    @field_validator("x")
    @classmethod
    def _even(cls, value):
        if value % 2:
            text = "x must be even"
            raise ValueError(text)
        return value

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            text = "low is above high"
            raise ValueError(text)
        return self


@dataclass
class Data:
    log: Annotated[list[Any], operator.add]
    x: int = 0

    def __post_init__(self):
        if self.x == 13:
            text = "thirteen is refused"
            raise ValueError(text)


class Client:
    """Something that cannot be stored."""

    def __repr__(self):  # without an address: a test's name is the same in every process
        return "Client()"


CASES = {
    "an unknown key": (Plain, {"oops": 1}, InvalidUpdateError, ["node 'bad'", "'oops'", "'log'", "'total'", "'x'"]),
    "no update": (Plain, 5, InvalidUpdateError, ["node 'bad'", "expected dict, got int"]),
    "a list of updates": (Plain, [{"x": 1}], InvalidUpdateError, ["node 'bad'", "got list"]),
    "a key that is no text": (Plain, {1: 1}, InvalidUpdateError, ["node 'bad'", "1", "'log'"]),
    "an unknown goto": (Plain, Command(goto="zzz"), InvalidUpdateError, ["node 'bad'", "'zzz'", "'after'"]),
    "a goto that is no name": (Plain, Command(goto=7), InvalidUpdateError, ["node 'bad'", "7", "'after'"]),
    "a Send to nowhere": (Plain, Send("zzz", 1), InvalidUpdateError, ["node 'bad'", "'zzz'", "'after'"]),
    "an unknown key of a Command": (Plain, Command(update={"oops": 1}), InvalidUpdateError, ["node 'bad'", "'oops'"]),
    "no update of a Command": (Plain, Command(update=5), InvalidUpdateError, ["node 'bad'", "got int"]),
    "a value that cannot be stored": (
        Plain,
        {"x": Client()},
        UnserializableValueError,
        ["node 'bad'", "'x'", "Client", "register_type", "UntrackedValue"],
    ),
    "one deep inside": (
        Plain,
        {"x": {"a": [1, Client()]}},
        UnserializableValueError,
        ["node 'bad'", "'x'", "['a'][1]"],
    ),
    "one appended to a list": (Plain, {"log": [Client()]}, UnserializableValueError, ["node 'bad'", "'log'", "Client"]),
    "one in a Send": (Plain, Send("after", Client()), UnserializableValueError, ["node 'bad'", "'after'", "Client"]),
    "a reducer that raises": (Plain, {"total": "text"}, TypeError, []),
    "a value of the wrong type": (Model, {"x": "text"}, InvalidValueError, ["node 'bad'", "'x'", "Model"]),
    "None for a list": (Model, {"log": None}, (InvalidValueError, TypeError), []),
    "a value that a validator refuses": (Model, {"x": 3}, InvalidValueError, ["node 'bad'", "x must be even"]),
    "values that do not go together": (Model, {"low": 11}, InvalidValueError, ["'bad'", "low is above high"]),
    "an unknown key of a model": (Model, {"oops": 1}, InvalidUpdateError, ["node 'bad'", "'oops'"]),
    "a dataclass that refuses": (Data, {"x": 13}, ValueError, []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_bad_update_is_an_error_that_names_place_and_cure_and_leaves_the_thread_resumable(face, backend, case):
    schema, returned, kind, parts = case
    mended = [False]

    def bad(state):
        return {"log": ["mended"]} if mended[0] else returned

    builder = chain(schema, first=says("first"), bad=bad, after=says("after"))
    graph = builder.compile(checkpointer=backend.make())
    with pytest.raises(kind) as caught:
        face.invoke(graph, {"log": []}, thread())
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    for part in parts:
        assert part in told
    assert "'bad'" in told
    if isinstance(caught.value, NodeFailure):
        assert "Cure: " in told
    snapshot = face.get_state(graph, thread())
    assert (snapshot.values["log"], snapshot.next) == (["first"], ("bad",))
    assert snapshot.tasks[0].error
    assert len(face.get_state_history(graph, thread())) == 3

    mended[0] = True
    again = builder.compile(checkpointer=backend.reopen())
    assert face.invoke(again, None, thread())["log"] == ["first", "mended", "after"]


def test_a_failing_reducer_names_node_and_key(face):
    with pytest.raises(TypeError) as caught:
        face.invoke(chain(Plain, bad=lambda state: {"total": "text"}).compile(), {"log": []})
    assert "'bad'" in "\n".join(caught.value.__notes__)
    assert "'total'" in "\n".join(caught.value.__notes__)


def test_a_refused_update_of_one_node_leaves_its_siblings_result_alone(face, backend):
    mended, runs = [False], []

    def good(state):
        runs.append(1)
        return {"log": ["good"]}

    def bad(state):
        return {"total": 1 if mended[0] else "text"}

    graph = parallel(Plain, bad=bad, good=good).compile(checkpointer=backend.make())
    with pytest.raises(TypeError):
        face.invoke(graph, {"log": [], "total": 1}, thread())
    mended[0] = True
    assert face.invoke(graph, None, thread()) == {"log": ["good"], "total": 2}
    assert len(runs) == 1


def test_none_of_a_refused_update_is_kept(face, backend):
    graph = chain(Plain, bad=lambda state: {"log": ["half"], "oops": 1}).compile(checkpointer=backend.make())
    with pytest.raises(InvalidUpdateError):
        face.invoke(graph, {"log": []}, thread())
    assert face.get_state(graph, thread()).values["log"] == []


# --- routers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["zzz", None, Send("zzz", 1), Send("b", Client())], ids=str)
def test_a_bad_route_leaves_the_thread_resumable(face, backend, answer):
    answers = [answer]
    graph = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b")).add_edge(START, "a")
    compiled = graph.add_conditional_edges("a", lambda state: answers[0], ["b"]).compile(checkpointer=backend.make())
    with pytest.raises(NodeFailure, match="'a'"):
        face.invoke(compiled, {"log": []}, thread())
    assert face.get_state(compiled, thread()).next == ("a",)
    answers[0] = "b"
    assert face.invoke(compiled, None, thread()) == {"log": ["a", "b"]}


def test_a_bad_route_from_start_leaves_the_thread_resumable(face, backend):
    answers = ["zzz"]
    graph = StateGraph(Log).add_node("a", says("a"))
    compiled = graph.add_conditional_edges(START, lambda state: answers[0]).compile(checkpointer=backend.make())
    with pytest.raises(InvalidUpdateError, match=r"'zzz'(.|\n)*'a'"):
        face.invoke(compiled, {"log": ["in"]}, thread())
    assert face.get_state(compiled, thread()).next == (START,)
    answers[0] = "a"
    assert face.invoke(compiled, None, thread()) == {"log": ["in", "a"]}


# --- calls ------------------------------------------------------------------------------------------------------------

CALLS = {
    "an unknown key": ({"lgo": []}, InvalidInputError, ["'lgo'", "'log'", "Log"]),
    "no dict": ([1], InvalidInputError, ["list", "expected a dict", "Log"]),
    "a text": ("text", InvalidInputError, ["str", "expected a dict"]),
    "a value that cannot be stored": (
        {"other": Client()},
        UnserializableValueError,
        ["the input", "'other'", "Client"],
    ),
    "nothing": (None, EmptyInputError, ["'t'", "Pass an input"]),
    "an answer to nothing": (Command(resume=1), (EmptyInputError, UsageError), ["'t'"]),
    "an empty Command": (Command(), EmptyInputError, ["empty Command"]),
    "an unknown key of a Command": (Command(update={"oops": 1}), InvalidUpdateError, ["'oops'", "'log'"]),
    "an unknown goto of a Command": (Command(goto="zzz"), InvalidUpdateError, ["'zzz'", "'a'"]),
    "a Command for a parent": (Command(graph=Command.PARENT, goto="a"), InvalidUpdateError, ["no parent"]),
    "a Command with a value that cannot be stored": (
        Command(update={"other": Client()}),
        UnserializableValueError,
        ["'other'", "Client"],
    ),
    "an answer that cannot be stored": (Command(resume=Client()), UnserializableValueError, ["answer", "Client"]),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_bad_call_is_an_error_that_names_place_and_cure_and_stores_nothing(face, backend, method, case):
    given, kind, parts = case
    checkpointer = backend.make()
    graph = chain(a=says("a")).compile(checkpointer=checkpointer)
    with pytest.raises(kind) as caught:
        getattr(face, method)(graph, given, thread())
    for part in (*parts, "Cure: "):
        assert part in str(caught.value)
    assert dump(checkpointer) is None
    assert face.invoke(graph, {"log": []}, thread()) == {"log": ["a"]}


@pytest.mark.parametrize(
    "given",
    [{"lgo": []}, [1], {"other": Client()}, Command(update={"oops": 1})],
    ids=["key", "list", "value", "command"],
)
def test_a_bad_call_changes_nothing_on_a_thread_that_has_a_run(face, backend, given):
    checkpointer = backend.make()
    graph = chain(a=says("a")).compile(checkpointer=checkpointer)
    face.invoke(graph, {"log": []}, thread())
    before = dump(checkpointer)
    with pytest.raises((UsageError, NodeFailure)):
        face.invoke(graph, given, thread())
    assert dump(checkpointer) == before


def test_an_input_that_violates_a_model_stores_nothing(face, backend):
    checkpointer = backend.make()
    graph = chain(Model, a=says("a")).compile(checkpointer=checkpointer)
    with pytest.raises(InvalidInputError, match="'x'"):
        face.invoke(graph, {"x": 3}, thread())
    assert dump(checkpointer) is None


def test_an_input_whose_values_do_not_go_together_can_be_corrected(face, backend):
    graph = chain(Model, a=says("a")).compile(checkpointer=backend.make())
    with pytest.raises(InvalidValueError, match="low is above high"):
        face.invoke(graph, {"low": 50}, thread())
    assert face.invoke(graph, {"low": 5}, thread(), on_unfinished="abandon")["log"] == ["a"]


def test_an_interrupt_without_a_checkpointer_is_an_error_that_names_the_node(face):
    from durable_graph import interrupt

    graph = chain(asks=lambda state: interrupt("q")).compile()
    with pytest.raises(NoCheckpointerError, match=r"node 'asks'(.|\n)*checkpointer"):
        face.invoke(graph, {"log": []})


# --- strict=False -----------------------------------------------------------------------------------------------------


def lenient(face, builder, given=None, **keywords):
    return face.invoke(builder.compile(strict=False), given or {"log": []}, **keywords)


@pytest.mark.parametrize(
    "returned",
    [
        {"log": ["a"], "oops": 1},
        Command(update={"log": ["a"], "oops": 1}),
        Command(update=[("log", ["a"]), ("oops", 1)]),
    ],
)
def test_a_lenient_graph_drops_unknown_keys_of_updates(face, returned):
    assert lenient(face, chain(a=lambda state: returned)) == {"log": ["a"]}


def test_a_lenient_graph_drops_unknown_keys_of_the_input(face):
    assert lenient(face, chain(a=says("a")), {"log": ["in"], "oops": 1}) == {"log": ["in", "a"]}


@pytest.mark.parametrize("target", ["zzz", Send("zzz", 1), ["zzz", "b"]])
def test_a_lenient_graph_ignores_routes_to_nowhere(face, target):
    expected = ["a", "b"] if isinstance(target, list) else ["a"]
    command = chain(a=lambda state: Command(update={"log": ["a"]}, goto=target)).add_node("b", says("b"))
    assert lenient(face, command) == {"log": expected}
    router = chain(a=says("a")).add_node("b", says("b")).add_conditional_edges("a", lambda state: target)
    assert lenient(face, router) == {"log": expected}


@pytest.mark.parametrize("returned", [5, "text", [1]])
def test_a_lenient_graph_still_refuses_what_is_no_update(face, returned):
    with pytest.raises(InvalidUpdateError, match="node 'a'"):
        lenient(face, chain(a=lambda state: returned))


def test_a_lenient_graph_still_refuses_a_router_without_answer(face):
    graph = chain(a=says("a")).add_conditional_edges("a", lambda state: None)
    with pytest.raises(InvalidUpdateError, match="'a'"):
        lenient(face, graph)
