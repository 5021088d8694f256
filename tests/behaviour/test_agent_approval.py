"""`HumanInTheLoopMiddleware`: what is asked, what becomes of the answers, and which answers are refused."""

import pytest

from durable_graph import Command
from durable_graph.agents.middleware import HumanInTheLoopMiddleware, after_model
from durable_graph.errors import InvalidConfigError, InvalidValueError
from durable_graph.messages import AIMessage, ToolMessage
from durable_graph.testing import crash_sweep
from tests.behaviour.agent_parts import CFG, DONE, Tools, asks, called, in_a_node, results, said, scripted

APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}
SENT = (("send", "1", {"to": "ann"}), ("send", "2", {"to": "bob"}))
TWO = asks(*SENT)
MIXED = asks(("send", "1", {"to": "ann"}), ("look", "2", {"at": "map"}))


def edit(to, name="send"):
    return {"type": "edit", "edited_action": {"name": name, "args": {"to": to}}}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


@pytest.fixture
def tools():
    return Tools()


def gated(tools, saver, *answers, on=True, model=None, **options):
    middleware = HumanInTheLoopMiddleware({"send": on}, **options)
    return tools.agent(model or scripted(*answers, "done"), middleware, saver=saver)


def start(face, agent):
    return face.invoke(agent, {"messages": "go"}, CFG)["__interrupt__"]


# --- asking ----------------------------------------------------------------------------------------------------------


def test_nothing_is_done_before_the_human_decides_and_the_question_shows_the_calls(face, backend, tools):
    agent = gated(tools, backend.make(), TWO)
    [question] = start(face, agent)
    assert tools == []
    assert [(one["name"], one["args"]) for one in question.value["action_requests"]] == [
        ("send", {"to": "ann"}),
        ("send", {"to": "bob"}),
    ]
    review = {"action_name": "send", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
    assert question.value["review_configs"] == [review, review]
    found = face.invoke(agent, decide(APPROVE, APPROVE), CFG)
    assert results(found) == [("1", "success", "sent to ann"), ("2", "success", "sent to bob")]
    assert sorted(tools) == [("send", "ann"), ("send", "bob")]


@pytest.mark.parametrize(
    "on", [False, {"allowed_decisions": ["approve"], "when": lambda request: False}], ids=["off", "never"]
)
def test_calls_that_need_no_decision_are_not_asked_about(face, backend, tools, on):
    agent = gated(tools, backend.make(), TWO, on=on)
    assert results(face.invoke(agent, {"messages": "go"}, CFG))[0] == ("1", "success", "sent to ann")


def test_calls_that_are_answered_already_are_not_asked_about(face, backend, tools):
    answered = after_model(lambda state, runtime: {"messages": [ToolMessage("by hand", tool_call_id="1")]})
    middleware = HumanInTheLoopMiddleware({"send": True})
    agent = tools.agent(scripted(TWO, "done"), middleware, answered, saver=backend.make())
    [question] = start(face, agent)
    assert [one["args"] for one in question.value["action_requests"]] == [{"to": "bob"}]


def test_when_decides_which_calls_are_asked_about_and_sees_the_state(face, backend, tools):
    def when(request):
        seen.append((request.state["messages"][0].content, request.runtime.tool_call_id))
        return request.tool_call["args"]["to"] == "bob"

    seen = []
    agent = gated(tools, backend.make(), TWO, on={"allowed_decisions": ["approve", "reject"], "when": when})
    [question] = start(face, agent)
    assert [one["args"] for one in question.value["action_requests"]] == [{"to": "bob"}]
    assert seen[:2] == [("go", "1"), ("go", "2")]
    assert [status for _, status, _ in results(face.invoke(agent, decide(REJECT), CFG))] == ["error", "success"]


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        (None, "May it?\n\nTool: send\nArgs: {'to': 'ann'}"),
        ("Mails go to customers.", "Mails go to customers."),
        (lambda call, state, runtime: f"to {call['args']['to']}, of {len(state['messages'])}", "to ann, of 2"),
    ],
    ids=["prefix", "text", "function"],
)
def test_descriptions(face, backend, tools, description, shown):
    on = {"allowed_decisions": ["approve"]} | ({} if description is None else {"description": description})
    agent = gated(tools, backend.make(), MIXED, on=on, description_prefix="May it?")
    assert start(face, agent)[0].value["action_requests"][0]["description"] == shown


# --- decisions -------------------------------------------------------------------------------------------------------


