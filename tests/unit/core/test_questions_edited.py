"""Questions of a task whose state somebody edited: texts may differ, places do not."""

import pytest

from durable_graph.errors import InterruptMismatchError
from durable_graph.runtime.questions import Asked
from durable_graph.types import MISSING


def ids(*questions, task="task"):
    """The ids of these questions, asked in this order."""
    asking = Asked(task, {}, ())
    return [asking.ask(question, question, None)[0] for question in questions]


ONE, TWO, THREE = ids("one", "two", "three")


def test_an_answer_reaches_the_question_in_its_place_though_its_text_changed():
    asking = Asked("task", {ONE: "yes"}, (ONE,), edited=True)
    assert asking.ask("one, edited", "one, edited", None) == (ONE, "yes")
    assert (asking.answered, asking.open) == ([ONE], [])


def test_each_of_several_answers_reaches_its_place():
    asking = Asked("task", {ONE: 1, TWO: 2, THREE: 3}, (ONE, TWO, THREE), edited=True)
    assert [asking.ask(text, text, None)[1] for text in ("a", "b", "c")] == [1, 2, 3]
    assert asking.answered == [ONE, TWO, THREE]


def test_behind_the_last_answer_a_changed_question_is_a_new_one():
    asking = Asked("task", {ONE: 1}, (ONE, TWO), edited=True)
    assert asking.ask("a", "a", None) == (ONE, 1)
    found, answer = asking.ask("b", "b", None)
    assert (found in (ONE, TWO), answer) == (False, MISSING)
    assert [one.id for one in asking.open] == [found]


def test_a_question_whose_text_is_as_before_keeps_its_own_answer():
    asking = Asked("task", {ONE: 1, TWO: 2}, (ONE, TWO), edited=True)
    assert asking.ask("one", "one", None) == (ONE, 1)
    assert asking.ask("changed", "changed", None) == (TWO, 2)


def test_in_another_order_texts_count_more_than_places():
    asking = Asked("task", {ONE: 1, TWO: 2}, (ONE, TWO), edited=True)
    assert asking.ask("two", "two", None) == (TWO, 2)
    assert asking.ask("one", "one", None) == (ONE, 1)


def test_an_answer_for_another_place_is_never_taken():
    asking = Asked("task", {TWO: 2}, (ONE, TWO), edited=True)
    with pytest.raises(InterruptMismatchError, match=TWO):
        asking.ask("changed", "changed", None)


def test_without_an_edit_a_changed_question_is_refused():
    asking = Asked("task", {ONE: 1}, (ONE,))
    with pytest.raises(InterruptMismatchError, match=ONE):
        asking.ask("changed", "changed", None)
    assert asking.open == asking.answered == []


def test_what_another_task_asked_is_nobodys_question_here():
    [other] = ids("one", task="another task")
    asking = Asked("task", {other: 1}, (other,), edited=True)
    assert asking.ask("changed", "changed", None)[1] is MISSING
