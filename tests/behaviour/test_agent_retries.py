"""Another try where a model or a tool fails: how many, for what, and what becomes of the last failure."""

import pytest

from durable_graph import Command, interrupt
from durable_graph.agents import create_agent
from durable_graph.agents.middleware import (
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from durable_graph.errors import InvalidConfigError, UsageError
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import ToolRuntime, tool
from durable_graph.testing import crash_sweep
from tests.behaviour.agent_parts import CFG, DONE, asks, in_a_node, results, said, scripted


def lost():
    return ConnectionError("lost")


def wrong():
    return ValueError("wrong")


def go(face, agent, **options):
    return face.invoke(agent, {"messages": "go"}, CFG, **options)


# --- the model -------------------------------------------------------------------------------------------------------


def test_the_model_is_asked_again_until_it_answers(face, backend):
    model = ScriptedChatModel([lost(), wrong(), "done"])
    agent = create_agent(model, middleware=[ModelRetryMiddleware(initial_delay=0)], checkpointer=backend.make())
    assert said(go(face, agent)) == ["go", "done"]
    assert len(model.calls) == 3


@pytest.mark.parametrize(
    ("on_failure", "answer"),
    [
        ("continue", "Error: the model failed 3 times, the last time with ConnectionError('lost')"),
        (lambda error: f"Sorry: {error}", "Sorry: lost"),
    ],
    ids=["continue", "function"],
)
def test_the_last_failure_may_become_an_answer(face, backend, on_failure, answer):
    model = ScriptedChatModel([lost() for _ in range(9)])
    retry = ModelRetryMiddleware(initial_delay=0, on_failure=on_failure)
    agent = create_agent(model, middleware=[retry], checkpointer=backend.make())
    assert said(go(face, agent)) == ["go", answer]
    assert len(model.calls) == 3


def test_the_last_failure_may_be_raised_and_the_thread_goes_on(face, backend):
    model = ScriptedChatModel([lost(), lost(), "done"])
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error")
    agent = create_agent(model, middleware=[retry], checkpointer=backend.make())
    with pytest.raises(ConnectionError, match="lost"):
        go(face, agent)
    assert said(face.invoke(agent, None, CFG)) == ["go", "done"]


@pytest.mark.parametrize(
    "retry_on",
    [ConnectionError, (ConnectionError, KeyError), lambda error: "lost" in str(error)],
    ids=["class", "classes", "function"],
)
def test_other_exceptions_are_raised_at_once(face, retry_on):
    model = ScriptedChatModel([lost(), wrong(), "done"])
    agent = create_agent(model, middleware=[ModelRetryMiddleware(initial_delay=0, retry_on=retry_on)])
    with pytest.raises(ValueError, match="wrong"):
        go(face, agent)
    assert len(model.calls) == 2


def test_errors_of_the_library_are_not_tried_again(face):
    model = ScriptedChatModel([])
    others = ModelFallbackMiddleware(ScriptedChatModel(["other"]))
    with pytest.raises(UsageError, match="script"):
        go(face, create_agent(model, middleware=[ModelRetryMiddleware(initial_delay=0), others]))
    assert len(model.calls) == 1


def test_tries_are_one_turn_for_a_limit(face):
    limit = ModelCallLimitMiddleware(run_limit=1)
    agent = create_agent(ScriptedChatModel([lost(), "done"]), middleware=[limit, ModelRetryMiddleware(initial_delay=0)])
    assert said(go(face, agent)) == ["go", "done"]


def test_waits_grow_up_to_a_limit():
    retry = ModelRetryMiddleware(max_retries=9, initial_delay=1, backoff_factor=3, max_delay=5, jitter=False)
    assert [retry._wait(lost(), tries) for tries in (1, 2, 3, 9, 10)] == [1, 3, 5, 5, None]
    shaken = ModelRetryMiddleware(initial_delay=4)
    assert all(3 <= shaken._wait(lost(), 1) <= 5 for _ in range(99))


# --- tools -----------------------------------------------------------------------------------------------------------


def shaky(*failures):
    """A tool that fails so often, and notes its calls and their keys."""
    left, keys = list(failures), []

    def send(to: str, runtime: ToolRuntime) -> str:
        """Send a mail."""
        keys.append(runtime.idempotency_key)
        if left:
            raise left.pop(0)
        return f"sent to {to}"

    return tool("send", send), keys


SEND = asks(("send", "1", {"to": "ann"}))


def with_retries(made, saver=None, call=SEND, **options):
    retry = ToolRetryMiddleware(**{"initial_delay": 0, **options})
    return create_agent(scripted(call, "done"), [made], middleware=[retry], checkpointer=saver)


def test_a_call_is_made_again_with_the_same_key_until_it_succeeds(face, backend):
    made, keys = shaky(lost(), wrong())
    assert results(go(face, with_retries(made, backend.make()))) == [("1", "success", "sent to ann")]
    assert (len(keys), len(set(keys))) == (3, 1)


@pytest.mark.parametrize(
    ("on_failure", "text"),
    [
        ("continue", "Error: tool 'send' failed 3 times, the last time with ConnectionError('lost')"),
        (lambda error: f"Sorry: {error}", "Sorry: lost"),
        ("error", "Error: ConnectionError('lost')\n Please fix your mistakes."),
    ],
    ids=["continue", "function", "error"],
)
def test_the_model_is_told_of_the_last_failure(face, backend, on_failure, text):
    made, keys = shaky(*(lost() for _ in range(9)))
    found = go(face, with_retries(made, backend.make(), on_failure=on_failure))
    assert (results(found), said(found)[-1], len(keys)) == ([("1", "error", text)], "done", 3)


@pytest.mark.parametrize(("tools", "tries"), [(["send"], 2), (["other"], 1), (None, 2)], ids=str)
def test_only_some_tools_are_tried_again(face, tools, tries):
    made, keys = shaky(lost())
    go(face, with_retries(made, tools=tools))
    assert len(keys) == tries


def test_a_tool_may_be_named_by_itself(face):
    made, _ = shaky(lost())
    assert results(go(face, with_retries(made, tools=[made]))) == [("1", "success", "sent to ann")]


def test_other_exceptions_and_wrong_arguments_are_not_tried_again(face):
    made, keys = shaky(wrong())
    go(face, with_retries(made, retry_on=ConnectionError))
    assert len(keys) == 1
    [(_, status, text)] = results(go(face, with_retries(made, call=asks(("send", "1", {"at": "ann"})))))
    assert (status, len(keys)) == ("error", 1)
    assert "not valid" in text


def test_a_question_of_a_tool_passes_and_the_tries_before_it_are_not_repeated(face, backend):
    made = []

    def send(to: str) -> str:
        """Send a mail."""
        made.append(to)
        if len(made) == 1:
            raise lost()
        return f"sent to {to}, {interrupt('sure?')}"

    assert go(face, with_retries(send, backend.make()))["__interrupt__"][0].value == "sure?"
    found = face.invoke(with_retries(send, backend.reopen()), Command(resume="yes"), CFG)
    assert results(found) == [("1", "success", "sent to ann, yes")]
    assert len(made) == 3


def crashing():
    """Its tool fails until it was called three times."""

    def send(to: str) -> str:
        """Send a mail."""
        DONE.append("send", to)
        if DONE.counts()["send", to] < 3:
            raise lost()
        return f"sent to {to}"

    return in_a_node(scripted(SEND, "done"), ToolRetryMiddleware(initial_delay=0), tools=[send])


def test_after_a_crash_tries_that_are_recorded_count_and_are_not_repeated():
    crash_sweep(crashing, {}, ledger=DONE, recorded=["send"], report=None).check()


# --- other models ----------------------------------------------------------------------------------------------------


def test_other_models_are_asked_in_their_order_in_each_turn(face, backend):
    first, second = ScriptedChatModel([lost(), wrong()]), ScriptedChatModel([lost(), "done"])
    third, fourth = ScriptedChatModel([SEND]), ScriptedChatModel([])
    made, keys = shaky()
    fallback = ModelFallbackMiddleware(second, third, fourth)
    found = go(face, create_agent(first, [made], middleware=[fallback], checkpointer=backend.make()))
    assert (said(found)[-1], len(keys)) == ("done", 1)
    assert [len(model.calls) for model in (first, second, third, fourth)] == [2, 2, 1, 0]
    assert [one.name for one in third.bound_tools] == ["send"]


def test_when_all_fail_the_last_error_is_raised_and_tells_of_the_others(face):
    models = [
        ScriptedChatModel([error], name=name) for name, error in (("a", lost()), ("b", KeyError("k")), ("c", wrong()))
    ]
    with pytest.raises(ValueError, match="wrong") as caught:
        go(face, create_agent(models[0], middleware=[ModelFallbackMiddleware(*models[1:])]))
    notes = [note for note in caught.value.__notes__ if note.startswith("Before it")]
    assert notes == [
        "Before it, model a failed with ConnectionError('lost').",
        "Before it, model b failed with KeyError('k').",
    ]


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [ModelRetryMiddleware, ToolRetryMiddleware])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"max_retries": -1}, "max_retries is -1"),
        ({"initial_delay": -1}, "initial_delay is -1"),
        ({"on_failure": "stop"}, "on_failure is 'stop'"),
    ],
)
def test_wrong_arguments_are_refused(cls, arguments, told):
    with pytest.raises(InvalidConfigError, match=told):
        cls(**arguments)


def test_what_is_no_model_cannot_take_over():
    with pytest.raises(InvalidConfigError, match="no chat model"):
        ModelFallbackMiddleware(ScriptedChatModel([]), 5)
