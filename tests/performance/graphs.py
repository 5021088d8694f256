"""The graphs that are counted and timed, each written once.

`library` has the names of either engine: `durable_graph` itself in the gates, one of `libraries` in the benchmark and
wherever agents are made, which takes `library.agents`. `asynchronous` makes the nodes async; routers stay plain
functions. States are dicts, so that neither engine pays for validation.
"""

# No `from __future__ import annotations`: LangGraph resolves hints with the globals of this module, where names
# that are local to a function are unknown.

import operator
import random
from typing import Annotated, Any, TypedDict

RECURSION_LIMIT = 1_000_000
"""High enough for every workload; LangGraph's own default is 25."""


class Counter(TypedDict):
    n: int


class Sum(TypedDict):
    n: int
    done: Annotated[list[int], operator.add]


class Chat(TypedDict):
    n: int
    messages: Annotated[list[dict[str, str]], operator.add]


class Dicts(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


class Lines(TypedDict):
    n: int
    lines: Annotated[list[str], operator.add]


class Rewritten(TypedDict):
    n: int
    lines: list[str]


class Document(TypedDict):
    n: int
    document: str


NOISE = random.Random(1).randbytes(1_000_000).hex()


def config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}, "recursion_limit": RECURSION_LIMIT}


def text(length: int, number: int) -> str:
    """Random text, another one for each number. A slice, so that making it costs nothing that is measured."""
    start = number * 7919 % (len(NOISE) - length)
    return NOISE[start : start + length]


def _body(function, asynchronous):
    if not asynchronous:
        return function

    async def body(state):
        return function(state)

    return body


def countdown(library, schema, step, asynchronous, checkpointer):
    """START -> step, which runs until it has counted `n` down to 0."""
    graph = library.StateGraph(schema)
    graph.add_node("step", _body(step, asynchronous))
    graph.add_edge(library.START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] else library.END)
    return graph.compile(checkpointer=checkpointer)


def loop(library, *, asynchronous=False, checkpointer=None):
    """`n` supersteps of one task each, over a state of one int. Input: {"n": n}."""
    return countdown(library, Counter, lambda state: {"n": state["n"] - 1}, asynchronous, checkpointer)


def ring(library, *, nodes=1, channels=0, asynchronous=False, checkpointer=None):
    """`n` supersteps that go round `nodes` nodes; the state has `channels` ints beside `n`. Input: `ring_input`."""
    schema = TypedDict("Wide", {"n": int, **{f"key_{number}": int for number in range(channels)}})
    graph = library.StateGraph(schema)
    for number in range(nodes):
        following = f"node_{(number + 1) % nodes}"
        graph.add_node(f"node_{number}", _body(lambda state: {"n": state["n"] - 1}, asynchronous))
        graph.add_conditional_edges(
            f"node_{number}",
            lambda state: "on" if state["n"] else "stop",
            {"on": following, "stop": library.END},
        )
    graph.add_edge(library.START, "node_0")
    return graph.compile(checkpointer=checkpointer)


def ring_input(n, channels=0):
    return {"n": n, **{f"key_{number}": number for number in range(channels)}}


def fan_out(library, *, asynchronous=False, checkpointer=None):
    """`n` Sends in one superstep, each of which adds to a list. Input: {"n": n}."""
    graph = library.StateGraph(Sum)
    graph.add_node("work", _body(lambda given: {"done": [given["n"]]}, asynchronous))
    graph.add_conditional_edges(
        library.START, lambda state: [library.Send("work", {"n": n}) for n in range(state["n"])], ["work"]
    )
    return graph.compile(checkpointer=checkpointer)


def chat(library, *, size=500, asynchronous=False, checkpointer=None):
    """`n` supersteps that each add a question and an answer of `size` bytes. Input: {"n": n, "messages": []}."""

    def step(state):
        n = state["n"]
        return {
            "n": n - 1,
            "messages": [
                {"role": "user", "content": text(size, 2 * n)},
                {"role": "assistant", "content": text(size, 2 * n + 1)},
            ],
        }

    return countdown(library, Chat, step, asynchronous, checkpointer)


def append(library, *, size=1000, asynchronous=False, checkpointer=None):
    """`n` supersteps that each add a line by a reducer. Input: {"n": n, "lines": []}."""

    def step(state):
        return {"n": state["n"] - 1, "lines": [text(size, state["n"])]}

    return countdown(library, Lines, step, asynchronous, checkpointer)


def rewrite(library, *, size=1000, asynchronous=False, checkpointer=None):
    """`n` supersteps that each write the whole list anew, longer by one line: no reducer says what was added.
    Input: {"n": n, "lines": []}."""

    def step(state):
        return {"n": state["n"] - 1, "lines": [*state["lines"], text(size, state["n"])]}

    return countdown(library, Rewritten, step, asynchronous, checkpointer)


def carry(library, *, size=0, asynchronous=False, checkpointer=None):
    """`n` supersteps that leave a large value alone. Input: {"n": n, "document": text}; with `size` the first step
    writes the document."""

    def step(state):
        written = {"document": text(size, 0)} if size and "document" not in state else {}
        return {"n": state["n"] - 1, **written}

    return countdown(library, Document, step, asynchronous, checkpointer)


