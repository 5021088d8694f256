"""An agent with middleware that is not here: what stays must be said name by name."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, PIIMiddleware, TodoListMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.ui import push_ui_message


def build(model, tools):
    middleware = [PIIMiddleware("email"), TodoListMiddleware(), HumanInTheLoopMiddleware({"send_mail": True})]
    return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())


def ask(agent, question):
    push_ui_message("question", {"text": question})
    config = {"configurable": {"thread_id": "1"}}
    return agent.invoke({"messages": [HumanMessage(question)]}, config)["messages"][-1]
