"""Wrappers around models and tools: their order and forms; and what `wrap_tool_call` may do."""

import pytest

from durable_graph import Command, interrupt
from durable_graph.agents import AgentState, create_agent
from durable_graph.agents.middleware import (
    AgentMiddleware,
    wrap_model_call,
    wrap_tool_call,
)
from durable_graph.errors import InvalidConfigError
from durable_graph.messages import ToolMessage
from durable_graph.prebuilt import ToolNode, ToolRuntime
from tests.behaviour.agent_parts import asks, results, scripted
from tests.behaviour.agents import LOOKS, look, run, texts
from tests.behaviour.small_graphs import thread

MAKERS = {"wrap_model_call": wrap_model_call, "wrap_tool_call": wrap_tool_call}


# --- both kinds ------------------------------------------------------------------------------------------------------


def noting(kind, form, name, log):
    """Middleware that notes when it is entered and left."""

    def wrap(request, handler):
        log.append(f"into {name}")
        found = handler(request)
        log.append(f"out of {name}")
        return found

    async def awrap(request, handler):
        log.append(f"into {name}")
        found = await handler(request)
        log.append(f"out of {name}")
        return found

    return MAKERS[kind](awrap if form == "async" else wrap, name=name)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("forms", [("sync", "sync"), ("async", "async"), ("sync", "async"), ("async", "sync")])
def test_the_first_is_the_outermost_whatever_forms_they_have(face, kind, forms):
    log = []
    middleware = [noting(kind, form, name, log) for form, name in zip(forms, "AB", strict=True)]
    found = run(face, create_agent(scripted(LOOKS, "done"), [look], middleware=middleware))
    once = ["into A", "into B", "out of B", "out of A"]
    assert log == once * (2 if kind == "wrap_model_call" else 1)
    assert texts(found) == ["go", "", "saw a", "done"]


@pytest.mark.parametrize("kind", MAKERS)
def test_with_both_forms_each_face_takes_its_own(face, kind):
    log = []

    class Both(AgentMiddleware):
        def _sync(self, request, handler):
            log.append("sync")
            return handler(request)

        async def _async(self, request, handler):
            log.append("async")
            return await handler(request)

    setattr(Both, kind, Both._sync)
    setattr(Both, f"a{kind}", Both._async)
    run(face, create_agent(scripted(LOOKS, "done"), [look], middleware=[Both()]))
    assert set(log) == {face.name}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_wrapper_may_ask_a_human(face, backend, kind):
    def ask(request, handler):
        assert interrupt("fine?") == "fine"
        return handler(request)

    model = scripted(LOOKS, "done")
    agent = create_agent(model, [look], middleware=[MAKERS[kind](ask)], checkpointer=backend.make())
    found = run(face, agent, thread())
    while "__interrupt__" in found:
        assert found["__interrupt__"][0].value == "fine?"
        found = face.invoke(agent, Command(resume="fine"), thread())
    assert texts(found) == ["go", "", "saw a", "done"]
    assert len(model.calls) == 2


@pytest.mark.parametrize("form", ["sync", "async"])
def test_tokens_and_what_tools_write_are_streamed_from_inside(face, form):
    def say(what: str, runtime: ToolRuntime) -> str:
        """Say."""
        runtime.stream_writer(what)
        return "said"

    middleware = [noting(kind, form, kind, []) for kind in MAKERS]
    agent = create_agent(scripted(asks(("say", "1", {"what": "hello"})), "all is done"), [say], middleware=middleware)
    shown = face.stream(agent, {"messages": "go"}, stream_mode=["messages", "custom"])
    assert [part for mode, part in shown if mode == "custom"] == ["hello"]
    tokens = [part[0].content for mode, part in shown if mode == "messages" and part[1]["langgraph_node"] == "model"]
    assert [one for one in tokens if one] == ["all", " ", "is", " ", "done"]


# --- around tools ----------------------------------------------------------------------------------------------------


def test_it_may_edit_arguments_and_the_history_keeps_what_the_model_said(face):
    def edit(request, execute):
        return execute(request.override(tool_call={**request.tool_call, "args": {"at": "b"}}))

    found = run(face, create_agent(scripted(LOOKS, "done"), [look], middleware=[wrap_tool_call(edit)]))
    assert results(found) == [("1", "success", "saw b")]
    assert found["messages"][1].tool_calls[0]["args"] == {"at": "a"}


def test_it_may_try_again_and_what_it_gives_up_on_is_told_to_the_model(face):
    failures = [OSError("busy"), OSError("busy")]

    def shaky(at: str) -> str:
        """Fail twice."""
        if failures:
            raise failures.pop()
        return "there"

    def retry(request, execute):
        try:
            return execute(request)
        except OSError:
            return execute(request)

    model = scripted(asks(("shaky", "1", {"at": "a"})), asks(("shaky", "2", {"at": "a"})), "done")
    found = run(face, create_agent(model, [shaky], middleware=[wrap_tool_call(retry)]))
    assert [(status, text[:6]) for _, status, text in results(found)] == [("error", "Error:"), ("success", "there")]


def test_it_may_keep_results(face):
    kept, asked = {}, []

    def slow(at: str) -> str:
        """Look slowly."""
        asked.append(at)
        return f"saw {at}"

    def cache(request, execute):
        at = request.tool_call["args"]["at"]
        if at not in kept:
            kept[at] = execute(request).content
        return kept[at]

    model = scripted(*(asks(("slow", key, {"at": "a"})) for key in "12"), "done")
    found = run(face, create_agent(model, [slow], middleware=[wrap_tool_call(cache)]))
    assert results(found) == [("1", "success", "saw a"), ("2", "success", "saw a")]
    assert asked == ["a"]


def test_it_may_answer_with_a_message_or_a_command(face):
    class Noted(AgentState):
        noted: str

    def answer(request, execute):
        if request.tool_call["args"]["at"] == "a":
            return ToolMessage("made up", tool_call_id=request.tool_call["id"])
        return Command(update={"noted": "b", "messages": [execute(request)]})

    model = scripted(asks(("look", "1", {"at": "a"}), ("look", "2", {"at": "b"})), "done")
    found = run(face, create_agent(model, [look], middleware=[wrap_tool_call(answer, state_schema=Noted)]))
    assert results(found) == [("1", "success", "made up"), ("2", "success", "saw b")]
    assert found["noted"] == "b"


def test_a_tool_node_has_its_own_wrapper(face):
    node = ToolNode([look], wrap_tool_call=lambda request, execute: f"{execute(request).content}, wrapped")
    assert texts(run(face, create_agent(scripted(LOOKS, "done"), node)))[2] == "saw a, wrapped"
    with pytest.raises(InvalidConfigError, match="tools is a ToolNode"):
        create_agent(scripted(), node, middleware=[wrap_tool_call(lambda request, execute: execute(request))])
