"""Every tool call in a history has exactly one tool message, right behind it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from durable_graph.messages import AIMessage, HumanMessage, ToolMessage
from durable_graph.prebuilt import answer_orphans, distinct_calls, pending_calls


def ai(*keys, key="m"):
    return AIMessage("", id=key, tool_calls=[{"name": f"tool {one}", "args": {}, "id": one} for one in keys])


def result(key, text="result", status="success"):
    return ToolMessage(text, tool_call_id=key, status=status)


def shown(messages):
    return [
        (one.type, one.tool_call_id, one.status, one.content) if one.type == "tool" else (one.type,) for one in messages
    ]


def test_a_history_in_order_stays_as_it_is():
    history = [HumanMessage("hi"), ai("a", "b"), result("a"), result("b"), AIMessage("done")]
    found = answer_orphans(history)
    assert all(one is other for one, other in zip(found, history, strict=True))


def test_a_call_without_a_result_is_answered_and_finished_results_are_kept():
    history = [ai("a", "b", "c"), result("b", "kept"), HumanMessage("new input")]
    found = answer_orphans(history, "cut off")
    assert shown(found) == [
        ("ai",),
        ("tool", "a", "error", "cut off"),
        ("tool", "b", "success", "kept"),
        ("tool", "c", "error", "cut off"),
        ("human",),
    ]
    assert found[1].name == "tool a"
    assert [one.id for one in found] == [one.id for one in answer_orphans(history, "cut off")]
    assert len({found[1].id, found[3].id}) == 2


def test_a_late_result_moves_to_its_call():
    found = answer_orphans([ai("a"), HumanMessage("wait"), result("a")])
    assert [one.type for one in found] == ["ai", "tool", "human"]


def test_of_two_results_the_first_that_is_no_error_counts():
    found = answer_orphans([ai("a"), result("a", "broke", "error"), result("a", "fine"), result("a", "again")])
    assert shown(found) == [("ai",), ("tool", "a", "success", "fine")]


def test_a_result_without_a_call_is_left_out():
    assert answer_orphans([result("x"), HumanMessage("hi")]) == [HumanMessage("hi")]


def test_one_id_in_two_calls_or_two_messages():
    found = answer_orphans([ai("a", "a"), result("a", "1"), result("a", "2"), ai("a", key="n"), result("a", "3")])
    assert [one[-1] for one in shown(found) if one[0] == "tool"] == ["1", "2", "3"]


@given(st.lists(st.one_of(st.sampled_from("abc").map(result), st.lists(st.sampled_from("abc"), max_size=3), st.none())))
def test_whatever_a_history_holds_each_call_has_one_answer_right_behind_it(parts):
    history = [ai(*one) if isinstance(one, list) else HumanMessage("hi") if one is None else one for one in parts]
    found = answer_orphans(history)
    expected = [[one, *[call["id"] for call in one.tool_calls]] for one in history if one.type == "ai"]
    seen = []
    for one in found:
        if one.type == "ai":
            seen.append([one])
        elif one.type == "tool":
            seen[-1].append(one.tool_call_id)
    assert seen == expected
    for before, after in itertools.pairwise(found):
        assert after.type != "tool" or before.type in ("ai", "tool")
    assert answer_orphans(found) == found


def test_pending_calls_are_matched_by_id_and_number():
    assert [call["id"] for call in pending_calls([ai("a", "b", "a"), result("a")])] == ["b", "a"]
    assert pending_calls([ai("a"), result("a")]) == pending_calls([HumanMessage("hi")]) == []


def test_calls_get_ids_of_their_own():
    assert [call["id"] for call in distinct_calls(ai("a", "a", "a-2", None, "a")).tool_calls] == [
        "a",
        "a-3",
        "a-2",
        "call-4",
        "a-4",
    ]
    message = ai("a", "b")
    assert distinct_calls(message) is message


def test_a_call_that_cannot_be_read_has_an_id_of_its_own_too():
    message = AIMessage(
        "",
        tool_calls=[{"name": "f", "args": {}, "id": "a"}],
        invalid_tool_calls=[{"name": "f", "args": "{", "id": "a"}, {"name": "f", "args": "{", "id": None}],
    )
    found = distinct_calls(message)
    assert [call["id"] for call in (*found.tool_calls, *found.invalid_tool_calls)] == ["a", "a-2", "call-3"]
