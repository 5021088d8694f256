"""Questions, and how answers find them."""

import pytest

from durable_graph.core.identity import interrupt_id
from durable_graph.core.interrupts import Questions, resolve_answers
from durable_graph.errors import InterruptMismatchError, UnknownInterruptError
from durable_graph.types import MISSING, Interrupt

FIRST, AGAIN, OTHER = (interrupt_id("task", *asked) for asked in [("q", 0), ("q", 1), ("r", 0)])


def test_a_question_without_an_answer_is_open():
    asking = Questions("task", {}, ())
    assert asking.ask("value", "q", {"type": "string"}) == (FIRST, MISSING)
    assert asking.open == [Interrupt("value", FIRST, {"type": "string"})]
    assert asking.answered == []


@pytest.mark.parametrize("answer", [0, "", None, False, {}, MISSING.__class__])
def test_falsy_answers_are_answers(answer):
    asking = Questions("task", {FIRST: answer}, (FIRST,))
    assert asking.ask("value", "q", None) == (FIRST, answer)
    assert asking.open == []
    assert asking.answered == [FIRST]


def test_equal_questions_are_told_apart_by_how_often_they_were_asked():
    asking = Questions("task", {FIRST: "one"}, (FIRST,))
    assert asking.ask("value", "q", None) == (FIRST, "one")
    assert asking.ask("value", "q", None) == (AGAIN, MISSING)


def test_an_answer_reaches_its_question_in_whatever_order_questions_come():
    asking = Questions("task", {OTHER: "to r", FIRST: "to q"}, (FIRST, OTHER))
    assert asking.ask("b", "r", None) == (OTHER, "to r")
    assert asking.ask("a", "q", None) == (FIRST, "to q")


def test_an_answer_never_reaches_another_question():
    asking = Questions("task", {FIRST: "to q"}, (FIRST,))
    with pytest.raises(InterruptMismatchError, match=f"asks 'new'.*{FIRST}.*would be lost"):
        asking.ask("new", "r", None)


def test_a_known_question_may_come_before_the_answered_one():
    asking = Questions("task", {FIRST: "to q"}, (FIRST, OTHER))
    assert asking.ask("b", "r", None) == (OTHER, MISSING)


def test_a_new_question_may_come_after_the_answered_one():
    asking = Questions("task", {FIRST: "to q"}, (FIRST,))
    asking.ask("a", "q", None)
    assert asking.ask("b", "r", None) == (OTHER, MISSING)


def test_answers_of_other_tasks_stand_in_no_way():
    asking = Questions("task", {"intr_of_another": 1}, ())
    assert asking.ask("a", "q", None) == (FIRST, MISSING)


# --- which answer is for whom ----------------------------------------------------------------------------------------

ONE, TWO = Interrupt("a?", FIRST), Interrupt("b?", OTHER)


@pytest.mark.parametrize("answer", [None, 0, "x", [], {}, {"approve": True}, {1: 2}])
def test_any_value_answers_the_only_open_question(answer):
    assert resolve_answers(answer, [ONE]) == {FIRST: answer}


def test_a_dict_of_ids_is_a_map_of_answers():
    assert resolve_answers({FIRST: 1}, [ONE]) == {FIRST: 1}
    assert resolve_answers({OTHER: 2, FIRST: 1}, [ONE, TWO]) == {FIRST: 1, OTHER: 2}
    assert resolve_answers({OTHER: None}, [ONE, TWO]) == {OTHER: None}


def test_an_id_that_is_not_open_is_named_and_nothing_is_answered():
    with pytest.raises(UnknownInterruptError, match=f"{AGAIN} is not open; open: {FIRST}") as caught:
        resolve_answers({FIRST: 1, AGAIN: 2}, [ONE])
    assert caught.value.interrupt_ids == (AGAIN,)
    assert caught.value.pending_ids == (FIRST,)
    with pytest.raises(UnknownInterruptError, match="typo, intr_1 are not open"):
        resolve_answers({FIRST: 1, "typo": 2, "intr_1": 3}, [ONE])


@pytest.mark.parametrize("answer", ["yes", {}, {"approve": True}])
def test_an_answer_that_names_none_of_several_questions_is_refused(answer):
    with pytest.raises(UnknownInterruptError, match="2 interrupts are open") as caught:
        resolve_answers(answer, [ONE, TWO])
    assert caught.value.pending_ids == (FIRST, OTHER)


def test_an_answer_to_nothing_is_refused_with_the_cure():
    with pytest.raises(UnknownInterruptError, match="nothing to resume") as caught:
        resolve_answers("yes", [])
    assert "invoke(None, config)" in caught.value.cure
