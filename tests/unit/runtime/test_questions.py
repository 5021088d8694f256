"""Questions of one attempt: ids, places, and which answer is missing."""

from types import SimpleNamespace

import pytest

from durable_graph.core.identity import is_interrupt_id
from durable_graph.errors import InterruptMismatchError
from durable_graph.runtime.questions import Asked
from durable_graph.types import MISSING


def place(path, *order):
    return SimpleNamespace(path=path, order=order)


A, B, INNER = place("a#0", 1), place("b#0", 2), place("a#0/inner#0", 1, 1)


def ask(asked, question, at=None):
    found, answer = asked.ask(question, question, None, at)
    assert is_interrupt_id(found)
    return found, answer


def test_equal_questions_in_other_places_are_other_questions():
    asked = Asked("task", {}, [])
    ids = [ask(asked, "?", at)[0] for at in (None, A, B, INNER, A)]
    assert len(set(ids)) == 5
    again = Asked("task", {}, ids)
    assert [ask(again, "?", at)[0] for at in (A, INNER, None, A, B)] == [ids[1], ids[3], ids[0], ids[4], ids[2]]
    assert ask(Asked("other", {}, []), "?")[0] not in ids


def test_a_place_that_is_not_asked_again_is_not_missed():
    first = Asked("task", {}, [])
    ids = {at.path: ask(first, "?", at)[0] for at in (A, B)}
    asked = Asked("task", {ids["a#0"]: 1, ids["b#0"]: 2}, list(ids.values()))
    assert ask(asked, "something new")[1] is MISSING
    assert ask(asked, "?", B) == (ids["b#0"], 2)


def test_a_place_that_asks_something_else_while_an_answer_waits_is_refused():
    found, _ = ask(Asked("task", {}, []), "first?", A)
    asked = Asked("task", {found: 1}, [found])
    with pytest.raises(InterruptMismatchError, match="other"):
        ask(asked, "other?", A)
    assert ask(asked, "other?", B)[1] is MISSING


def test_after_an_edit_the_answer_is_for_the_question_in_its_place():
    found, _ = ask(Asked("task", {}, []), "first?", A)
    asked = Asked("task", {found: 1}, [found], edited=True)
    assert ask(asked, "with another text?", A) == (found, 1)


def test_open_questions_of_a_step_are_those_of_steps_inside_it_too():
    asked = Asked("task", {}, [])
    for at in (None, INNER, A, B, place("a#01", 3)):
        ask(asked, at.path if at else "top", at)
    assert [one.value for one in asked.open_within(A)] == ["a#0/inner#0", "a#0"]
    assert [one.value for one in asked.open_within(INNER)] == ["a#0/inner#0"]


def test_open_questions_are_arranged_in_the_order_of_calls():
    asked = Asked("task", {}, [])
    for at in (B, INNER, A):
        ask(asked, at.path, at)
    asked.arrange()
    assert [one.value for one in asked.open] == ["a#0", "a#0/inner#0", "b#0"]
