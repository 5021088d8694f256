"""From what a user wrote down to the flat tables of a `Program`."""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, cast

from durable_graph.core.identity import HANDLER
from durable_graph.core.program import Join, NodeSpec, Program
from durable_graph.core.versions import stamp
from durable_graph.graph.subgraph import GraphNode
from durable_graph.persistence.annotations import register_annotations
from durable_graph.runtime.callables import Body
from durable_graph.runtime.work import BranchWork, NodeWork, Reader, Scope
from durable_graph.schema import Schema, make_validator, merge_channels, read_schema
from durable_graph.schema.coerce import read_instance
from durable_graph.types import END, ROOT, START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.core.program import NodeNames
    from durable_graph.core.versions import Changes
    from durable_graph.graph.builder import StateGraph
    from durable_graph.graph.nodes import Node
    from durable_graph.schema import Validator

    Graph = StateGraph[Any, Any, Any, Any]

__all__ = ["Context", "lower"]


class Context:
    """What a compiled graph needs beside its program: schemas of what goes in and comes out."""

    __slots__ = ("checks", "context", "input", "output", "scope", "state")

    def __init__(
        self,
        state: Schema,
        given: Schema,
        output: Schema,
        context: Schema | None,
        scope: Scope,
        checks: Validator | None,
    ) -> None:
        self.state = state
        self.input = given
        self.output = output
        self.context = context
        self.scope = scope
        self.checks = checks


def lower(
    graph: Graph,
    name: str,
    *,
    before: NodeNames,
    after: NodeNames,
    strict: bool,
    validation: Literal["keys", "values"],
    changes: Changes,
    step_timeout: float | None,
    messages: Literal["ours", "langchain"] | None,
) -> tuple[Program, Context]:
    """The program of a graph that was checked, and the schemas around it.

    Raises:
        InvalidSchemaError: two schemas contradict each other.
    """
    state = read_schema(graph.state_schema)
    given = _schema(graph.input_schema, graph, state, "input")
    output = _schema(graph.output_schema, graph, state, "output")
    private = {node.name: _private(node, state) for node in graph.nodes.values()}
    channels = merge_channels([state, given, output, *private.values()])
    for key, channel in channels.items():
        channel.key = channel.key or key
    for schema in (state, given, output, *private.values()):
        register_annotations(schema.type)
        for hint in schema.hints.values():
            register_annotations(hint)
    validator = make_validator(state, validation)
    scope = Scope(
        graph=name,
        keys=frozenset(channels),
        targets=frozenset(graph.nodes) | {END},
        unstored=frozenset(key for key, channel in channels.items() if not channel.stored),
        read_update=_read_root if state.kind == "root" else _read_update,
        validate=validator.validate_write if validator is not None else None,
        strict=strict,
        root=state.kind == "root",
        prepare=_preparations(channels, messages),
    )
    joins = {
        f"{'+'.join(sources)}->{target}": Join(f"{'+'.join(sources)}->{target}", sources, target)
        for sources, target in sorted(graph.waiting_edges)
    }
    make = _Maker(graph, scope, joins, state, frozenset(channels))
    nodes = {node.name: make.node(node, private[node.name]) for node in graph.nodes.values()}
    nodes[START] = make.start(given)
    program = Program(
        name=name,
        nodes=nodes,
        joins=joins,
        channels=channels,
        state_keys=state.keys,
        output_keys=output.keys,
        fingerprint=stamp(_fingerprint(graph, channels), changes.version),
        root=output.kind == "root",
        transient=tuple(key for key, channel in channels.items() if channel.transient),
        unstored=scope.unstored,
        checks=validator,
        interrupt_before=before,
        interrupt_after=after,
        strict=strict,
        deferred=frozenset(node.name for node in graph.nodes.values() if node.defer),
        changes=changes,
        step_timeout=step_timeout,
        cached=tuple(name for name, spec in nodes.items() if spec.work.cache is not None),
        keeps_finished=graph.keeps_finished,
    )
    changes.check(program)
    context = read_schema(graph.context_schema, role="context") if graph.context_schema is not None else None
    return program, Context(state, given, output, context, scope, validator)


def _preparations(channels: Mapping[str, Any], messages: str | None) -> dict[str, Callable[[Any, Any], Any]]:
    """What readies updates before anything of them is stored, for reducers that say so: `reducer.prepare_for(type,
    family) -> (write, value) -> write`.
    """
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for key, channel in channels.items():
        makes = getattr(getattr(channel, "op", None), "prepare_for", None)
        if makes is not None:
            found[key] = makes(channel.typ, messages)
    return found


def _schema(wanted: Any, graph: Graph, state: Schema, role: Literal["input", "output"]) -> Schema:
    return state if wanted is graph.state_schema else read_schema(wanted, role=role)


def _private(node: Node, state: Schema) -> Schema:
    """What a node reads. A hint that is the state's own class, or no schema, is the state."""
    wanted = node.input_schema
    if wanted is None or wanted is state.type:
        return state
    return read_schema(wanted, role="private")


