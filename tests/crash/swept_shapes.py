"""The graphs of the sweeps: one for each feature that has a way of its own to be stored, and to be gone on with.

Every effect is a line in a ledger that survives the process.
"""

import operator
from typing import Annotated, Any, NamedTuple, TypedDict

from durable_graph import END, START, NodeError, RetryPolicy, Runtime, Send, StateGraph, aonce, interrupt, once
from durable_graph.testing import Ledger
from tests.crash import entrypoints

LEDGER = Ledger()


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    turns: int


def noting(name):
    """A node that has one effect."""

    def node(state: State):
        LEDGER.append(name)
        return {"log": [name]}

    return node


def anoting(name):
    """The same, async."""

    async def node(state: State):
        LEDGER.append(name)
        return {"log": [name]}

    return node


def chain(*nodes):
    """A builder with these (name, node) in a row."""
    return StateGraph(State).add_sequence(nodes).add_edge(START, nodes[0][0])


# --- graphs inside graphs --------------------------------------------------------------------------------------------


class Inside(TypedDict, total=False):
    """The state of a graph inside: what it logs is its own until it is given back."""

    order: str
    steps: Annotated[list[str], operator.add]
    log: Annotated[list[str], operator.add]


def step(name):
    def node(state: Inside):
        LEDGER.append(name, state.get("order", ""))
        return {"steps": [name]}

    return node


def bottom():
    """The graph that asks: three levels below the one that is called."""

    def ask(state: Inside):
        LEDGER.append("look", state["order"])
        answer = interrupt({"ship": state["order"]})
        LEDGER.append("act", state["order"])
        return {"steps": [f"{answer}"]}

    def close(state: Inside):
        LEDGER.append("close", state["order"])
        return {"log": [" ".join([*state["steps"], "close"])]}

    return (
        StateGraph(Inside)
        .add_sequence([("open", step("open")), ("ask", ask), ("close", close)])
        .add_edge(START, "open")
        .compile()
    )


def three_deep():
    """A graph in a node, and in it a graph that a function calls; at the bottom somebody is asked."""
    asking = bottom()

    def call(state: Inside):
        LEDGER.append("call", state["order"])
        found = asking.invoke({"order": state["order"]})
        LEDGER.append("called", state["order"])
        return {"log": found["log"]}

    middle = (
        StateGraph(Inside)
        .add_sequence([("pick", lambda state: {"order": "A17"}), ("call", call), ("pack", step("pack"))])
        .add_edge(START, "pick")
        .compile()
    )
    return chain(("first", noting("first")), ("middle", middle), ("last", anoting("last")))


def three_deep_async():
    """The same, where the function awaits the graph."""
    asking = bottom()

    async def call(state: Inside):
        LEDGER.append("call", state["order"])
        found = await asking.ainvoke({"order": state["order"]})
        LEDGER.append("called", state["order"])
        return {"log": found["log"]}

    middle = (
        StateGraph(Inside)
        .add_sequence([("pick", lambda state: {"order": "A17"}), ("call", call), ("pack", step("pack"))])
        .add_edge(START, "pick")
        .compile()
    )
    return chain(("first", noting("first")), ("middle", middle), ("last", noting("last")))


class Memory(TypedDict, total=False):
    item: str
    seen: Annotated[list[str], operator.add]
    log: list[str]


def stateful_map():
    """Two rounds of three Sends to a graph that has a memory of its own for each caller."""

    def remember(state: Memory):
        LEDGER.append("remember", f"{state['item']} {len(state.get('seen', []))}")
        return {"seen": [state["item"]]}

    def tell(state: Memory):
        LEDGER.append("tell", f"{state['item']} {len(state['seen'])}")
        return {"log": [f"{state['item']} has seen {','.join(state['seen'])}"]}

    worker = (
        StateGraph(Memory)
        .add_sequence([("remember", remember), ("tell", tell)])
        .add_edge(START, "remember")
        .compile(checkpointer=True)
    )

    def plan(state: State):
        turn = state.get("turns", 0)
        LEDGER.append("plan", turn)
        return {"turns": turn + 1, "log": [f"round {turn}"]}

    def spread(state: State):
        return [Send("worker", {"item": f"{name}{state['turns']}"}) for name in "abc"]

    builder = StateGraph(State).add_node("plan", plan).add_edge(START, "plan").add_node("worker", worker)
    builder.add_conditional_edges("plan", spread, ["worker"]).add_node("join", noting("join")).add_edge(
        "worker", "join"
    )
    return builder.add_conditional_edges("join", lambda state: "plan" if state["turns"] < 2 else END, ["plan", END])


