"""An agent: most of what it needs is not there yet, and it must be said name by name."""

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def build(model, tools):
    def call(state: MessagesState):
        return {"messages": [model.bind_tools(tools).invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def ask(agent, question):
    config = {"configurable": {"thread_id": "1"}}
    return agent.invoke({"messages": [HumanMessage(question)]}, config)["messages"][-1]
