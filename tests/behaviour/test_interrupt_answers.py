"""Which answer reaches which question, and which answers are refused."""

import itertools
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel

from durable_graph import Command, interrupt
from durable_graph.errors import (
    EmptyInputError,
    InterruptMismatchError,
    InvalidValueError,
    UnknownInterruptError,
)
from tests.behaviour.small_graphs import Marks, asked, chain, dump, parallel, thread

CFG = thread()
UNKNOWN = "intr_" + "0" * 32


def asking(name, marks=None):
    def ask(state):
        if marks is not None:
            marks(name)
        return {"log": [(name, interrupt(name))]}

    return ask


def refused(face, saver, graph, given, error, match=None):
    """The call is refused, and neither the state nor any stored row changed."""
    state, rows = face.get_state(graph, CFG), dump(saver)
    with pytest.raises(error, match=match) as caught:
        face.invoke(graph, given, CFG)
    assert face.get_state(graph, CFG) == state
    assert dump(saver) == rows
    return caught.value


# --- order and choice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_questions_can_be_answered_one_by_one_in_any_order(face, backend, order):
    marks = Marks()
    graph = parallel(**{name: asking(name, marks) for name in "abc"}).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    for name in order[:-1]:
        open_now = asked(face.invoke(graph, Command(resume={ids[name]: name.upper()}), CFG)["__interrupt__"])
        assert name not in open_now
        assert set(open_now.items()) <= set(ids.items())
    result = face.invoke(graph, Command(resume={ids[order[-1]]: order[-1].upper()}), CFG)
    assert result["log"] == [("a", "A"), ("b", "B"), ("c", "C")]
    assert [marks.count(name) for name in "abc"] == [2, 2, 2]


def test_some_questions_can_be_answered_together_and_the_rest_later(face, backend):
    graph = parallel(**{name: asking(name) for name in "abcd"}).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    left = face.invoke(graph, Command(resume={ids["d"]: 4, ids["b"]: 2}), CFG)
    assert asked(left["__interrupt__"]) == {"a": ids["a"], "c": ids["c"]}
    result = face.invoke(graph, Command(resume={ids["a"]: 1, ids["c"]: 3}), CFG)
    assert result["log"] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_the_last_open_question_takes_a_plain_answer(face, backend):
    graph = parallel(a=asking("a"), b=asking("b")).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.invoke(graph, Command(resume={ids["a"]: 1}), CFG)
    assert face.invoke(graph, Command(resume={"plain": "dict"}), CFG)["log"] == [("a", 1), ("b", {"plain": "dict"})]


def test_a_sole_question_can_be_answered_by_id_too(face, backend):
    graph = chain(ask=asking("a")).compile(backend.make())
    [asked_once] = face.invoke(graph, {}, CFG)["__interrupt__"]
    assert face.invoke(graph, Command(resume={asked_once.id: {}}), CFG)["log"] == [("a", {})]


def test_a_node_is_entered_only_for_its_own_answers(face, backend):
    marks = Marks()

    def twice(state):
        marks("b")
        return {"log": [interrupt("b1"), interrupt("b2")]}

    graph = parallel(a=asking("a", marks), b=twice).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert (marks.count("a"), marks.count("b")) == (1, 1)
    ids |= asked(face.invoke(graph, Command(resume={ids["b1"]: 1}), CFG)["__interrupt__"])
    assert (marks.count("a"), marks.count("b")) == (1, 2)
    face.invoke(graph, Command(resume={ids["a"]: "A"}), CFG)
    assert (marks.count("a"), marks.count("b")) == (2, 2)
    assert face.invoke(graph, Command(resume=2), CFG)["log"] == [("a", "A"), 1, 2]
    assert (marks.count("a"), marks.count("b")) == (2, 3)


def test_going_on_without_an_answer_enters_no_waiting_node(face, backend):
    marks = Marks()
    graph = parallel(a=asking("a", marks), b=asking("b", marks)).compile(backend.make())
    first = face.invoke(graph, {}, CFG)["__interrupt__"]
    again = face.invoke(graph, None, CFG)["__interrupt__"]
    assert asked(again) == asked(first)
    assert len(marks.seen) == 2


def test_an_answer_never_reaches_another_question(face, backend):
    flag = [True]

    def ask(state):
        if flag:
            interrupt("A")
        return {"answer": ("B", interrupt("B"))}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume="ansA"), CFG)["__interrupt__"][0].value == "B"
    flag.clear()
    assert face.invoke(graph, Command(resume="ansB"), CFG)["answer"] == ("B", "ansB")


