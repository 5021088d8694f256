# ruff: noqa: T201, TC003 - written as users write
"""What users write and every type checker must accept: mypy --strict and basedpyright check it, nothing runs it."""

# `Callable[..., Any]` tells nothing of a lambda's parameter, which strict basedpyright would like to know.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from durable_graph import (
    END,
    START,
    Command,
    CompiledStateGraph,
    Config,
    GraphOutput,
    Interrupt,
    Overwrite,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    StateSnapshot,
    StateTask,
    StreamWriter,
    get_config,
    get_runtime,
    get_stream_writer,
    interrupt,
)


class State(TypedDict):
    items: Annotated[list[str], operator.add]
    count: int


class Partial(TypedDict, total=False):
    note: str


class Output(TypedDict):
    count: int


@dataclass
class Data:
    items: Annotated[list[str], operator.add]
    count: int = 0


class Model(BaseModel):
    items: Annotated[list[str], operator.add]
    count: int = 0


@dataclass
class Context:
    user: str


# --- nodes: any parameter name, sync or async, any return that is an update ---------------------------------------


def named_state(state: State) -> State:
    return state


def named_otherwise(the_whole_thing: State) -> dict[str, Any]:
    return {"count": len(the_whole_thing["items"])}


def returns_partial(s: State) -> Partial:
    return {"note": "n"}


def returns_nothing(_: State) -> None:
    return None


async def asynchronous(state: State) -> dict[str, int]:
    return {"count": state["count"]}


def commands(state: State) -> Command[Literal["named_state", "__end__"]]:
    return Command(update={"count": 1}, goto="named_state")


def several(state: State) -> list[Command[str] | dict[str, Any]]:
    return [Command(goto=[Send("worker", 1), "named_state"]), {"count": Overwrite(0)}]


def injected(state: State, config: Config, *, runtime: Runtime[Context], writer: StreamWriter) -> dict[str, Any]:
    writer({"user": runtime.context.user})
    assert_type(runtime.context, Context)
    return {"count": len(config.get("tags", []))}


def no_parameters() -> dict[str, Any]:
    return {}


def worker(arg: int) -> dict[str, Any]:
    return {"items": [str(arg)]}


class CallableNode:
    def __call__(self, state: State) -> dict[str, Any]:
        return {}


class Invokable:
    def invoke(self, input: State, config: Any = None) -> dict[str, Any]:
        return {}


builder = StateGraph(State)
assert_type(builder, StateGraph[State, None, State, State])
builder.add_node(named_state).add_node(named_otherwise).add_node(returns_partial).add_node(returns_nothing)
builder.add_node(asynchronous).add_node("lambda", lambda state: {"count": 1})
builder.add_node("commands", commands, destinations=("named_state",)).add_node(several)
builder.add_node(CallableNode()).add_node("invokable", Invokable()).add_node(no_parameters)
builder.add_node("worker", worker, retry_policy=RetryPolicy(max_attempts=5), metadata={"team": "x"})
builder.add_node("both", named_state, afunc=asynchronous, input_schema=Partial)
builder.add_node(
    "policies", named_state, retry_policy=[RetryPolicy(retry_on=KeyError), RetryPolicy(retry_on=(OSError,))]
)
builder.add_sequence([named_otherwise, ("again", named_otherwise), asynchronous])


# --- edges and routers: maps of any kind of key, lists, Literal hints -----------------------------------------------


def route(state: State) -> str:
    return "named_state"


def route_literally(anything: State) -> Literal["named_state", "__end__"]:
    return END


def route_to_several(state: State) -> list[Send]:
    return [Send("worker", index) for index in range(3)]


def route_to_anything(state: State) -> Sequence[str | Send]:
    return ["named_state", Send("worker", 1)]


def route_by_truth(state: State) -> bool:
    return True


async def route_async(state: State) -> str:
    return END


