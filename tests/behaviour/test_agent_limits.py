"""Limits on calls of the model and of tools: what they count, and how an agent ends at them."""

import pytest

from durable_graph import Command
from durable_graph.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitExceededError,
    ModelCallLimitMiddleware,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    after_model,
)
from durable_graph.errors import InvalidConfigError
from durable_graph.messages import HumanMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.testing import crash_sweep
from tests.behaviour.agent_parts import CFG, DONE, Tools, asks, in_a_node, results, said, scripted

SEND = asks(("send", "1", {"to": "ann"}))
MIXED = asks(("send", "1", {"to": "ann"}), ("look", "2", {"at": "map"}), ("send", "3", {"to": "bob"}))


@pytest.fixture
def tools():
    return Tools()


def go(face, agent, **options):
    return face.invoke(agent, {"messages": "go"}, CFG, **options)


def unanswered(found):
    calls = {call["id"] for one in found["messages"] if one.type == "ai" for call in one.tool_calls}
    return calls - {key for key, *_ in results(found)}


# --- the model -------------------------------------------------------------------------------------------------------


def test_at_the_limit_of_a_run_the_agent_ends_and_says_why(face, backend, tools):
    model = scripted(SEND, SEND, SEND)
    found = go(face, tools.agent(model, ModelCallLimitMiddleware(run_limit=2), saver=backend.make()))
    assert said(found)[-1] == "No more calls of the model: 2 in this run (limit 2)."
    assert (len(model.calls), len(tools), unanswered(found)) == (2, 2, set())
    assert found.keys() == {"messages"}


def test_each_run_has_its_own_count_and_the_thread_goes_on_with_its(face, backend, tools):
    def agent(saver):
        answers = [f"answer {n}" for n in range(9)]
        return tools.agent(scripted(*answers), ModelCallLimitMiddleware(run_limit=1, thread_limit=3), saver=saver)

    first = agent(backend.make())
    assert [said(go(face, first))[-1] for _ in range(2)] == ["answer 0", "answer 1"]
    again = agent(backend.reopen())
    assert said(go(face, again))[-1] == "answer 2"
    assert (
        said(go(face, again))[-1] == "No more calls of the model: 0 in this run (limit 1), 3 in this thread (limit 3)."
    )


def test_at_the_limit_it_may_raise_and_go_on_with_a_higher_one(face, backend, tools):
    def agent(limit, saver):
        middleware = ModelCallLimitMiddleware(run_limit=limit, exit_behavior="error")
        return tools.agent(scripted(SEND, "done"), middleware, saver=saver)

    with pytest.raises(
        ModelCallLimitExceededError, match=r"thread 't': no more .* 1 in this run \(limit 1\)"
    ) as caught:
        go(face, agent(1, backend.make()))
    error = caught.value
    assert (error.run_count, error.run_limit, error.thread_count, error.thread_limit) == (1, 1, 1, None)
    assert said(face.invoke(agent(2, backend.reopen()), None, CFG))[-1] == "done"


def test_a_turn_counts_whatever_hooks_do_after_it(face, tools):
    again = after_model(lambda state, runtime: {"jump_to": "model"}, can_jump_to=["model"])
    model = scripted(*("once more" for _ in range(9)))
    found = go(face, tools.agent(model, ModelCallLimitMiddleware(run_limit=3), again))
    assert (len(model.calls), said(found)[-1]) == (3, "No more calls of the model: 3 in this run (limit 3).")


