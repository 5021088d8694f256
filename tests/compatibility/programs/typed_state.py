"""A pydantic model as state; what a caller passes as context reaches the nodes.

Prints:

    {'name': 'Ada', 'greeting': 'Bonjour Ada'}
"""

# ruff: noqa: T201 - a program talks to a person

from dataclasses import dataclass

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel


@dataclass
class Context:
    language: str = "en"


class State(BaseModel):
    name: str
    greeting: str = ""


def greet(state: State, runtime: Runtime[Context]):
    word = {"en": "Hello", "fr": "Bonjour"}[runtime.context.language]
    return {"greeting": f"{word} {state.name}"}


builder = StateGraph(State, context_schema=Context)
builder.add_node(greet)
builder.add_edge(START, "greet")
builder.add_edge("greet", END)
print(builder.compile().invoke(State(name="Ada"), context=Context("fr")))
