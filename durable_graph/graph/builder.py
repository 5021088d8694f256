"""`StateGraph`: what users write down. Nothing runs here; `compile` turns it into a `CompiledStateGraph`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast, overload

from typing_extensions import TypeVar

from durable_graph.core.identity import HANDLER
from durable_graph.core.retrying import as_policies
from durable_graph.core.versions import Changes
from durable_graph.errors import InvalidGraphError
from durable_graph.graph.branches import Branch
from durable_graph.graph.lowering import lower
from durable_graph.graph.nodes import Node, NodeDefaults, input_hint
from durable_graph.graph.validation import check_graph
from durable_graph.runtime.callables import Body, name_of
from durable_graph.schema import read_schema
from durable_graph.types import END, START, TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from durable_graph.caches import BaseCache, CachePolicy
    from durable_graph.graph.compiled import CheckpointerLike, CompiledStateGraph
    from durable_graph.graph.nodes import Action
    from durable_graph.types import RetryPolicy

__all__ = ["StateGraph"]

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)
GivenContextT = TypeVar("GivenContextT", default=None)

_FORBIDDEN = ("|", ":", "#")


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph of nodes that read and write a shared state.

    Args:
        state_schema: a TypedDict, dataclass, pydantic model, or an annotated type such as
            `Annotated[list, operator.add]` for a state that is one bare value.
        context_schema: the type of what callers pass as `context=`.
        input_schema: which keys an input may have; the state's when left out.
        output_schema: which keys a run returns; the state's when left out.

    Raises:
        InvalidSchemaError: a schema cannot be used.
    """

    @overload
    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
    ) -> None: ...

    # What is no class to a type checker, such as Annotated[list, operator.add].
    @overload
    def __init__(
        self: StateGraph[Any, GivenContextT, Any, Any],
        state_schema: Any,
        context_schema: type[GivenContextT] | None = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> None: ...

    def __init__(
        self, state_schema: Any, context_schema: Any = None, *, input_schema: Any = None, output_schema: Any = None
    ) -> None:
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.input_schema = input_schema if input_schema is not None else state_schema
        self.output_schema = output_schema if output_schema is not None else state_schema
        _ = read_schema(state_schema)
        self.nodes: dict[str, Node] = {}
        self.edges: set[tuple[str, str]] = set()
        self.waiting_edges: set[tuple[tuple[str, ...], str]] = set()
        self.branches: dict[str, dict[str, Branch]] = {}
        self.defaults = NodeDefaults()
        self.keeps_finished = False
        """Whether new input that abandons a run (`on_unfinished="abandon"`) keeps what finished tasks of its last step
        wrote. Agents do: a call of a tool that was made is not told to the model as cut off."""

    def __repr__(self) -> str:
        return f"StateGraph({getattr(self.state_schema, '__name__', self.state_schema)}: {', '.join(self.nodes)})"

    # --- nodes ------------------------------------------------------------------------------------------------------

    @overload
    def add_node(
        self,
        node: str,
        action: Action,
        *,
        afunc: Callable[..., Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        defer: bool = False,
        error_handler: Action | None = None,
        timeout: TimeoutPolicy | float | timedelta | None = None,
        cache_policy: CachePolicy | None = None,
    ) -> Self: ...

    @overload
    def add_node(
        self,
        node: Action,
        action: None = None,
        *,
        afunc: Callable[..., Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        defer: bool = False,
        error_handler: Action | None = None,
        timeout: TimeoutPolicy | float | timedelta | None = None,
        cache_policy: CachePolicy | None = None,
    ) -> Self: ...

    def add_node(
        self,
        node: Any,
        action: Any = None,
        *,
        afunc: Callable[..., Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        defer: bool = False,
        error_handler: Action | None = None,
        timeout: TimeoutPolicy | float | timedelta | None = None,
        cache_policy: CachePolicy | None = None,
    ) -> Self:
        """Add a node: `add_node("name", function)` or `add_node(function)`, which takes the function's name.

        Args:
            node: the name, or what runs.
            action: what runs: a function (sync or async) of the state, or an object with `invoke`.
            afunc: an async form of `action`, used by the async calls.
            metadata: shown in streams and in the node's config.
            input_schema: what the node reads; the hint of its first parameter when left out, else the state.
            retry_policy: when a failed attempt is tried again; of several policies the first that matches decides. []
                is never, whatever the defaults say.
            destinations: where its Commands may lead: names, or a dict of names and labels. Also read from the return
                hint `Command[Literal["a", "b"]]`.
            defer: run once nothing else would, with what all others wrote: for joins of branches of unequal length.
            error_handler: what runs, with the same input, when the node failed for good; it may take
                `error: NodeError`. What it returns takes the place of the node's result, and the node's own edges are
                not followed: it says where to go with a Command.
            timeout: how long one attempt may take: seconds, a timedelta, or a `TimeoutPolicy`. Sync nodes too.
            cache_policy: results are kept by input, in the cache that `compile(cache=...)` names.

        Raises:
            InvalidGraphError: the name is taken, reserved or not usable, or there is nothing to run.
        """
        name, target = (node, action) if isinstance(node, str) else (name_of(node), node)
        if target is None:
            what = f"node {name!r} was added without anything to run"
            raise InvalidGraphError(what, cure=f"Write add_node({name!r}, function).")
        self._check_name(name)
        added = Node.of(name, target, afunc)
        added.input_schema = input_schema if input_schema is not None else input_hint(target)
        added.metadata = dict(metadata or {})
        added.retry, added.own_retry = as_policies(retry_policy), retry_policy is not None
        if destinations is not None:
            added.destinations = tuple(destinations)
            added.labels = dict(destinations) if isinstance(destinations, Mapping) else {}
        added.defer = defer
        added.error_handler = None if error_handler is None else Body(error_handler, more=("error",))
        added.timeout = None if timeout is None else TimeoutPolicy.coerce(timeout)
        added.cache = cache_policy
        self.nodes[name] = added
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Action | None = None,
        timeout: TimeoutPolicy | float | timedelta | None = None,
    ) -> Self:
        """What holds for every node that says nothing itself, whenever it was added; not for graphs inside nodes.

        Retries and timeouts hold for error handlers too. What is left out stays as an earlier call said. See `add_node`
        for what each means.
        """
        defaults = self.defaults
        if retry_policy is not None:
            defaults.retry = as_policies(retry_policy)
        if cache_policy is not None:
            defaults.cache = cache_policy
        if error_handler is not None:
            defaults.error_handler = Body(error_handler, more=("error",))
        if timeout is not None:
            defaults.timeout = TimeoutPolicy.coerce(timeout)
        return self

    def _check_name(self, name: str) -> None:
        if name in self.nodes:
            what = f"node {name!r} is already present"
            raise InvalidGraphError(what, cure="Give the second node another name.")
        if name in (START, END) or not name:
            what = f"node name {name!r} is reserved" if name else "a node's name is empty"
            raise InvalidGraphError(what, cure="Choose another name.")
        if name.startswith(HANDLER):
            what = f"node name {name!r} is reserved: names that start with {HANDLER!r} are those of error handlers"
            raise InvalidGraphError(what, cure="Choose another name.")
        bad = [sign for sign in _FORBIDDEN if sign in name]
        if bad:
            what = f"node name {name!r} holds {bad[0]!r}, which is reserved"
            raise InvalidGraphError(what, cure=f"Leave {', '.join(map(repr, _FORBIDDEN))} out of node names.")

    # --- edges ------------------------------------------------------------------------------------------------------

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """`end_key` runs after `start_key`; with a list of nodes, once after all of them have run.

        Raises:
            InvalidGraphError: an edge from END or to START.
        """
        sources = (start_key,) if isinstance(start_key, str) else tuple(start_key)
        if END in sources:
            what = f"an edge starts at END (to {end_key!r})"
            raise InvalidGraphError(what, cure="END is where a run is over; nothing follows it.")
        if end_key == START:
            what = f"an edge leads to START (from {', '.join(map(repr, sources))})"
            raise InvalidGraphError(what, cure="Lead it to the node that should run.")
        if not sources:
            what = f"a barrier edge to {end_key!r} has no sources"
            raise InvalidGraphError(what, cure="Name at least one node.")
        if isinstance(start_key, str):
            self.edges.add((start_key, end_key))
        else:
            self.waiting_edges.add((tuple(sorted(set(sources))), end_key))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Action,
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
    ) -> Self:
        """After `source`, `path(state)` says where to go: a node's name, a Send, or a list of them.

        Args:
            source: the node, or START.
            path: sees the state with the node's own writes. Plain functions run on the event loop under asyncio, so
                they should only look at the state; an object with `invoke` may take its time.
            path_map: answer -> node, or a list of nodes. Without it, a `Literal[...]` return hint tells the targets.

        Raises:
            InvalidGraphError: the node has a router of this name already.
        """
        branches = self.branches.setdefault(source, {})
        name = name_of(path)
        if name == "<lambda>":
            name = f"condition{len(branches) + 1}" if branches else "condition"
        if name in branches:
            what = f"node {source!r} has a router {name!r} already"
            raise InvalidGraphError(what, cure="Add each router once, or give the second one another name.")
        branches[name] = Branch.of(name, path, path_map)
        return self

    def add_sequence(self, nodes: Sequence[Action | tuple[str, Action]]) -> Self:
        """Add nodes that run one after the other: functions, or (name, function) pairs.

        Raises:
            InvalidGraphError: the sequence is empty, or a name is taken.
        """
        if not nodes:
            what = "add_sequence() got no nodes"
            raise InvalidGraphError(what, cure="Pass at least one function.")
        before: str | None = None
        for entry in nodes:
            pair: tuple[str, Any] = cast("Any", entry) if isinstance(entry, tuple) else (name_of(entry), entry)
            name, action = pair
            _ = self.add_node(name, action)
            if before is not None:
                _ = self.add_edge(before, name)
            before = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """The same as `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Action, path_map: Mapping[Any, str] | Sequence[str] | None = None
    ) -> Self:
        """The same as `add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The same as `add_edge(key, END)`."""
        return self.add_edge(key, END)

    # --- compiling --------------------------------------------------------------------------------------------------

    def validate(self, interrupt: Sequence[str] = ()) -> Self:
        """Look for mistakes; `interrupt` are nodes that breakpoints name.

        Raises:
            InvalidGraphError: all mistakes, in one text.
        """
        check_graph(self, interrupt)
        return self

    def compile(
        self,
        checkpointer: CheckpointerLike = None,
        *,
        store: Any = None,
        interrupt_before: Sequence[str] | Literal["*"] | None = None,
        interrupt_after: Sequence[str] | Literal["*"] | None = None,
        strict: bool = True,
        validate: Literal["keys", "values"] = "keys",
        name: str | None = None,
        cache: BaseCache | None = None,
        step_timeout: float | None = None,
        version: str = "",
        node_aliases: Mapping[str, str] | None = None,
        key_aliases: Mapping[str, str] | None = None,
        migrate_state: Callable[[dict[str, Any], str], Mapping[str, Any]] | None = None,
        debug: bool = False,
        messages: Literal["ours", "langchain"] | None = None,
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Make it runnable.

        Args:
            checkpointer: where runs are kept: an object, a URL such as "sqlite:///runs.db", or a path. None: nowhere.
            store: long-term memory, handed to nodes.
            interrupt_before: nodes before which a run stops, or "*" for all.
            interrupt_after: nodes after which a run stops, or "*".
            strict: unknown keys, routes and targets are errors. False ignores what LangGraph ignores.
            validate: "values" also checks the types of what nodes write to TypedDict and dataclass states.
            name: of the graph; its runs appear under it.
            cache: keeps results of nodes that have a cache_policy.
            step_timeout: seconds that one step may take.
            version: what you call this state of the code; stored with every checkpoint.
            node_aliases: old name -> new name of nodes, for threads that were stored under the old one.
            key_aliases: the same for keys of the state.
            migrate_state: called with the values of a checkpoint of another version, and that version; returns what
                they are now. What is stored stays; the next checkpoint has the new values.
            debug: print updates and values as they come.
            messages: whose messages text and dicts become in keys with `add_messages`; what the declared type, the
                messages already there or a loaded LangChain say when left out.

        Raises:
            InvalidGraphError: the graph has mistakes; all of them are in the text.
            InvalidConfigError: the checkpointer is none.
        """
        before, after = _names(interrupt_before), _names(interrupt_after)
        named = [one for names in (before, after) if names != "*" for one in names]
        check_graph(self, named)
        changes = Changes(version, dict(node_aliases or {}), dict(key_aliases or {}), migrate_state)
        # Here and not above: it loads asyncio and all that runs graphs, and writing one down should not have to wait.
        from durable_graph.graph.compiled import CompiledStateGraph

        program, context = lower(
            self,
            name or "LangGraph",
            before=before,
            after=after,
            strict=strict,
            validation=validate,
            changes=changes,
            step_timeout=step_timeout,
            messages=messages,
        )
        return CompiledStateGraph(self, program, context, checkpointer, store=store, cache=cache, debug=debug)


def _names(given: Sequence[str] | str | None) -> frozenset[str] | Literal["*"]:
    if given == "*":
        return "*"
    return frozenset((given,) if isinstance(given, str) else given or ())
