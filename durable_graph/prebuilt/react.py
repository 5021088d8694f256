"""`create_react_agent`: a model and its tools in turns, as LangGraph's users know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from durable_graph.errors import InvalidConfigError
from durable_graph.graph import StateGraph
from durable_graph.prebuilt.families import is_tool_message
from durable_graph.prebuilt.model_calls import add_asking, chat_model, is_bound, is_langchain
from durable_graph.prebuilt.react_model import Prompt, ReactModel, StructuredAnswerNode
from durable_graph.prebuilt.react_state import state_of, with_model_input
from durable_graph.prebuilt.tool_input import messages_in, names_run, pending_calls
from durable_graph.prebuilt.tool_node import ToolNode
from durable_graph.types import END, START, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.graph.compiled import CheckpointerLike, CompiledStateGraph

__all__ = ["create_react_agent"]

_AGENT, _TOOLS = "agent", "tools"
_PRE, _POST, _STRUCTURED = "pre_model_hook", "post_model_hook", "generate_structured_response"


def create_react_agent(  # noqa: D417 - the last line of its arguments describes five
    model: Any,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Any = None,
    response_format: Any = None,
    pre_model_hook: Any = None,
    post_model_hook: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: CheckpointerLike = None,
    store: Any = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent of the nodes "agent" (the model) and "tools". `create_agent` has middleware instead of hooks.

    A run that has less than two steps left, and calls pending, ends with a message that says so.

    Args:
        model: a chat model, "provider:model", or a function `(state, runtime)`, sync or async, that gives one with its
            tools bound. A model that comes with tools must have just these.
        tools: functions, tools, LangChain's tools, dicts for what a provider runs itself; or a `ToolNode`.
        prompt: a str or SystemMessage that goes before the history; or a function of the state (or an object with
            `invoke`) that gives all that the model is sent.
        response_format: a schema; after the last answer the model is asked once more, and what it gives comes under
            "structured_response". A pair (prompt, schema) brings a prompt for that. Strategies of
            `durable_graph.agents.structured_output` are schemas too.
        pre_model_hook: a node before each call of the model. What it writes to "llm_input_messages" is sent instead of
            the history; what it writes to "messages" changes the history.
        post_model_hook: a node after each call of the model.
        state_schema: a TypedDict, pydantic model or dataclass with `messages` and `remaining_steps` (and
            `structured_response`, where one is asked for).
        context_schema: the type of what callers pass as `context=`.
        version: "v2": each call of a tool is a task of its own (a Send). "v1": one task makes all calls.
        name: of the graph, and of its messages.
        checkpointer, store, interrupt_before, interrupt_after, debug: as for `StateGraph.compile`.

    Raises:
        InvalidConfigError: the model, its tools or an option is wrong.
        InvalidGraphError: something is no tool.
        InvalidSchemaError: the state lacks a key.
    """
    if version not in ("v1", "v2"):
        raise InvalidConfigError(f"version is {version!r}", cure="Pass 'v1' or 'v2'.")
    node = tools if isinstance(tools, ToolNode) else ToolNode(tools)
    offered = node.offered
    dynamic = callable(model) and not hasattr(model, "invoke") and not hasattr(model, "ainvoke")
    if not dynamic:
        model = chat_model(model)
    asking = ReactModel(
        model,
        offered,
        Prompt(prompt),
        direct=node.direct,
        name=name,
        dynamic=dynamic,
        prebound=not dynamic and is_bound(model, offered),
    )
    structured = None if response_format is None else StructuredAnswerNode(asking, response_format)
    state = state_of(state_schema, None if structured is None else structured.schema)
    graph = StateGraph(state, context_schema)
    graph.keeps_finished = True
    agent_input = state
    if pre_model_hook is not None:
        agent_input = with_model_input(state)
        graph.add_node(_PRE, pre_model_hook)
        graph.add_edge(_PRE, _AGENT)
    add_asking(graph, _AGENT, asking, agent_input)
    if node.tools_by_name:
        graph.add_node(_TOOLS, node)
    if post_model_hook is not None:
        graph.add_node(_POST, post_model_hook)
        graph.add_edge(_AGENT, _POST)
    if structured is not None:
        add_asking(graph, _STRUCTURED, structured, state)
        graph.add_edge(_STRUCTURED, END)
    _route(graph, node, each=version == "v2")
    return graph.compile(
        checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name,
        messages="langchain" if is_langchain(model) else None,
    )


def _route(graph: StateGraph[Any, Any, Any, Any], node: ToolNode, *, each: bool) -> None:
    """The edges: into each turn of the model, and out of it. each: every call is a task of its own."""
    start = _PRE if _PRE in graph.nodes else _AGENT
    done = _STRUCTURED if _STRUCTURED in graph.nodes else END
    has_tools = _TOOLS in graph.nodes
    direct = node.direct

    def after_model(state: Any) -> Any:
        messages = messages_in(state, "messages")
        calls = pending_calls(messages) if has_tools else []
        if calls:
            return [Send(_TOOLS, call) for call in calls] if each else _TOOLS
        last = messages[-1] if messages else None
        return start if is_tool_message(last) else done

    def after_tools(state: Any) -> str:
        messages = messages_in(state, "messages")
        ran = names_run(messages)
        for message in reversed(messages):
            if not is_tool_message(message):
                break
            ran.add(message.name)
        return END if ran & direct else start

    graph.add_edge(START, start)
    targets = [done, start, *([_TOOLS] if has_tools else [])]
    graph.add_conditional_edges(_POST if _POST in graph.nodes else _AGENT, after_model, targets)
    if not has_tools:
        return
    if direct:
        graph.add_conditional_edges(_TOOLS, after_tools, [start, END])
    else:
        graph.add_edge(_TOOLS, start)
