"""What tests of `create_agent` share, beside `agent_parts`: models of any shape, and looks at what came of a run."""

from durable_graph.messages import AIMessage
from tests.behaviour.agent_parts import asks


def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


LOOKS = asks(("look", "1", {"at": "a"}))
"""An answer that calls `look`."""


def run(face, agent, *config, **options):
    return face.invoke(agent, {"messages": "go"}, *config, **options)


def texts(found):
    """The chat: what each message says."""
    return [one.content for one in found["messages"]]


def told(model, number=-1):
    """What a scripted model was told in one of its calls."""
    return [one.content for one in model.calls[number].messages]


def edges(agent):
    """The edges of a graph, as drawn."""
    return {(edge.source, edge.target) for edge in agent.get_graph().edges}


def is_whole(history):
    """Whether every call in a history has exactly one result, right behind it, and no result is without a call."""
    expected, found = [], []
    for one in history:
        if one.type == "tool":
            found.append(one.tool_call_id)
            continue
        if sorted(found) != sorted(expected):
            return False
        calls = [*one.tool_calls, *one.invalid_tool_calls] if one.type == "ai" else []
        expected, found = [call["id"] for call in calls], []
    return sorted(found) == sorted(expected)


# --- models written by hand ------------------------------------------------------------------------------------------


class SyncModel:
    """Answers with what it is, and has no async form."""

    def __init__(self, answer=lambda self, history: AIMessage(f"tools: {self.names()}"), tools=()):
        self.answer = answer
        self.tools = tools

    def names(self):
        return [tool["name"] if isinstance(tool, dict) else tool.name for tool in self.tools]

    def bind_tools(self, tools, **options):
        return type(self)(self.answer, tools)

    def invoke(self, history, **options):
        return self.answer(self, history)


class AsyncModel:
    """Has no sync form."""

    async def ainvoke(self, history, **options):
        return AIMessage("waited for")


# --- hooks in both forms ---------------------------------------------------------------------------------------------


def asynchronous(function):
    """A hook `(state, runtime)` as an async one."""

    async def hook(state, runtime):
        return function(state, runtime)

    hook.__name__ = function.__name__
    return hook


FORMS = {"sync": lambda function: function, "async": asynchronous}
