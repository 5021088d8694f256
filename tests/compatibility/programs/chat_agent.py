"""A chat agent by hand: its model is a function, and its tool looks at the state.

Prints:

    human: What is 2 + 3, and 10 + 20?
    ai: add {'a': 2, 'b': 3}, add {'a': 10, 'b': 20}
    tool: 5, after 2 messages
    tool: 30, after 2 messages
    ai: That is all.
    human: And 1 + 1?
    ai: add {'a': 1, 'b': 1}
    tool: 2, after 7 messages
    ai: That is all.
    left: 1
"""

# ruff: noqa: T201 - a program talks to a person

from typing import Annotated

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition


def add(a: int, b: int, state: Annotated[dict, InjectedState]) -> str:
    """Add two numbers."""
    return f"{a + b}, after {len(state['messages'])} messages"


def call(number, a, b):
    return {"name": "add", "args": {"a": a, "b": b}, "id": f"call-{number}"}


QUESTIONS = {
    "What is 2 + 3, and 10 + 20?": [call(1, 2, 3), call(2, 10, 20)],
    "And 1 + 1?": [call(3, 1, 1)],
}


def model(state: MessagesState):
    last = state["messages"][-1]
    if last.type == "human":
        return {"messages": [{"role": "assistant", "content": "", "tool_calls": QUESTIONS[last.content]}]}
    return {"messages": [("ai", "That is all.")]}


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode([add]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
builder.add_edge("tools", "model")
agent = builder.compile(checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "1"}}
for question in QUESTIONS:
    result = agent.invoke({"messages": ("user", question)}, config)
for message in result["messages"]:
    calls = ", ".join(f"{one['name']} {one['args']}" for one in getattr(message, "tool_calls", []))
    print(f"{message.type}: {message.content or calls}")

left = add_messages(result["messages"], [{"role": "remove", "content": "", "id": REMOVE_ALL_MESSAGES}, ("user", "Hi")])
print("left:", len(left))
