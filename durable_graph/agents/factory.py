"""`create_agent`: a model, its tools and the middleware around them, as a graph."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

from durable_graph.agents.middleware.base import AgentMiddleware, can_jump_to, own
from durable_graph.agents.model_node import ModelNode
from durable_graph.agents.routing import Routes, beside, check_jump
from durable_graph.agents.state import merged
from durable_graph.agents.wrapping import wrapper_of
from durable_graph.errors import InvalidConfigError, InvalidGraphError, shortened
from durable_graph.graph import StateGraph
from durable_graph.models.schema import tool_name
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.model_calls import add_asking, chat_model, is_langchain
from durable_graph.prebuilt.structured_output import ToolStrategy, as_strategy, response_type, settled
from durable_graph.prebuilt.tool_node import ToolNode
from durable_graph.types import END, START

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.agents.middleware.base import JumpTo
    from durable_graph.caches import BaseCache
    from durable_graph.graph.compiled import CheckpointerLike, CompiledStateGraph

__all__ = ["create_agent"]

_MODEL, _TOOLS = "model", "tools"


def create_agent(  # noqa: D417 - one line of its arguments describes six
    model: Any,
    tools: Sequence[Any] | ToolNode | None = None,
    *,
    system_prompt: Any = None,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    response_format: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: CheckpointerLike = None,
    store: Any = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent: its model answers, its tools do what the model asks for, until nothing is asked for any more.

        agent = create_agent("openai:gpt-5-mini", [search], checkpointer="sqlite:///runs.db")
        agent.invoke({"messages": "What is new?"}, {"thread_id": "1"})["messages"][-1].text

    It is a graph with the nodes "model" and "tools" and one for each hook of the middleware ("Name.before_model"); so
    it stops, resumes, travels and streams as any graph does. Every call of a tool is recorded, and not repeated after
    a crash or a question. The state's keys: see `AgentState`.

    Args:
        model: a chat model: "provider:model", one of `durable_graph.models`, or LangChain's.
        tools: functions, tools, LangChain's tools, dicts for what a provider runs itself; or a `ToolNode` with options
            of its own.
        system_prompt: a str or a SystemMessage; one that depends on the state: `dynamic_prompt`.
        middleware: hooks around it all; the first is the outermost.
        response_format: a schema, or a strategy of `durable_graph.agents.structured_output`; the value comes under
            "structured_response".
        state_schema: more keys for the state: a TypedDict derived from AgentState.
        context_schema: the type of what callers pass as `context=`.
        checkpointer, store, cache, interrupt_before, interrupt_after, debug: as for `StateGraph.compile`.
        name: of the graph, and of its messages.

    Raises:
        InvalidConfigError: the model or an option is wrong.
        InvalidGraphError: something is no tool, or two middlewares have one name.
        InvalidSchemaError: a state schema is no TypedDict.
    """
    model = chat_model(model)
    middleware = _checked(middleware)
    node, offered = _tool_node(tools, middleware)
    strategy = as_strategy(response_format)
    _check_names(settled(strategy, model), offered)
    schemas = merged(
        [*(one.state_schema for one in middleware), *(() if state_schema is None else (state_schema,))],
        Any if strategy is None else response_type(strategy),
    )
    wrapped = any(own(one, hook) for one in middleware for hook in ("wrap_tool_call", "awrap_tool_call"))
    asking = ModelNode(
        model,
        offered,
        known=None if wrapped else frozenset(node.tools_by_name if node is not None else ()),
        system=system_prompt,
        response_format=strategy,
        middleware=middleware,
        name=name,
    )
    graph = StateGraph(schemas.state, context_schema, input_schema=schemas.input, output_schema=schemas.output)
    graph.keeps_finished = True
    add_asking(graph, _MODEL, asking)
    if node is not None:
        graph.add_node(_TOOLS, node)
    _connect(graph, middleware, node, structured=strategy is not None)
    return graph.compile(
        checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name,
        cache=cache,
        messages="langchain" if is_langchain(model) else None,
    )


def _checked(middleware: Sequence[Any]) -> list[AgentMiddleware[Any, Any]]:
    names: set[str] = set()
    for one in middleware:
        if not isinstance(one, AgentMiddleware):
            what = f"middleware holds {shortened(one)}, which is no AgentMiddleware"
            raise InvalidConfigError(what, cure="Pass objects, not classes; make one of a function with a decorator.")
        if one.name in names:
            what = f"two middlewares have the name {one.name!r}"
            raise InvalidGraphError(what, cure="Give one another `name`: its nodes are named after it.")
        names.add(one.name)
    return list(middleware)


def _check_names(strategy: Any, offered: list[Any]) -> None:
    taken = {tool_name(tool) for tool in offered}
    for schema in cast("ToolStrategy[Any]", strategy).schemas if isinstance(strategy, ToolStrategy) else ():
        if schema.name in taken:
            what = f"response_format and a tool have the name {schema.name!r}"
            raise InvalidConfigError(what, cure="Rename one: the model gives the answer by a call of this name.")


