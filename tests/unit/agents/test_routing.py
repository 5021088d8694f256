"""Where an agent goes, as a function of its state: the first rule that fits counts."""

import itertools

import pytest

from durable_graph import END, Command, Send
from durable_graph.agents.routing import JUMPS, Routes, beside, check_jump, written
from durable_graph.errors import InvalidUpdateError
from durable_graph.messages import AIMessage, HumanMessage, ToolMessage

ROUTES = Routes(loop="before", exit="after", tools="tools", direct=frozenset({"final"}))
BARE = Routes(loop="model", exit=END, tools=None, direct=frozenset())


def ai(*keys, name="look", unread=()):
    calls = [{"name": name, "args": {}, "id": key, "type": "tool_call"} for key in keys]
    return AIMessage("", tool_calls=calls, invalid_tool_calls=[{"name": name, "id": key} for key in unread])


def result(key, **more):
    return ToolMessage("result", tool_call_id=key, **more)


def state(*messages, **more):
    return {"messages": [HumanMessage("go"), *messages], **more}


def sends(*keys):
    return [Send("tools", call) for call in ai(*keys).tool_calls]


FAILED = {"additional_kwargs": {"structured_output_failed": True}}
NUDGE = HumanMessage("Error", **FAILED)

AFTER_MODEL = {
    "jump before calls": (state(ai("1"), jump_to="end"), "after"),
    "jump before the value": (state(ai("1"), result("1"), jump_to="model", structured_response=1), "before"),
    "jump to calls": (state(ai("1", "2"), result("1"), jump_to="tools"), sends("2")),
    "jump to no calls": (state(ai("1"), result("1"), jump_to="tools"), "before"),
    "no assistant": (state(), "after"),
    "no assistant and a value": (state(structured_response=1), "after"),
    "no calls": (state(AIMessage("hi")), "after"),
    "no calls of the last": (state(ai("1"), result("1"), AIMessage("hi")), "after"),
    "calls": (state(ai("1", "2")), sends("1", "2")),
    "calls before the value": (state(ai("1", "2"), result("1"), structured_response=1), sends("2")),
    "calls before another try": (state(ai("1", "2"), result("1", **FAILED)), sends("2")),
    "calls before somebody spoke": (state(ai("1"), HumanMessage("wait")), sends("1")),
    "a value": (state(ai("1"), result("1"), structured_response=0), "after"),
    "an answer that did not fit": (state(ai("1"), result("1", **FAILED)), "before"),
    "a text that did not fit": (state(AIMessage("hi"), NUDGE), "before"),
    "all answered": (state(ai("1"), result("1")), "before"),
    "unread": (state(ai(unread="1"), result("1")), "before"),
    "unread and a value": (state(ai("2", unread="1"), result("2"), result("1"), structured_response=1), "after"),
}


@pytest.mark.parametrize(("found", "leads"), AFTER_MODEL.values(), ids=AFTER_MODEL)
def test_after_the_model(found, leads):
    assert ROUTES.after_model(found) == leads


def test_without_tools_there_are_no_calls_to_make():
    assert BARE.after_model(state(ai("1"), jump_to="tools")) == "model"
    assert BARE.after_model(state(ai("1"))) == "model"
    assert BARE.after_model(state(ai("1"), structured_response=1)) == END
    assert BARE.after_model(state(AIMessage("hi"))) == END


def final(*keys):
    return ai(*keys, name="final").tool_calls


def mixed(*calls):
    return AIMessage("", tool_calls=[call for made in calls for call in made])


AFTER_TOOLS = {
    "the usual way": (state(ai("1"), result("1")), "before"),
    "a value": (state(ai("1"), result("1"), structured_response=0), "after"),
    "direct": (state(mixed(final("1")), result("1")), "after"),
    "all direct, the others yet unseen": (state(mixed(final("1", "2", "3")), result("2")), "after"),
    "one is not": (state(mixed(final("1"), ai("2").tool_calls), result("1")), "before"),
    "the other is not": (state(mixed(final("1"), ai("2").tool_calls), result("2")), "before"),
}


@pytest.mark.parametrize(("found", "leads"), AFTER_TOOLS.values(), ids=AFTER_TOOLS)
def test_after_the_tools(found, leads):
    assert ROUTES.after_tools(found) == leads


@pytest.mark.parametrize("names", list(itertools.product(["final", "look"], repeat=3)), ids="-".join)
def test_after_the_tools_all_tasks_of_a_step_find_the_same(names):
    message = mixed(*(ai(str(number), name=name).tool_calls for number, name in enumerate(names)))
    found = {ROUTES.after_tools(state(message, result(str(number)))) for number in range(3)}
    assert found == {"after" if set(names) == {"final"} else "before"}


def test_only_declared_jumps_are_made_by_a_hook():
    found = state(ai("1"), jump_to="end")
    for jumps, leads in (((), None), (("model", "tools"), None), (("end",), "after"), (JUMPS, "after")):
        assert ROUTES.jumped(found, jumps) == leads
    assert ROUTES.jumped(state(), JUMPS) is None
    assert ROUTES.jumped({**found, "jump_to": None}, JUMPS) is None
    assert ROUTES.places(JUMPS) == ["before", "tools", "after"]
    assert BARE.places(JUMPS) == ["model", END]


# --- what hooks return -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "found"),
    [
        (None, []),
        ({"messages": []}, []),
        ({"jump_to": None}, [None]),
        ({"jump_to": "end"}, ["end"]),
        (("jump_to", "end"), ["end"]),
        (("messages", "jump_to"), []),
        ([("messages", []), ("jump_to", "end")], ["end"]),
        (Command(), []),
        (Command(update={"jump_to": "end"}), ["end"]),
        (Command(update=[("jump_to", "end")]), ["end"]),
        ([{"jump_to": "end"}, Command(update={"jump_to": "model"})], ["end", "model"]),
        ("jump_to", []),
    ],
)
def test_what_is_written_to_a_key(update, found):
    assert written(update, "jump_to") == found


def test_what_is_written_beside_an_update_does_not_replace_what_it_writes():
    own = {"jump_to": None}
    command = Command(update={"log": 1})
    assert beside(None, own) == {"jump_to": None}
    assert beside({"log": 1}, own) == {"jump_to": None, "log": 1}
    assert beside(command, own) == [{"jump_to": None}, command]
    assert beside([command], own) == [{"jump_to": None}, command]
    for kept in ({"jump_to": "end"}, Command(update={"jump_to": "end"}), {"jump_to": None}):
        assert beside(kept, own) is kept
    assert beside(command, {}) is command


def test_a_jump_is_checked_wherever_it_stands():
    for fine in (None, {"log": 1}, {"jump_to": "end"}, {"jump_to": None}, Command(update={"jump_to": "end"})):
        assert check_jump(fine, "hook", ["end"]) is fine
    for wrong in ({"jump_to": "model"}, [{"log": 1}, Command(update=[("jump_to", "nowhere")])], Command(goto="model")):
        with pytest.raises(InvalidUpdateError, match="'hook'"):
            check_jump(wrong, "hook", ["end"])
    for_above = Command(graph=Command.PARENT, goto="somewhere")
    assert check_jump(for_above, "hook", []) is for_above