def test_an_answer_waits_until_its_question_is_asked_again(face, backend):
    path = ["A"]
    graph = chain(ask=lambda state: {"answer": interrupt(path[0])}).compile(backend.make())
    first = face.invoke(graph, {}, CFG)["__interrupt__"][0]
    path[0] = "B"
    with pytest.raises(InterruptMismatchError, match="asks 'B'.*" + first.id):
        face.invoke(graph, Command(resume="for A"), CFG)
    path[0] = "A"
    assert face.invoke(graph, None, CFG)["answer"] == "for A"


def test_a_node_that_asks_something_else_than_what_was_answered_is_an_error(face, backend):
    path = ["ship it?"]
    graph = chain(ask=lambda state: {"answer": interrupt(path[0])}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    path[0] = "delete everything?"
    with pytest.raises(InterruptMismatchError, match="delete everything") as caught:
        face.invoke(graph, Command(resume="yes"), CFG)
    assert "key=" in str(caught.value)
    assert face.get_state(graph, CFG).next == ("ask",)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_an_unknown_id_is_refused_and_the_open_ones_are_named(face, backend):
    saver = backend.make()
    graph = chain(ask=asking("a")).compile(saver)
    open_id = face.invoke(graph, {}, CFG)["__interrupt__"][0].id
    error = refused(face, saver, graph, Command(resume={UNKNOWN: "yes"}), UnknownInterruptError)
    assert error.interrupt_ids == (UNKNOWN,)
    assert error.pending_ids == (open_id,)
    assert open_id in str(error)
    assert face.invoke(graph, Command(resume={open_id: 1}), CFG)["log"] == [("a", 1)]


def test_an_unknown_id_among_known_ones_refuses_all_of_them(face, backend):
    saver = backend.make()
    graph = parallel(a=asking("a"), b=asking("b")).compile(saver)
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    for extra in (UNKNOWN, "no id at all"):
        error = refused(face, saver, graph, Command(resume={ids["a"]: 1, extra: 2}), UnknownInterruptError)
        assert error.interrupt_ids == (extra,)


def test_a_plain_answer_to_several_questions_is_refused(face, backend):
    saver = backend.make()
    graph = parallel(a=asking("a"), b=asking("b")).compile(saver)
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    for answer in ("yes", None, {}, {"plain": "dict"}):
        error = refused(face, saver, graph, Command(resume=answer), UnknownInterruptError, "2 interrupts are open")
        assert set(error.pending_ids) == set(ids.values())


def test_an_answered_question_cannot_be_answered_again(face, backend):
    saver = backend.make()
    graph = parallel(a=asking("a"), b=asking("b")).compile(saver)
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    face.invoke(graph, Command(resume={ids["a"]: 1}), CFG)
    error = refused(face, saver, graph, Command(resume={ids["a"]: 2}), UnknownInterruptError)
    assert error.pending_ids == (ids["b"],)


def test_a_question_of_an_earlier_step_cannot_be_answered(face, backend):
    saver = backend.make()
    graph = chain(one=asking("same"), two=asking("same")).compile(saver)
    old = face.invoke(graph, {}, CFG)["__interrupt__"][0].id
    new = face.invoke(graph, Command(resume=1), CFG)["__interrupt__"][0].id
    assert new != old
    error = refused(face, saver, graph, Command(resume={old: 2}), UnknownInterruptError, "not open")
    assert (error.interrupt_ids, error.pending_ids) == ((old,), (new,))


def test_a_late_answer_to_an_abandoned_question_is_refused(face, backend):
    saver = backend.make()
    graph = chain(ask=asking("a")).compile(saver)
    old = face.invoke(graph, {}, CFG)["__interrupt__"][0].id
    face.invoke(graph, {}, CFG, on_unfinished="abandon")
    refused(face, saver, graph, Command(resume={old: "late"}), UnknownInterruptError, "not open")


def test_a_question_of_another_thread_cannot_be_answered(face, backend):
    saver = backend.make()
    graph = chain(ask=asking("a")).compile(saver)
    other = face.invoke(graph, {}, thread("other"))["__interrupt__"][0].id
    face.invoke(graph, {}, CFG)
    refused(face, saver, graph, Command(resume={other: "x"}), UnknownInterruptError, "not open")


def test_a_finished_thread_has_nothing_to_resume(face, backend):
    saver = backend.make()
    graph = chain(a=lambda state: {"log": ["a"]}).compile(saver)
    face.invoke(graph, {}, CFG)
    refused(face, saver, graph, Command(resume="x"), UnknownInterruptError, "nothing to resume")


def test_an_unknown_thread_has_nothing_to_resume_and_stays_unknown(face, backend):
    saver = backend.make()
    graph = chain(ask=asking("a")).compile(saver)
    refused(face, saver, graph, Command(resume="x"), EmptyInputError, "'t' has no run")
    assert dump(saver) is None


def test_a_thread_that_failed_without_a_question_has_nothing_to_resume(face, backend):
    def fail(state):
        raise ValueError("broken")

    saver = backend.make()
    graph = chain(fail=fail).compile(saver)
    with pytest.raises(ValueError, match="broken"):
        face.invoke(graph, {}, CFG)
    refused(face, saver, graph, Command(resume="x"), UnknownInterruptError, "nothing to resume")


# --- response schemas ------------------------------------------------------------------------------------------------


class Approval(BaseModel):
    approved: bool
    note: str = ""


@dataclass
class Choice:
    number: int


@pytest.mark.parametrize(
    ("schema", "answer", "delivered"),
    [
        (Approval, {"approved": True}, Approval(approved=True)),
        (Choice, {"number": 3}, Choice(3)),
        (bool, False, False),
        (int, 7, 7),
        (Literal["yes", "no"], "no", "no"),
        (list[int], [], []),
        (int | None, None, None),
    ],
    ids=str,
)
def test_an_answer_arrives_as_the_type_that_was_asked_for(face, backend, schema, answer, delivered):
    def ask(state):
        got = interrupt("?", response_schema=schema)
        return {"answer": (type(got) is type(delivered), got == delivered)}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume=answer), CFG)["answer"] == (True, True)


