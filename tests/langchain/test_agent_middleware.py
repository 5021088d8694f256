"""Ready-made middleware around LangChain's models: what it writes into the chat is LangChain's too."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from checkpointers import InMemorySaver
from durable_graph import Command
from durable_graph.agents import create_agent
from durable_graph.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from tests.langchain.test_agents import CFG, Fake, fake, search_weather


def asks(*keys):
    calls = [{"name": "search_weather", "args": {"city": key}, "id": key} for key in keys]
    return AIMessage("", tool_calls=calls)


def run(face, model, *middleware, tools=(search_weather,), given="hi", **options):
    agent = create_agent(model, list(tools), middleware=middleware, **options)
    return agent, face.invoke(agent, {"messages": given}, CFG)


def kinds(found):
    return [type(one) for one in found["messages"]]


def test_decisions_of_a_human(face):
    middleware = HumanInTheLoopMiddleware({"search_weather": True})
    model = fake(asks("a", "b", "c"), AIMessage("ok"))
    agent, _ = run(face, model, middleware, checkpointer=InMemorySaver())
    edit = {"type": "edit", "edited_action": {"name": "search_weather", "args": {"city": "x"}}}
    decisions = [edit, {"type": "reject"}, {"type": "respond", "message": "by hand"}]
    found = face.invoke(agent, Command(resume={"decisions": decisions}), CFG)
    assert kinds(found) == [HumanMessage, AIMessage, ToolMessage, ToolMessage, ToolMessage, AIMessage]
    assert [call["args"]["city"] for call in found["messages"][1].tool_calls] == ["x", "b", "c"]
    assert {one.tool_call_id: one.status for one in found["messages"][2:5]} == {
        "a": "success",
        "b": "error",
        "c": "success",
    }
    assert [type(one) for one in model.sent[1]] == kinds(found)[:-1]


@pytest.mark.parametrize(
    ("middleware", "last"),
    [
        (ModelCallLimitMiddleware(run_limit=1), [ToolMessage, AIMessage]),
        (ToolCallLimitMiddleware(run_limit=0, exit_behavior="end"), [ToolMessage, AIMessage]),
        (ToolCallLimitMiddleware(run_limit=0), [ToolMessage, AIMessage]),
    ],
    ids=["model", "end", "continue"],
)
def test_limits(face, middleware, last):
    _, found = run(face, fake(asks("a"), AIMessage("ok")), middleware)
    assert kinds(found) == [HumanMessage, AIMessage, *last]


def test_summaries(face):
    writer, chat = fake(AIMessage("gist")), [HumanMessage("m0"), AIMessage("m1"), HumanMessage("m2")]
    middleware = SummarizationMiddleware(writer, trigger=("messages", 3), keep=("messages", 1))
    _, found = run(face, fake(AIMessage("ok")), middleware, given=chat)
    assert kinds(found) == [HumanMessage, HumanMessage, AIMessage]
    assert "gist" in found["messages"][0].content
    assert kinds({"messages": writer.sent[0]}) == [HumanMessage]


class Failing(Fake):
    def _generate(self, messages, *args, **options):
        raise ConnectionError("lost")


def test_failures_of_models_and_tools(face):
    def fail(city: str) -> str:
        """Fails."""
        raise ConnectionError("lost")

    retry = ToolRetryMiddleware(initial_delay=0)
    fail.__name__ = "search_weather"
    _, found = run(face, fake(asks("a"), AIMessage("ok")), retry, tools=[fail])
    assert kinds(found) == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    _, found = run(face, Failing(messages=iter([])), ModelRetryMiddleware(initial_delay=0))
    assert kinds(found) == [HumanMessage, AIMessage]
    _, found = run(face, Failing(messages=iter([])), ModelFallbackMiddleware(fake(AIMessage("ok"))))
    assert found["messages"][-1].content == "ok"
