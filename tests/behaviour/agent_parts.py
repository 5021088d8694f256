"""What tests of agents are made of: scripted models, tools that keep a log, and what stands in a chat."""

from typing import Annotated, TypedDict

from durable_graph import START, StateGraph
from durable_graph.agents import create_agent
from durable_graph.messages import AIMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.testing import Ledger
from tests.behaviour.small_graphs import thread

CFG = thread()
DONE = Ledger()
"""What tools did, in tests that crash."""


def asks(*calls, **fields):
    """An answer of a model that asks for calls: (name, id, args)."""
    made = [{"name": name, "id": key, "args": args, "type": "tool_call"} for name, key, args in calls]
    return AIMessage(fields.pop("content", ""), tool_calls=made, **fields)


def scripted(*answers):
    """A model that knows from the history where it is, also in another process."""
    return ScriptedChatModel(list(answers), by_history=True)


class Tools(list):
    """Tools that note their calls."""

    def send(self, to: str) -> str:
        """Send a mail."""
        self.append(("send", to))
        return f"sent to {to}"

    def look(self, at: str) -> str:
        """Look at something."""
        self.append(("look", at))
        return f"saw {at}"

    def agent(self, model, *middleware, saver=None, **options):
        return create_agent(model, [self.send, self.look], middleware=middleware, checkpointer=saver, **options)


def said(found):
    """A chat, without ids: what models and people said, and (call, status, text) for results."""
    return [
        (one.tool_call_id, one.status, one.content) if one.type == "tool" else one.content for one in found["messages"]
    ]


def results(found):
    return [one for one in said(found) if isinstance(one, tuple)]


def called(found):
    """The calls as they stand in the history."""
    return [(call["id"], call["name"], call["args"]) for one in found["messages"] for call in _calls(one)]


def _calls(message):
    return message.tool_calls if message.type == "ai" else ()


# --- crashing --------------------------------------------------------------------------------------------------------


class Outcome(TypedDict, total=False):
    log: Annotated[list, lambda old, new: old + new]


def noting(name):
    def tool(to: str) -> str:
        DONE.append(name, to)
        return f"{name} {to}"

    tool.__name__ = name
    tool.__doc__ = name
    return tool


def in_a_node(model, *middleware, tools=("send", "look")):
    """A graph whose only node runs an agent, for the crash kit: its state has no ids, which differ from run to run."""
    made = [noting(one) if isinstance(one, str) else one for one in tools]
    agent = create_agent(model, made, middleware=middleware)
    return (
        StateGraph(Outcome)
        .add_node("run", lambda state: {"log": said(agent.invoke({"messages": "go"}))})
        .add_edge(START, "run")
    )