def test_an_answer_that_does_not_fit_is_an_error_and_the_question_stays_open(face, backend):
    def ask(state):
        return {"answer": interrupt("how many?", response_schema=int)}

    builder = chain(ask=ask)
    graph = builder.compile(backend.make())
    [question] = face.invoke(graph, {}, CFG)["__interrupt__"]
    with pytest.raises(InvalidValueError, match=r"how many\?.*'ask'"):
        face.invoke(graph, Command(resume="a few"), CFG)
    assert [one.id for one in face.get_state(graph, CFG).interrupts] == [question.id]
    elsewhere = builder.compile(backend.reopen())
    assert [one.id for one in face.invoke(elsewhere, None, CFG)["__interrupt__"]] == [question.id]
    with pytest.raises(InvalidValueError):
        face.invoke(elsewhere, Command(resume={question.id: None}), CFG)
    assert face.invoke(elsewhere, Command(resume=3), CFG)["answer"] == 3


def test_an_answer_that_does_not_fit_leaves_the_answers_of_others_alone(face, backend):
    def checked(state):
        return {"log": [("checked", interrupt("number?", response_schema=int))]}

    marks = Marks()
    graph = parallel(checked=checked, free=asking("free", marks)).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    with pytest.raises(InvalidValueError):
        face.invoke(graph, Command(resume={ids["number?"]: "x", ids["free"]: "kept"}), CFG)
    assert asked(face.get_state(graph, CFG)) == {"number?": ids["number?"]}
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == [("checked", 1), ("free", "kept")]
    assert marks.count("free") == 2


def test_only_the_answer_that_does_not_fit_is_asked_again(face, backend):
    marks = Marks()

    def ask(state):
        first = interrupt("first?", response_schema=int)
        marks(first)
        return {"log": [first, interrupt("second?", response_schema=int)]}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume=1), CFG)
    with pytest.raises(InvalidValueError, match="second"):
        face.invoke(graph, Command(resume="no number"), CFG)
    assert list(asked(face.get_state(graph, CFG))) == ["second?"]
    assert face.invoke(graph, Command(resume=2), CFG)["log"] == [1, 2]


def test_a_type_is_shown_as_its_json_schema(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?", response_schema=Approval)}).compile(backend.make())
    [question] = face.invoke(graph, {}, CFG)["__interrupt__"]
    assert question.response_schema["properties"]["approved"]["type"] == "boolean"
    assert face.get_state(graph, CFG).interrupts == (question,)


def test_a_schema_dict_is_shown_and_checks_nothing(face, backend):
    schema = {"type": "integer", "title": "Number"}
    graph = chain(ask=lambda state: {"answer": interrupt("?", response_schema=schema)}).compile(backend.make())
    [question] = face.invoke(graph, {}, CFG)["__interrupt__"]
    assert question.response_schema == schema
    assert face.invoke(graph, Command(resume="no integer"), CFG)["answer"] == "no integer"