# --- recorded steps --------------------------------------------------------------------------------------------------


def effect(name, key):
    """What a recorded step does."""
    LEDGER.append(name, key)
    return f"{name} {key}"


def charge_ask_ship():
    """A node with recorded steps before and after a question."""

    def order(state: State):
        charged = once("charge", effect, "charge", "A17")
        answer = interrupt({"charged": charged})
        return {"log": [charged, answer, once("ship", effect, "ship", "A17")]}

    return chain(("before", noting("before")), ("order", order), ("after", noting("after")))


def charge_ask_ship_async():
    """The same in async code."""

    async def order(state: State):
        charged = await aonce("charge", effect, "charge", "A17")
        answer = interrupt({"charged": charged})
        return {"log": [charged, answer, await aonce("ship", effect, "ship", "A17")]}

    return chain(("before", noting("before")), ("order", order), ("after", noting("after")))


QUESTIONS = 20


def asking_in_a_loop():
    """One node that asks twenty times, each time after a recorded step."""

    def node(state: State):
        log = []
        for number in range(QUESTIONS):
            done = once("step", effect, "step", number)
            log.append(f"{done}: {interrupt(number)}")
        return {"log": log}

    return chain(("node", node))


# --- failures and joins ----------------------------------------------------------------------------------------------


def handled():
    """A node that fails for good after a retry, beside one that works; what handles it leads on."""

    def fragile(state: State, runtime: Runtime):
        LEDGER.append("try", runtime.execution_info.node_attempt)
        raise ConnectionError("the depot does not answer")

    def handler(state: State, error: NodeError):
        LEDGER.append("handle", error.node)
        return {"log": [f"handled {error.node}: {str(error.error).rpartition(': ')[2]}"]}

    builder = StateGraph(State).add_node("beside", noting("beside")).add_node("after", noting("after"))
    policy = RetryPolicy(0.001, max_attempts=2, jitter=False, retry_on=ConnectionError)
    builder.add_node("fragile", fragile, retry_policy=policy, error_handler=handler)
    builder.add_node("before", noting("before")).add_edge(START, "before")
    builder.add_edge("before", "fragile").add_edge("before", "beside")
    return builder.add_edge("beside", "after")


def deferred_join():
    """Branches of one, two and three nodes (one of them a map), and a node that waits until nothing else runs."""

    def work(item: int):
        LEDGER.append("work", item)
        return {"log": [f"work {item}"]}

    builder = StateGraph(State).add_node("split", noting("split")).add_edge(START, "split")
    builder.add_node("join", noting("join"), defer=True).add_node("end", noting("end")).add_edge("join", "end")
    for branch in (["b0"], ["c0", "c1"], ["d0", "d1", "d2"]):
        for name in branch:
            builder.add_node(name, noting(name))
        for before, name in zip(["split", *branch], branch, strict=False):
            builder.add_edge(before, name)
        builder.add_edge(branch[-1], "join")
    builder.add_node("work", work).add_edge("work", "join")
    return builder.add_conditional_edges("c0", lambda state: [Send("work", n) for n in range(2)], ["work"])


class Shape(NamedTuple):
    """How a graph is swept: its input, the answers it gets, the effects that are recorded steps one after the other,
    and where it notes its effects.
    """

    given: Any
    resumes: Any = ()
    recorded: tuple[str, ...] = ()
    ledger: Ledger = LEDGER


EMPTY = {"log": []}

SHAPES = {
    three_deep: Shape(EMPTY, ["yes"]),
    three_deep_async: Shape(EMPTY, ["yes"]),
    stateful_map: Shape(EMPTY),
    charge_ask_ship: Shape(EMPTY, ["yes"], ("charge", "ship")),
    charge_ask_ship_async: Shape(EMPTY, ["yes"], ("charge", "ship")),
    handled: Shape(EMPTY),
    deferred_join: Shape(EMPTY),
    entrypoints.ten_tasks: Shape(10, ["yes"], ("work",), entrypoints.LEDGER),
}
"""The shapes that are swept, by their functions; children find them by their names."""