def test_calls_that_an_abandoned_run_left_are_answered_at_the_end(face, backend, tools):
    ask = HumanInTheLoopMiddleware({"send": True})
    agent = tools.agent(scripted(SEND), ModelCallLimitMiddleware(thread_limit=1), ask, saver=backend.make())
    assert go(face, agent)["__interrupt__"]
    found = go(face, agent, on_unfinished="abandon")
    assert unanswered(found) == set()
    assert [one.type for one in found["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert tools == []


# --- tools -----------------------------------------------------------------------------------------------------------


def test_calls_above_the_limit_are_answered_and_the_others_are_made(face, backend, tools):
    agent = tools.agent(
        scripted(MIXED, "done"), ToolCallLimitMiddleware(tool_name="send", run_limit=1), saver=backend.make()
    )
    found = go(face, agent)
    told = "Error: the limit on calls of tools is reached; this call was not made. Do not call 'send' again."
    assert sorted(results(found)) == [
        ("1", "success", "sent to ann"),
        ("2", "success", "saw map"),
        ("3", "error", told),
    ]
    assert said(found)[-1] == "done"


def test_all_tools_together_may_have_a_limit(face, backend, tools):
    found = go(face, tools.agent(scripted(MIXED, "done"), ToolCallLimitMiddleware(run_limit=2), saver=backend.make()))
    assert [status for _, status, _ in sorted(results(found))] == ["success", "success", "error"]


def test_limits_of_several_tools_count_apart(face, backend, tools):
    limits = [ToolCallLimitMiddleware(tool_name=name, run_limit=1) for name in ("send", "look")]
    found = go(face, tools.agent(scripted(MIXED, MIXED, "done"), *limits, saver=backend.make()))
    assert sorted(tools) == [("look", "map"), ("send", "ann")]
    assert len(results(found)) == 6


def test_at_the_limit_the_run_may_end_and_every_call_is_answered(face, backend, tools):
    middleware = ToolCallLimitMiddleware(tool_name="send", run_limit=1, exit_behavior="end")
    model = scripted(MIXED)
    found = go(face, tools.agent(model, middleware, saver=backend.make()))
    assert said(found)[-1] == "No more calls of tool 'send': 0 in this run (limit 1), and 1 above it."
    assert (unanswered(found), tools, len(model.calls)) == (set(), [], 1)


def test_at_the_limit_of_tools_it_may_raise(face, backend, tools):
    middleware = ToolCallLimitMiddleware(tool_name="send", thread_limit=1, exit_behavior="error")
    with pytest.raises(ToolCallLimitExceededError, match="thread 't': no more calls of tool 'send'") as caught:
        go(face, tools.agent(scripted(SEND, SEND), middleware, saver=backend.make()))
    error = caught.value
    assert (error.tool_name, error.thread_count, error.thread_limit, error.code) == ("send", 1, 1, "DG314")
    assert tools == [("send", "ann")]


def test_counts_of_tools_are_of_the_run_and_of_the_thread(face, backend, tools):
    def agent(saver):
        limit = ToolCallLimitMiddleware(run_limit=1, thread_limit=2)
        return tools.agent(scripted(SEND, "one", SEND, "two", SEND, "three"), limit, saver=saver)

    go(face, agent(backend.make()))
    go(face, agent(backend.reopen()))
    found = go(face, agent(backend.reopen()))
    assert [status for _, status, _ in results(found)] == ["success", "success", "error"]


def test_a_rejected_call_does_not_count(face, backend, tools):
    limit, ask = ToolCallLimitMiddleware(run_limit=1), HumanInTheLoopMiddleware({"send": True})
    agent = tools.agent(scripted(MIXED, "done"), limit, ask, saver=backend.make())
    go(face, agent)
    found = face.invoke(agent, Command(resume={"decisions": [{"type": "reject"}] * 2}), CFG)
    assert tools == [("look", "map")]
    assert unanswered(found) == set()


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_a_failure_of_the_model_is_not_counted_twice(face, backend, tools):
    def answer(history):
        if failing:
            raise failing.pop()
        return "done"

    failing = [ConnectionError("lost"), ConnectionError("lost")]

    def agent(saver):
        return tools.agent(ScriptedChatModel(answer), ModelCallLimitMiddleware(run_limit=1), saver=saver)

    with pytest.raises(ConnectionError):
        go(face, agent(backend.make()))
    with pytest.raises(ConnectionError):
        face.invoke(agent(backend.reopen()), None, CFG)
    assert said(face.invoke(agent(backend.reopen()), None, CFG)) == ["go", "done"]


def limited():
    limits = (ModelCallLimitMiddleware(run_limit=2), ToolCallLimitMiddleware(tool_name="send", run_limit=1))
    calls = asks(("send", "1", {"to": "ann"}), ("send", "2", {"to": "bob"}), ("look", "3", {"to": "map"}))
    return in_a_node(scripted(calls, calls, calls), *limits)


def test_counts_are_right_after_a_crash_anywhere():
    crash_sweep(limited, {}, ledger=DONE, report=None).check()


def test_a_branch_goes_on_with_the_counts_of_where_it_starts(face, backend, tools):
    agent = tools.agent(scripted("one", "two", "three"), ModelCallLimitMiddleware(thread_limit=2), saver=backend.make())
    go(face, agent)
    before = face.get_state(agent, CFG).config
    go(face, agent)
    assert said(go(face, agent))[-1].startswith("No more")
    assert said(face.invoke(agent, {"messages": [HumanMessage("else")]}, before))[-1] == "two"


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [ModelCallLimitMiddleware, ToolCallLimitMiddleware])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "neither a thread_limit nor a run_limit"),
        ({"run_limit": -1}, "run_limit is -1"),
        ({"thread_limit": "2"}, "thread_limit is '2'"),
        ({"run_limit": 1, "exit_behavior": "stop"}, "exit_behavior is 'stop'"),
    ],
)
def test_wrong_arguments_are_refused(cls, arguments, told):
    with pytest.raises(InvalidConfigError, match=told):
        cls(**arguments)