def _read_update(update: Any) -> list[tuple[str, Any]] | None:
    if update is None:
        return []
    if isinstance(update, dict):
        return list(cast("dict[str, Any]", update).items())
    return read_instance(update)


def _read_root(update: Any) -> list[tuple[str, Any]] | None:
    return [(ROOT, update)]


class _Maker:
    """Makes the nodes of one program."""

    def __init__(
        self, graph: Graph, scope: Scope, joins: Mapping[str, Join], state: Schema, channels: frozenset[str]
    ) -> None:
        self._scope = scope
        self._channels = channels
        self._state = state
        self._edges: dict[str, list[str]] = defaultdict(list)
        for source, target in sorted(graph.edges):
            if target != END:
                self._edges[source].append(target)
        self._joins: dict[str, list[str]] = defaultdict(list)
        for join in joins.values():
            for source in join.sources:
                if join.target != END:
                    self._joins[source].append(join.name)
        self._routers = graph.branches
        self._defaults = graph.defaults

    def node(self, node: Node, schema: Schema) -> NodeSpec:
        """A node of the user's."""
        reader = self._reader(schema)
        branches = self._branches(node.name, schema)
        body = self._body(node.body)
        bodies = [body, *(branch.body for branch in branches)]
        work = NodeWork(
            node.name,
            self._scope,
            reader,
            body,
            branches,
            needs_loop=any(body.sync is None for body in bodies),
            threaded=body.asyn is None and all(body.sync is not None for body in bodies),
            cache=node.cache or self._defaults.cache,
        )
        return NodeSpec(
            name=node.name,
            work=work,
            edges=tuple(self._edges[node.name]),
            joins=tuple(self._joins[node.name]),
            keys=reader.keys,
            routed=bool(branches),
            retry=node.retry if node.own_retry else self._defaults.retry,
            metadata=node.metadata,
            handler=self._handler(node, reader),
            timeout=node.timeout or self._defaults.timeout,
        )

    def _body(self, body: Body) -> Body:
        from durable_graph.graph.compiled import CompiledStateGraph

        target = body.target
        if not isinstance(target, CompiledStateGraph):
            return body
        graph = cast("CompiledStateGraph[Any, Any, Any, Any]", target)
        return Body(GraphNode(graph, None if self._scope.root else self._channels))

    def _handler(self, node: Node, reader: Reader) -> NodeSpec | None:
        """What runs when a node failed for good: a node of its own, which nothing leads to."""
        body, defaults = node.error_handler or self._defaults.error_handler, self._defaults
        if body is None:
            return None
        body, name = self._body(body), f"{HANDLER}{node.name}"
        work = NodeWork(name, self._scope, reader, body, needs_loop=body.sync is None, threaded=body.asyn is None)
        return NodeSpec(name=name, work=work, keys=reader.keys, retry=defaults.retry, timeout=defaults.timeout)

    def start(self, given: Schema) -> NodeSpec:
        """The hidden node that takes the input in."""
        reader = self._reader(given)
        branches = self._branches(START, self._state)
        needs_loop = any(branch.body.sync is None for branch in branches)
        heavy = any(not branch.body.light and branch.body.asyn is None for branch in branches)
        work = NodeWork(START, self._scope, reader, None, branches, needs_loop=needs_loop, threaded=heavy)
        return NodeSpec(
            name=START, work=work, edges=tuple(self._edges[START]), routed=bool(branches), keys=reader.keys, hidden=True
        )

    def _reader(self, schema: Schema) -> Reader:
        everything = frozenset(schema.keys) == self._channels
        return Reader(
            schema=schema,
            keys=None if everything else schema.keys,
            managed=schema.managed,
            plain=schema.kind == "typeddict",
            root=schema.kind == "root",
        )

    def _branches(self, source: str, schema: Schema) -> tuple[BranchWork, ...]:
        from durable_graph.graph.nodes import input_hint

        found: list[BranchWork] = []
        for branch in self._routers.get(source, {}).values():
            hint = input_hint(branch.path)
            wanted = schema
            if hint is not None and hint is not self._state.type:
                private = read_schema(hint, role="private")
                wanted = private if self._channels.issuperset(private.keys) else schema
            found.append(BranchWork(branch.name, Body(branch.path), self._reader(wanted), branch.path_map))
        return tuple(found)


def _fingerprint(graph: Graph, channels: Mapping[str, Any]) -> str:
    """A short hash of what decides whether a stored run can go on: nodes, edges, keys and how they accumulate."""
    parts = [
        *sorted(graph.nodes),
        *(f"{source}->{target}" for source, target in sorted(graph.edges)),
        *(f"{sources}->{target}" for sources, target in sorted(graph.waiting_edges)),
        *(f"{key}:{type(channel).__name__}" for key, channel in sorted(channels.items())),
    ]
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