def _tool_node(
    tools: Sequence[Any] | ToolNode | None, middleware: Sequence[AgentMiddleware[Any, Any]]
) -> tuple[ToolNode | None, list[Any]]:
    """The node that runs tools, if there is anything to run; and what the model is offered."""
    added = [tool for one in middleware for tool in one.tools]
    wrapper = wrapper_of(middleware, "wrap_tool_call", lambda answer, _given, _request: answer)
    if isinstance(tools, ToolNode):
        if added or wrapper is not None:
            what = "tools is a ToolNode, and the middleware brings tools or a wrap_tool_call of its own"
            raise InvalidConfigError(what, cure="Pass the tools as a list.")
        return tools, tools.offered
    every = [*(tools or ()), *added]
    node = ToolNode(
        every,
        name=_TOOLS,
        wrap_tool_call=None if wrapper is None else wrapper.sync,
        awrap_tool_call=None if wrapper is None else wrapper.asyn,
    )
    return (node if node.tools_by_name or wrapper is not None else None), node.offered


# --- nodes and edges -------------------------------------------------------------------------------------------------


def _connect(
    graph: StateGraph[Any, Any, Any, Any],
    middleware: list[AgentMiddleware[Any, Any]],
    node: ToolNode | None,
    *,
    structured: bool,
) -> None:
    """The hooks' nodes, and who follows whom."""
    before_agent = _add(graph, middleware, "before_agent")
    before_model = _add(graph, middleware, "before_model")
    after_model = _add(graph, middleware[::-1], "after_model")
    after_agent = _add(graph, middleware[::-1], "after_agent")
    direct = frozenset[str]() if node is None else node.direct
    routes = Routes(
        loop=next(iter(before_model), _MODEL),
        exit=next(iter(after_agent), END),
        tools=_TOOLS if node is not None else None,
        direct=direct,
    )
    _chain(graph, START, before_agent, routes.loop, routes)
    _chain(graph, None, before_model, _MODEL, routes)
    _chain(graph, None, after_agent, END, replace(routes, exit=END))
    answered = [_MODEL, *after_model]
    for name, follower in pairwise(answered):
        _leave(graph, name, follower, after_model.get(name, ()), routes)
    targets = [routes.exit, routes.loop, *([_TOOLS] if node is not None else ())]
    graph.add_conditional_edges(answered[-1], routes.after_model, list(dict.fromkeys(targets)))
    if node is None:
        return
    if direct or structured:
        graph.add_conditional_edges(_TOOLS, routes.after_tools, list(dict.fromkeys([routes.loop, routes.exit])))
    else:
        graph.add_edge(_TOOLS, routes.loop)


def _add(
    graph: StateGraph[Any, Any, Any, Any], middleware: Sequence[AgentMiddleware[Any, Any]], hook: str
) -> dict[str, tuple[JumpTo, ...]]:
    """Add a node for each middleware that has this hook; their names in order, with where each may jump."""
    added: dict[str, tuple[JumpTo, ...]] = {}
    for one in middleware:
        sync, asyn = own(one, hook), own(one, f"a{hook}")
        if sync is None and asyn is None:
            continue
        name, jumps = f"{one.name}.{hook}", can_jump_to(one, hook)

        def read(update: Any, state: Any, name: str = name, jumps: tuple[JumpTo, ...] = jumps) -> Any:
            return beside(check_jump(update, name, jumps), _settled(state, hook))

        if sync is None:
            graph.add_node(name, _async_hook(asyn, read))
        else:
            graph.add_node(name, _hook(sync, read), afunc=None if asyn is None else _async_hook(asyn, read))
        added[name] = jumps
    return added


def _settled(state: Any, hook: str) -> dict[str, Any]:
    """What a hook writes of its own. The jump that led to it is over; behind the model it can only be one of
    wrap_model_call, which is made when all hooks are through. The structured response is one of the last run.
    """
    own: dict[str, Any] = {}
    if jump := peek(state, "jump_to"):
        own["jump_to"] = jump if hook == "after_model" else None
    if hook.startswith("before") and peek(state, "structured_response") is not None:
        own["structured_response"] = None
    return own


def _hook(hook: Callable[..., Any], read: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(state: Any, runtime: Any) -> Any:
        return read(hook(state, runtime), state)

    return run


def _async_hook(hook: Callable[..., Any], read: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    async def run(state: Any, runtime: Any) -> Any:
        return read(await hook(state, runtime), state)

    return run


def _chain(
    graph: StateGraph[Any, Any, Any, Any],
    source: str | None,
    nodes: dict[str, tuple[JumpTo, ...]],
    target: str,
    routes: Routes,
) -> None:
    """`source`, the nodes in their order, `target`."""
    names = list(nodes)
    if source is not None:
        graph.add_edge(source, names[0] if names else target)
    for name, follower in pairwise([*names, target]):
        _leave(graph, name, follower, nodes[name], routes)


def _leave(
    graph: StateGraph[Any, Any, Any, Any], name: str, follower: str, jumps: Sequence[JumpTo], routes: Routes
) -> None:
    """From a hook to who follows it, or where it jumps."""
    if not jumps:
        graph.add_edge(name, follower)
        return

    def jump_or_go_on(state: Any) -> Any:
        return routes.jumped(state, jumps) or follower

    graph.add_conditional_edges(name, jump_or_go_on, list(dict.fromkeys([follower, *routes.places(jumps)])))