def test_an_edit_stands_in_the_history_as_what_was_done_and_the_model_sees_it(face, backend, tools):
    model = scripted(TWO, "done")
    agent = gated(tools, backend.make(), model=model)
    start(face, agent)
    before = face.get_state(agent, CFG).values["messages"][-1]
    found = face.invoke(agent, decide(edit("eve"), APPROVE), CFG)
    assert called(found) == [("1", "send", {"to": "eve"}), ("2", "send", {"to": "bob"})]
    assert found["messages"][1].id == before.id
    assert results(found) == [("1", "success", "sent to eve"), ("2", "success", "sent to bob")]
    assert [call["args"] for call in model.calls[-1].messages[1].tool_calls] == [{"to": "eve"}, {"to": "bob"}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "1", "name": "send", "input": {"to": "ann"}},
        {"type": "tool_call", "id": "1", "name": "send", "args": {"to": "ann"}},
        {"type": "function_call", "id": "fc", "call_id": "1", "name": "send", "arguments": '{"to": "ann"}'},
    ],
    ids=lambda block: block["type"],
)
def test_an_edit_changes_what_a_provider_wrote_of_the_call_too(face, backend, tools, block):
    calls = [{"name": "send", "id": "1", "args": {"to": "ann"}}]
    raw = {"tool_calls": [{"id": "1", "function": {"name": "send", "arguments": '{"to": "ann"}'}}], "kept": 1}
    text = {"type": "text", "text": "I send"}
    message = AIMessage(["So:", text, block], tool_calls=calls, additional_kwargs=raw)
    agent = gated(tools, backend.make(), message)
    start(face, agent)
    edited = face.invoke(agent, decide(edit("eve")), CFG)["messages"][1]
    assert "ann" not in repr(edited)
    assert str(edited.content).count("eve") == 1
    assert (edited.content[:2], edited.additional_kwargs) == (["So:", text], {"kept": 1})


def test_a_rejected_call_is_answered_and_its_siblings_are_made(face, backend, tools):
    agent = gated(tools, backend.make(), MIXED)
    start(face, agent)
    found = face.invoke(agent, decide({"type": "reject", "message": "not her"}), CFG)
    assert results(found) == [("1", "error", "not her"), ("2", "success", "saw map")]
    assert tools == [("look", "map")]
    assert said(found)[-1] == "done"


def test_when_all_calls_are_rejected_the_model_goes_on(face, backend, tools):
    agent = gated(tools, backend.make(), TWO)
    start(face, agent)
    found = face.invoke(agent, decide(REJECT, REJECT), CFG)
    assert [status for _, status, _ in results(found)] == ["error", "error"]
    assert all("not made" in text for *_, text in results(found))
    assert (tools, said(found)[-1]) == ([], "done")


def test_a_human_may_give_the_result(face, backend, tools):
    agent = gated(tools, backend.make(), TWO)
    start(face, agent)
    found = face.invoke(agent, decide({"type": "respond", "message": "told her myself"}, APPROVE), CFG)
    assert results(found) == [("1", "success", "told her myself"), ("2", "success", "sent to bob")]
    assert tools == [("send", "bob")]


# --- answers that are refused ----------------------------------------------------------------------------------------

ONLY = {"allowed_decisions": ["approve", "edit"], "args_schema": {"type": "object", "required": ["to"]}}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"decisions": [APPROVE]}, "1 decisions for 2 calls: call '1' of 'send', call '2' of 'send'"),
        ({"decisions": [APPROVE] * 3}, "3 decisions for 2 calls"),
        ({"decisions": [APPROVE, REJECT]}, "call '2' of 'send' is answered with 'reject'; allowed: approve, edit"),
        ({"decisions": [{"type": "maybe"}, APPROVE]}, "call '1' of 'send' is answered with 'maybe'"),
        ({"decisions": ["approve", APPROVE]}, "call '1' of 'send' is answered with 'approve'"),
        ({"decisions": [APPROVE, {"type": "edit"}]}, "the edit of call '2' of 'send' does not fit: edited_action"),
        (
            {"decisions": [{**APPROVE, "edited_action": {"name": "send", "args": {}}}, APPROVE]},
            "the approve of call '1' of 'send' does not fit: edited_action: Extra",
        ),
        (
            {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "send", "args": {}}}]},
            "the arguments in the edit of call '2' of 'send' do not fit: missing: to",
        ),
        ({"decisions": [APPROVE, APPROVE], "note": "ok"}, "note: Extra"),
        ("yes", r"expected \{\"decisions\": \[...\]\}"),
    ],
)
def test_a_wrong_answer_is_refused_and_the_thread_can_be_answered_afterwards(face, backend, tools, answer, told):
    agent = gated(tools, backend.make(), TWO, on=ONLY)
    [question] = start(face, agent)
    with pytest.raises(InvalidValueError, match=told):
        face.invoke(agent, Command(resume=answer), CFG)
    assert tools == []
    elsewhere = gated(tools, backend.reopen(), TWO, on=ONLY)
    assert [one.id for one in face.get_state(elsewhere, CFG).interrupts] == [question.id]
    found = face.invoke(elsewhere, decide(APPROVE, edit("eve")), CFG)
    assert results(found) == [("1", "success", "sent to ann"), ("2", "success", "sent to eve")]


def test_the_question_shows_the_schema_of_its_answer(face, backend, tools):
    [question] = start(face, gated(tools, backend.make(), MIXED, on=ONLY))
    shown = question.response_schema
    assert list(shown["$defs"]) == ["Action", "ApproveDecision", "EditDecision"]
    assert shown["$defs"]["Action"]["properties"]["args"]["required"] == ["to"]
    assert question.value["review_configs"][0]["args_schema"] == ONLY["args_schema"]


