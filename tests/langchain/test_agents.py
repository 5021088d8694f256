"""LangChain's models, tools and messages in our agents."""

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel

from checkpointers import SqliteSaver
from durable_graph import messages as ours
from durable_graph.agents import create_agent
from durable_graph.agents.middleware import before_model, dynamic_prompt
from durable_graph.prebuilt import create_react_agent

CFG = {"configurable": {"thread_id": "t"}}


@tool
def search_weather(city: str) -> str:
    """The weather of a city."""
    return f"result for {city}"


@tool
def other(city: str) -> str:
    """Something else."""
    return city


def asks():
    return AIMessage("", tool_calls=[{"name": "search_weather", "args": {"city": "sf"}, "id": "c1"}])


class Fake(GenericFakeChatModel):
    """Binds its tools as LangChain's models do, and keeps what it was sent."""

    sent: list = []  # noqa: RUF012 - a pydantic field: each object has its own

    def bind_tools(self, tools, **options):
        return self.bind(tools=tools, **options)

    def _generate(self, messages, *args, **options):
        self.sent.append(messages)
        return super()._generate(messages, *args, **options)


def fake(*answers):
    return Fake(messages=iter(answers))


MAKERS = {"react": create_react_agent, "agent": create_agent}
BOTH = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@BOTH
def test_the_exercise_gives_four_messages_of_langchains(face, tmp_path, make):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        agent = make(fake(asks(), AIMessage("Foggy.")), [search_weather], checkpointer=saver)
        found = face.invoke(agent, {"messages": ("user", "what is the weather in sf")}, CFG)["messages"]
        assert [type(one) for one in found] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
        assert [one.content for one in found] == ["what is the weather in sf", "", "result for sf", "Foggy."]
        assert face.get_state(agent, CFG).values["messages"] == found


@BOTH
def test_a_system_prompt_and_messages_of_ours_reach_the_model_as_langchains(face, make):
    model = fake(asks(), AIMessage("Foggy."))
    prompt = {"prompt" if make is create_react_agent else "system_prompt": "be brief"}
    face.invoke(make(model, [search_weather], **prompt), {"messages": [ours.HumanMessage("hi")]})
    assert [type(one) for one in model.sent[0]] == [SystemMessage, HumanMessage]
    assert [one.content for one in model.sent[1]] == ["be brief", "hi", "", "result for sf"]


@BOTH
def test_tokens_are_streamed_with_their_node(face, make):
    agent = make(fake(AIMessage("It is foggy.")), [])
    parts = face.stream(agent, {"messages": "hi"}, stream_mode="messages")
    assert "".join(piece.content for piece, _ in parts) == "It is foggy."
    assert {about["langgraph_node"] for _, about in parts} == {"agent" if make is create_react_agent else "model"}
    assert len(parts) > 1


@BOTH
def test_a_model_that_was_bound_before_must_have_the_same_tools(face, make):
    agent = make(fake(AIMessage("ok")).bind_tools([search_weather]), [search_weather])
    assert face.invoke(agent, {"messages": "hi"})["messages"][-1].content == "ok"
    with pytest.raises(ValueError, match="was bound to the tools"):
        make(fake().bind_tools([other]), [search_weather])


def test_a_prompt_template_and_a_lambda_are_prompts(face):
    template = ChatPromptTemplate.from_messages([("system", "be brief"), ("placeholder", "{messages}")])
    for prompt in (template, RunnableLambda(lambda state: [SystemMessage("be brief"), *state["messages"]])):
        model = fake(AIMessage("ok"))
        face.invoke(create_react_agent(model, [], prompt=prompt), {"messages": "hi"})
        assert [one.content for one in model.sent[0]] == ["be brief", "hi"]


class Weather(BaseModel):
    degrees: int


def test_a_structured_response_comes_in_the_models_own_way(face):
    class Structured(Fake):
        def with_structured_output(self, schema, **_):
            return RunnableLambda(lambda messages: schema(degrees=len(messages)))

    agent = create_react_agent(Structured(messages=iter([AIMessage("12")])), [], response_format=Weather)
    assert face.invoke(agent, {"messages": "hi"})["structured_response"] == Weather(degrees=2)


def test_create_agent_asks_for_a_structured_response_by_a_tool(face, tmp_path):
    call = {"name": "Weather", "args": {"degrees": 12}, "id": "w"}
    with SqliteSaver(tmp_path / "runs.db") as saver:
        model = fake(AIMessage("it is warm"), AIMessage("", tool_calls=[call]))
        agent = create_agent(model, response_format=Weather, checkpointer=saver)
        found = face.invoke(agent, {"messages": "hi"}, CFG)
        assert found["structured_response"] == Weather(degrees=12)
        assert all(isinstance(one, BaseMessage) for one in found["messages"])
        assert [one.type for one in found["messages"]] == ["human", "ai", "human", "ai", "tool"]


def test_middleware_sees_langchains_messages(face):
    seen = []

    @before_model
    def look(state, runtime):
        seen.append(type(state["messages"][-1]))

    @dynamic_prompt
    def prompt(request):
        return SystemMessage(f"{len(request.messages)} so far")

    model = fake(asks(), AIMessage("Foggy."))
    face.invoke(create_agent(model, [search_weather], middleware=[look, prompt]), {"messages": "hi"})
    assert seen == [HumanMessage, ToolMessage]
    assert [sent[0].content for sent in model.sent] == ["1 so far", "3 so far"]


def test_an_orphan_is_answered_before_a_langchain_model_sees_it(face):
    model = fake(AIMessage("ok"))
    found = face.invoke(
        create_agent(model, [search_weather]), {"messages": [HumanMessage("a"), asks(), HumanMessage("b")]}
    )
    assert [one.type for one in model.sent[0]] == ["human", "ai", "tool", "human"]
    assert [type(one) for one in found["messages"]] == [HumanMessage, AIMessage, ToolMessage, HumanMessage, AIMessage]