def ask(library, *, asynchronous=False, checkpointer=None):
    """Asks `n` times, one question per superstep. Input: {"n": n}, then n times Command(resume=...)."""

    def step(state):
        library.interrupt("go on?")
        return {"n": state["n"] - 1}

    return countdown(library, Counter, step, asynchronous, checkpointer)


def nested(library, *, depth=5, asynchronous=False, checkpointer=None):
    """A graph of one node with `depth` graphs around it, each the only node of the next. Input: {"n": 1}."""
    body = _body(lambda state: {"n": state["n"] - 1}, asynchronous)
    for level in range(depth + 1):
        graph = library.StateGraph(Counter)
        graph.add_node("only", body)
        graph.add_edge(library.START, "only")
        graph.add_edge("only", library.END)
        body = graph.compile(checkpointer=checkpointer if level == depth else None)
    return body


def sequence(library, *, nodes=100):
    """`nodes` nodes in a row, not compiled."""
    graph = library.StateGraph(Counter)
    before = library.START
    for number in range(nodes):
        graph.add_node(f"node_{number}", _body(lambda state: {"n": state["n"] - 1}, asynchronous=False))
        graph.add_edge(before, f"node_{number}")
        before = f"node_{number}"
    graph.add_edge(before, library.END)
    return graph


def tasks(library, *, asynchronous=False, checkpointer=None):
    """An entrypoint that calls `n` tasks, each when the one before it is done. Input: n."""

    def work(number):
        return number

    task = library.task(_body(work, asynchronous))
    if not asynchronous:

        def flow(n):
            return sum(task(number).result() for number in range(n))

    else:

        async def flow(n):
            return sum([await task(number) for number in range(n)])

    return library.entrypoint(checkpointer=checkpointer)(flow)


def tasks_at_once(library, *, asynchronous=False, checkpointer=None):
    """An entrypoint that calls `n` tasks and then waits for all of them. Input: n."""

    def work(number):
        return number

    task = library.task(_body(work, asynchronous))
    if not asynchronous:

        def flow(n):
            return sum(future.result() for future in [task(number) for number in range(n)])

    else:

        async def flow(n):
            return sum([await future for future in [task(number) for number in range(n)]])

    return library.entrypoint(checkpointer=checkpointer)(flow)


# --- agents: they call one tool `n` times, which are 2n + 1 supersteps, and then answer. Input: `react_input(n)` -----

QUERY = 3600
"""Bytes of what a tool is asked, as in LangGraph's own benchmark; its result is ten times as long."""


def react_input(n):
    return {"messages": [{"role": "user", "content": str(n)}]}


def _next_turn(first, length, size):
    """(text, calls) of a model whose history starts with the text `first` and has `length` messages.

    Computed from them, so that both engines' models do the same, and a model may serve any number of threads.
    """
    number = length // 2
    if number == int(first):
        return "answer" * 100, []
    return "", [{"name": "search", "args": {"query": text(size, number)}, "id": f"call-{number}"}]


def search(query: str) -> str:
    """Look something up."""
    return f"result for query: {query}" * 10


def _react(library, schema, model, tools, route, checkpointer):
    graph = library.StateGraph(schema)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(library.START, "model")
    graph.add_conditional_edges("model", route, ["tools", library.END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def react_of_dicts(library, *, size=QUERY, checkpointer=None):
    """An agent by hand whose messages are dicts, and whose model and tool are plain functions: the engine alone."""

    def model(state):
        messages = state["messages"]
        content, calls = _next_turn(messages[0]["content"], len(messages), size)
        return {"messages": [{"role": "assistant", "content": content, "tool_calls": calls}]}

    def tools(state):
        calls = state["messages"][-1]["tool_calls"]
        results = [(search(**call["args"]), call["id"]) for call in calls]
        return {"messages": [{"role": "tool", "content": result, "tool_call_id": key} for result, key in results]}

    def route(state):
        return "tools" if state["messages"][-1]["tool_calls"] else library.END

    return _react(library, Dicts, model, tools, route, checkpointer)


def _chat_model(library, size):
    def answer(messages):
        content, calls = _next_turn(messages[0].content, len(messages), size)
        return library.agents.AIMessage(content=content, tool_calls=calls)

    return library.agents.model(answer)


def react_by_hand(library, *, size=QUERY, checkpointer=None):
    """An agent by hand: MessagesState, a chat model, ToolNode and tools_condition."""
    agents = library.agents
    model = _chat_model(library, size).bind_tools([search])
    tools, route = agents.ToolNode([search]), agents.tools_condition
    return _react(
        library,
        agents.MessagesState,
        lambda state: {"messages": [model.invoke(state["messages"])]},
        tools,
        route,
        checkpointer,
    )


def react_agent(library, *, size=QUERY, checkpointer=None):
    """create_react_agent, each call a task of its own."""
    model = _chat_model(library, size)
    return library.agents.create_react_agent(model, [search], version="v2", checkpointer=checkpointer)


def agent(library, *, size=QUERY, checkpointer=None):
    """create_agent."""
    return library.agents.create_agent(_chat_model(library, size), [search], checkpointer=checkpointer)