# --- an approval is for these calls, and once ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_an_approval_does_not_count_for_what_an_edit_of_the_state_put_in_its_place(face, backend, tools, mode):
    agent = gated(tools, backend.make(), MIXED, interrupt_mode=mode)
    [question] = start(face, agent)
    message = face.get_state(agent, CFG).values["messages"][-1]
    calls = asks(("send", "1", {"to": "mallory"})).tool_calls
    face.update_state(agent, CFG, {"messages": [message.model_copy(update={"tool_calls": calls})]})
    yes = APPROVE if mode == "per_call" else {"decisions": [APPROVE]}
    [again] = face.invoke(agent, Command(resume={question.id: yes}), CFG)["__interrupt__"]
    assert "mallory" in str(again.value)
    assert tools == []
    face.invoke(agent, Command(resume={again.id: yes}), CFG)
    assert tools == [("send", "mallory")]


def test_an_approval_survives_an_edit_of_something_else(face, backend, tools):
    agent = gated(tools, backend.make(), MIXED)
    start(face, agent)
    face.update_state(agent, CFG, {"messages": ["and hurry"]}, as_node="model")
    face.invoke(agent, decide(APPROVE), CFG)
    assert sorted(tools) == [("look", "map"), ("send", "ann")]


def test_the_same_call_is_asked_about_each_time(face, backend, tools):
    once_more = asks(("send", "1", {"to": "ann"}))
    agent = gated(tools, backend.make(), once_more, once_more)
    [first] = start(face, agent)
    [second] = face.invoke(agent, decide(APPROVE), CFG)["__interrupt__"]
    assert (first.value, tools) == (second.value, [("send", "ann")])
    assert first.id != second.id
    face.invoke(agent, decide(REJECT), CFG)
    assert tools == [("send", "ann")]


# --- one question for each call --------------------------------------------------------------------------------------


def test_each_call_has_a_question_of_its_own_and_they_are_answered_in_any_order(face, backend, tools):
    agent = gated(tools, backend.make(), TWO, interrupt_mode="per_call")
    first, second = start(face, agent)
    assert first.value["type"] == "tool_approval"
    assert [one.value["tool_call_id"] for one in (first, second)] == ["1", "2"]
    assert first.value["action_request"]["args"] == {"to": "ann"}
    [left] = face.invoke(agent, Command(resume={second.id: edit("eve")}), CFG)["__interrupt__"]
    assert (left.id, tools) == (first.id, [])
    elsewhere = gated(tools, backend.reopen(), TWO, interrupt_mode="per_call")
    found = face.invoke(elsewhere, Command(resume=REJECT), CFG)
    assert called(found) == [("1", "send", {"to": "ann"}), ("2", "send", {"to": "eve"})]
    assert [status for _, status, _ in results(found)] == ["error", "success"]


def test_of_several_answers_only_the_wrong_ones_are_refused(face, backend, tools):
    three = asks(*(("send", key, {"to": key}) for key in "123"))
    agent = gated(tools, backend.make(), three, interrupt_mode="per_call")
    first, second, third = start(face, agent)
    wrong = {first.id: {"type": "maybe"}, second.id: APPROVE, third.id: "no"}
    with pytest.raises(InvalidValueError, match="call '1' of 'send' is answered with 'maybe'"):
        face.invoke(agent, Command(resume=wrong), CFG)
    assert [one.id for one in face.get_state(agent, CFG).interrupts] == [first.id, third.id]
    face.invoke(agent, Command(resume={first.id: REJECT, third.id: REJECT}), CFG)
    assert tools == [("send", "2")]


# --- crashes ---------------------------------------------------------------------------------------------------------


def batched():
    middleware = HumanInTheLoopMiddleware({"send": True})
    return in_a_node(scripted(asks(*SENT, ("look", "3", {"to": "map"})), "done"), middleware)


def per_call():
    middleware = HumanInTheLoopMiddleware({"send": True}, interrupt_mode="per_call")
    return in_a_node(scripted(TWO, "done"), middleware)


@pytest.mark.parametrize("backend", ["memory"])
@pytest.mark.parametrize(
    ("graph", "resumes"),
    [
        (batched, [{"decisions": [REJECT, edit("eve")]}]),
        (per_call, lambda question: REJECT if question.value["tool_call_id"] == "1" else APPROVE),
    ],
    ids=["batched", "per_call"],
)
def test_a_crash_anywhere_loses_no_decision_and_repeats_nothing(graph, resumes, backend):
    crash_sweep(graph, {}, resumes=resumes, ledger=DONE, backend=backend, report=None).check()


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"interrupt_on": {"send": {"allowed_decisions": ["ok"]}}}, "interrupt_on"),
        ({"interrupt_on": {"send": {"allowed_decisions": []}}}, "interrupt_on"),
        ({"interrupt_on": {"send": "yes"}}, "interrupt_on"),
        ({"interrupt_on": {"send": {"allowed_decisions": ["approve"], "if": 1}}}, "unknown keys if"),
        ({"interrupt_on": {}, "interrupt_mode": "each"}, "interrupt_mode is 'each'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, told):
    with pytest.raises(InvalidConfigError, match=told):
        HumanInTheLoopMiddleware(**arguments)
