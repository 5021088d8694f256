"""What `@entrypoint` makes: a graph of one node, whose state is what the function returned.

    "__start__"      the input, until the function is through
    "__end__"        what it returned
    "__previous__"   what it saved for its next run, once that was something else than what it returned

Programs, drivers and stored threads are those of any graph. What differs is what callers see: the bare value of
"__end__" where a graph shows the dict of its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override

from durable_graph.graph.compiled import CompiledStateGraph
from durable_graph.graph.passing import apassing, passing
from durable_graph.graph.views import ThreadView
from durable_graph.runtime.places import SAVED
from durable_graph.schema import Schema, json_schema_of
from durable_graph.types import GraphOutput

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call
    from durable_graph.graph.outputs import Selection
    from durable_graph.langchain.callbacks import Bridge
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.session import Asking
    from durable_graph.types import StateSnapshot

__all__ = ["GIVEN", "InputSchema", "Workflow"]

GIVEN: Final = "__start__"
"""In the state of an entrypoint: its input."""

_LIVE = frozenset({"live"})
"""A mode that is wanted of what runs inside, though no event has it: its tasks are shown as soon as they end."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InputSchema(Schema):
    """The input of an entrypoint: one value, whatever it is."""

    @override
    def read_update(self, update: Any) -> list[tuple[str, Any]]:
        return [(GIVEN, update)]


class Workflow(CompiledStateGraph[Any, Any, Any, Any]):
    """A function that runs as a graph: it has the calls of one.

    `invoke(input, config)` calls it. With a checkpointer `invoke(None, config)` goes on with a run that was cut short,
    and `invoke(Command(resume=...), config)` with one that asked; the function then runs again from its start, while
    its tasks and other recorded steps give what they gave.
    """

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], function: Callable[..., Any]) -> None:
        cast("dict[str, Any]", self.__dict__).update(vars(graph))
        self.function = function
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @override
    def __repr__(self) -> str:
        return f"entrypoint({self.name!r})"

    def get_input_jsonschema(self, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON schema of the input, from the hint of the function's first parameter.

        Raises:
            InvalidSchemaError: the type has no JSON schema.
        """
        del config
        return {"title": f"{self.name}Input", **json_schema_of(self.schemas.input.type)}

    def get_output_jsonschema(self, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON schema of what it returns, from the function's return hint.

        Raises:
            InvalidSchemaError: the type has no JSON schema.
        """
        del config
        return {"title": f"{self.name}Output", **json_schema_of(self.schemas.output.type)}

    # --- what callers see ---------------------------------------------------------------------------------------------

    @override
    def _result(self, outcome: Outcome, version: str = "v1", selection: Selection = None) -> Any:
        """What it returned; where it asked, only the questions: it has not returned yet."""
        interrupts = outcome.interrupts
        value = None if interrupts else outcome.values.get(SAVED)
        if version == "v2":
            return GraphOutput(value, interrupts)
        return {"__interrupt__": list(interrupts)} if interrupts else value

    @override
    def _view(self, config: Mapping[str, Any]) -> ThreadView:
        view = super()._view(config)
        if not view.ns:
            view.__class__ = _View  # its fields are the same
        return view

    def _shown(self, event: Event) -> Event:
        """An event of its own, as callers see it; those of graphs inside it come as they are."""
        mode, payload, *ns = event
        if ns and ns[0]:
            return event
        if mode == "debug":
            kind = "checkpoints" if payload["type"] == "checkpoint" else "tasks"
            return mode, {**payload, "payload": self._shown((kind, payload["payload"]))[1]}
        if mode == "values":
            payload = _value(payload)
        elif mode == "updates":
            payload = {name: _value(update) if name == self.node else update for name, update in payload.items()}
        elif mode == "tasks":
            payload = self._task(payload)
        elif mode == "checkpoints":
            payload = {**payload, "values": _value(payload["values"])}
        return mode, payload

    def _task(self, payload: dict[str, Any]) -> dict[str, Any]:
        if payload["name"] != self.node:
            return payload
        if "input" in payload:
            return {**payload, "input": payload["input"].get(GIVEN)}
        result = payload["result"]
        return {**payload, "result": {SAVED: result[SAVED]} if SAVED in result else {}}

    @property
    def node(self) -> str:
        """The name of its one node."""
        return next(name for name, spec in self.program.nodes.items() if not spec.hidden)

    # --- running ------------------------------------------------------------------------------------------------------

    @override
    def _begin(self, call: Call, bridge: Bridge | None) -> tuple[RunContext, Any]:
        shared, session = super()._begin(call, bridge)
        if "updates" in call.request.modes:
            shared.below |= _LIVE
        return shared, session

    @override
    def _tries(self, call: Call, bridge: Bridge | None) -> Generator[Sequence[Event], None, Outcome]:
        running = super()._tries(call, bridge)
        return passing(running, self._translated) if call.request.modes else running

    @override
    def _atries(
        self, call: Call, bridge: Bridge | None, outcome: list[Outcome]
    ) -> AsyncGenerator[Sequence[Event], None]:
        return apassing(super()._atries(call, bridge, outcome), self._translated)

    def _translated(self, events: Sequence[Event]) -> list[Event]:
        return [self._shown(event) for event in events]


class _View(ThreadView):
    """A thread of an entrypoint: its values are what the function returned."""

    __slots__ = ()

    @override
    def with_graphs_inside(self) -> Asking[StateSnapshot]:
        return _bare((yield from super().with_graphs_inside()))

    @override
    def _snapshot(self, stored: StoredCheckpoint, *, live: bool) -> StateSnapshot:
        return _bare(super()._snapshot(stored, live=live))


def _bare(shown: StateSnapshot) -> StateSnapshot:
    tasks = tuple(task._replace(result=_value(task.result)) for task in shown.tasks)
    return shown._replace(values=_value(shown.values), tasks=tasks)


def _value(state: Any) -> Any:
    """What the function returned, of a state, an update, or a result; with what it asked where it waits."""
    if not isinstance(state, dict):
        return state
    found = cast("dict[str, Any]", state)
    if "__interrupt__" in found:
        return {"__interrupt__": found["__interrupt__"]}
    return found.get(SAVED)
