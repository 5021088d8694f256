"""Agents with a model of LangChain's: middleware, an approval, structured output, and create_react_agent.

Needs: langchain_core.messages:AIMessage

Prints:

    human: Send 3 to Ada.
    ai: asks for send
    tool: sent 3 to Ada
    ai: Done.
    before: 1, 3 messages; around: send
    asked: send {'to': 'Ada', 'amount': 4}
    tool: sent 5 to Ada
    Payment(to='Ada', amount=6)
    ended: Not now.
    react: sent 7 to Ada, then Done.
"""

# ruff: noqa: T201 - a program talks to a person

from dataclasses import dataclass

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    before_model,
    hook_config,
    wrap_tool_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command


class Model(BaseChatModel):
    """Asks for one call, then says that it is done."""

    tool: str
    amount: int

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        if messages[-1].type == "tool":
            answer = AIMessage("Done.")
        else:
            args = {"to": "Ada", "amount": self.amount}
            answer = AIMessage("", tool_calls=[{"name": self.tool, "args": args, "id": "call-1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    @property
    def _llm_type(self):
        return "scripted"


def send(to: str, amount: int) -> str:
    """Send money."""
    return f"sent {amount} to {to}"


def ask(text):
    return {"messages": [{"role": "user", "content": text}]}


# Hooks of its own.
lengths, around = [], []


@before_model
def count(state: AgentState, runtime):
    lengths.append(str(len(state["messages"])))


@wrap_tool_call
def watch(request, handler):
    around.append(request.tool_call["name"])
    return handler(request)


agent = create_agent(
    Model(tool="send", amount=3), [send], middleware=[count, watch, ModelCallLimitMiddleware(run_limit=5)]
)
for message in agent.invoke(ask("Send 3 to Ada."))["messages"]:
    calls = ", ".join(call["name"] for call in getattr(message, "tool_calls", []))
    print(f"{message.type}: {message.content or f'asks for {calls}'}")
print(f"before: {', '.join(lengths)} messages; around: {', '.join(around)}")

# A person changes what is sent.
careful = create_agent(
    Model(tool="send", amount=4),
    [send],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": {"allowed_decisions": ["approve", "edit"]}})],
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "1"}}
(request,) = careful.invoke(ask("Send 4 to Ada."), config)["__interrupt__"][0].value["action_requests"]
print("asked:", request["name"], request["args"])
edit = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "Ada", "amount": 5}}}
result = careful.invoke(Command(resume={"decisions": [edit]}), config)
(answer,) = [message for message in result["messages"] if message.type == "tool"]
print("tool:", answer.text.splitlines()[-1])


# An answer with a schema.
@dataclass
class Payment:
    """A payment."""

    to: str
    amount: int


clerk = create_agent(Model(tool="Payment", amount=6), [], response_format=ToolStrategy(Payment))
print(clerk.invoke(ask("What was paid?"))["structured_response"])


# A hook that ends the run.
class Closed(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_agent(self, state, runtime):
        return {"messages": [AIMessage("Not now.")], "jump_to": "end"}


closed = create_agent(Model(tool="send", amount=1), [send], middleware=[Closed()])
print("ended:", closed.invoke(ask("Send 1 to Ada."))["messages"][-1].content)

# The older one.
react = create_react_agent(Model(tool="send", amount=7), [send], prompt="You are a clerk.")
*_, sent, last = react.invoke(ask("Send 7 to Ada."))["messages"]
print(f"react: {sent.content}, then {last.content}")