routes: dict[str, str] = {"yes": "named_state", "no": END}
builder.add_edge(START, "named_state").add_edge(["named_state", "named_otherwise"], "worker").add_edge("worker", END)
builder.add_conditional_edges("named_state", route, routes)
builder.add_conditional_edges("named_state", route_literally)
builder.add_conditional_edges(START, route_to_several, ["worker"])
builder.add_conditional_edges("worker", route_to_anything, ("named_state", "worker"))
builder.add_conditional_edges("worker", route_by_truth, {True: "named_state", False: END})
builder.add_conditional_edges("again", route_async).add_conditional_edges("both", lambda state: END, [END])
builder.set_entry_point("named_state").set_finish_point("worker").set_conditional_entry_point(route, routes)


# --- compiled graphs keep the four types ------------------------------------------------------------------------------

graph = builder.compile(checkpointer="sqlite:///runs.db", interrupt_before=["worker"], interrupt_after="*", name="g")
assert_type(graph, CompiledStateGraph[State, None, State, State])
assert_type(
    graph.with_config({"tags": ["a"]}).with_config(recursion_limit=5), CompiledStateGraph[State, None, State, State]
)

full = StateGraph(State, Context, input_schema=Partial, output_schema=Output)
assert_type(full, StateGraph[State, Context, Partial, Output])
compiled = full.add_node(injected).add_edge(START, "injected").compile(strict=False, validate="values")
assert_type(compiled, CompiledStateGraph[State, Context, Partial, Output])

data_graph = StateGraph(Data).add_node("a", lambda state: Data(items=[], count=state.count)).compile()
assert_type(data_graph, CompiledStateGraph[Data, None, Data, Data])
model_graph = StateGraph(Model).add_node("a", lambda state: Model(items=[])).compile()
assert_type(model_graph, CompiledStateGraph[Model, None, Model, Model])
list_graph = StateGraph(Annotated[list[str], operator.add]).add_node("a", lambda state: ["x"]).compile()

config: Config = {"configurable": {"thread_id": "1"}, "recursion_limit": 10, "metadata": {"user": "u"}, "tags": ["t"]}
plain_config: dict[str, Any] = {"configurable": {"thread_id": "1"}}

graph.invoke({"items": [], "count": 0}, config)
graph.invoke({"items": []}, plain_config, stream_mode="updates", durability="async", on_unfinished="abandon")
graph.invoke(None, config, version="v2", output_keys=["count"])
graph.invoke(Command(resume=True, update={"count": 1}, goto="worker"), config)
data_graph.invoke(Data(items=[]))
model_graph.invoke(Model(items=[]), {"max_concurrency": 2})
list_graph.invoke(["x"])
compiled.invoke({"note": "n"}, context=Context(user="u"))
compiled.invoke({"note": "n"}, context={"user": "u"})
results: list[Any] = graph.batch([{"items": [], "count": 0}], [config])
graph({"items": [], "count": 0})

for part in graph.stream({"items": [], "count": 0}, config, stream_mode=["values", "custom"], version="v2"):
    print(part)

snapshot = graph.get_state(config)
assert_type(snapshot, StateSnapshot)
assert_type(snapshot.next, tuple[str, ...])
assert_type(snapshot.config, Config)
assert_type(snapshot.tasks[0], StateTask)
assert_type(snapshot.interrupts, tuple[Interrupt, ...])
graph.get_state(snapshot.config)
graph.invoke(None, snapshot.config)
for old in graph.get_state_history(config, filter={"source": "loop"}, before=snapshot.config, limit=3):
    assert_type(old, StateSnapshot)


async def main() -> None:
    await graph.ainvoke({"items": [], "count": 0}, config)
    async for part in graph.astream({"items": [], "count": 0}, config, stream_mode="updates"):
        print(part)
    assert_type(await graph.aget_state(config), StateSnapshot)
    async for old in graph.aget_state_history(config):
        assert_type(old, StateSnapshot)
    await graph.abatch([{"items": [], "count": 0}], return_exceptions=True)


def inside() -> None:
    answer = interrupt({"question": "?"}, key="q", response_schema=bool)
    get_stream_writer()(answer)
    assert_type(get_runtime(Context), Runtime[Context])
    assert_type(get_config()["configurable"], Any)


def given(output: GraphOutput[State]) -> int:
    return output.value["count"] + len(output.interrupts)
