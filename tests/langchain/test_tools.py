"""LangChain's tools and messages in our ToolNode."""

import operator
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId as TheirCallId
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as their_tool
from pydantic import BaseModel

from durable_graph import START, Command, StateGraph, interrupt
from durable_graph import messages as ours
from durable_graph.prebuilt import InjectedState, ToolNode, ToolRuntime, ValidationNode, tools_condition
from durable_graph.prebuilt.foreign import for_model

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    messages: Annotated[list, operator.add]
    user: str


def asks(*calls, message=AIMessage):
    return {"messages": [message("", tool_calls=[{"name": n, "args": a, "id": k} for n, k, a in calls])]}


def around(*tools, saver=None, **options):
    return StateGraph(State).add_node("tools", ToolNode(tools, **options)).add_edge(START, "tools").compile(saver)


def answers(found):
    return [(one.tool_call_id, one.status, one.content) for one in found["messages"][1:]]


@their_tool
def search(city: str) -> str:
    """Look it up."""
    return f"result for {city}"


@their_tool
async def asearch(city: str) -> str:
    """Look it up."""
    return f"async result for {city}"


@pytest.mark.parametrize("message", [AIMessage, ours.AIMessage], ids=["theirs", "ours"])
def test_an_answer_is_of_the_family_of_the_message_that_asks(face, message):
    def own(city: str) -> str:
        return "own"

    found = face.invoke(
        around(search, own), asks(("search", "1", {"city": "sf"}), ("own", "2", {"city": "x"}), message=message)
    )
    assert answers(found) == [("1", "success", "result for sf"), ("2", "success", "own")]
    assert isinstance(found["messages"][2], ToolMessage if message is AIMessage else ours.ToolMessage)


def test_async_tools_and_bad_arguments(face):
    calls = asks(("asearch", "1", {"city": "sf"}), ("search", "2", {}), ("nope", "3", {}))
    found = answers(face.invoke(around(search, asearch), calls))
    assert found[0] == ("1", "success", "async result for sf")
    assert found[1][1] == "error"
    assert "city: Field required" in found[1][2]
    assert "search, asearch" in found[2][2]


def test_what_is_injected_by_them_and_by_us(face):
    @their_tool
    def spy(
        x: int,
        key: Annotated[str, TheirCallId],
        user: Annotated[str, InjectedState("user")],
        runtime: ToolRuntime,
    ) -> str:
        """Look around."""
        return f"{x} {key} {user} {runtime.state['user']}"

    given = {**asks(("spy", "7", {"x": 1, "user": "lie"})), "user": "ann"}
    assert answers(face.invoke(around(spy), given)) == [("7", "success", "1 7 ann ann")]
    assert list(for_model(spy)["function"]["parameters"]["properties"]) == ["x"]
    assert for_model(search) is search


def test_our_commands_come_out_of_their_tools(face):
    def transfer(to: str):
        """Hand off."""
        return Command(update={"user": to})

    async def atransfer(to: str):
        """Hand off."""
        return Command(update={"user": to})

    made = StructuredTool.from_function(transfer, coroutine=atransfer)
    found = face.invoke(around(made), asks(("transfer", "1", {"to": "bob"})))
    assert found["user"] == "bob"
    assert answers(found) == [("1", "success", "Done")]


def test_their_tool_asks_a_human_and_no_finished_call_is_repeated(face, backend):
    log = []

    @their_tool
    def mail(x: int) -> str:
        """Mail."""
        log.append(x)
        return "mailed"

    @their_tool
    def ask(x: int) -> str:
        """Ask."""
        return interrupt("ok?")

    graph = around(mail, ask, saver=backend.make())
    face.invoke(graph, asks(("mail", "1", {"x": 1}), ("ask", "2", {"x": 1})), CONFIG)
    found = face.invoke(graph, Command(resume="yes"), CONFIG)
    assert answers(found) == [("1", "success", "mailed"), ("2", "success", "yes")]
    assert log == [1]


def test_an_artifact_of_theirs_is_kept(face, backend):
    @their_tool(response_format="content_and_artifact")
    def plot(n: int):
        """Plot."""
        return "plotted", list(range(n))

    found = face.invoke(around(plot, saver=backend.make()), asks(("plot", "1", {"n": 2})), CONFIG)
    assert found["messages"][-1].artifact == [0, 1]


def test_conditions_and_validation_take_their_messages(face):
    class Number(BaseModel):
        a: int

    state = asks(("Number", "1", {"a": "5"}))
    assert tools_condition(state) == "tools"
    (answer,) = face.call(ValidationNode([Number]), "invoke", state["messages"])
    assert isinstance(answer, ToolMessage)
    assert answer.content == '{"a":5}'
