"""What a stream shows: the payload of each mode, as plain functions of tasks and values.

values       the state after a step; the state with "__interrupt__" when a node asked
updates      {node: what it wrote}, as tasks finish
custom       what nodes wrote with their stream writer
tasks        start and result of each task
checkpoints  each checkpoint, as get_state would show it
debug        the two above, wrapped with step, time and type
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from durable_graph.types import MISSING, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.records import Write

__all__ = ["Event", "output", "result_payload", "start_payload", "state", "update_payload", "written"]

Event: TypeAlias = "tuple[str, Any] | tuple[str, Any, tuple[str, ...]]"
"""A mode and its payload; of a graph inside a task, its namespace too."""


def state(program: Program, values: Mapping[str, Any], copy: Callable[[Any], Any]) -> Any:
    """The whole state, private keys too, independent of the run's own; the bare value of a root state, or None."""
    if ROOT in program.channels:
        return copy(values.get(ROOT))
    return {key: copy(values[key]) for key in program.channels if key in values}


def output(program: Program, values: Mapping[str, Any]) -> Any:
    """What a run returns: a dict of the output keys, or the bare value of a root state (None: never written)."""
    if program.root:
        return values.get(ROOT)
    return {key: values[key] for key in program.output_keys if key in values}


def written(writes: Sequence[Write]) -> Any:
    """Writes as the update a node returned: None, a dict, the bare value of a root state, or a list of dicts when
    one key was written several times.
    """
    if not writes:
        return None
    if len(writes) == 1 and writes[0].key == ROOT:
        return writes[0].value
    keys = [write.key for write in writes]
    if len(set(keys)) == len(keys):
        return {write.key: write.value for write in writes}
    if set(keys) == {ROOT}:
        return [write.value for write in writes]
    return [{write.key: write.value} for write in writes]


def update_payload(task: Task, copy: Callable[[Any], Any], *, cached: bool = False) -> dict[str, Any]:
    """The "updates" payload of a finished task; `cached` when its result came from storage or from a cache."""
    payload: dict[str, Any] = {task.name: copy(written(task.writes or ()))}
    if cached:
        payload["__metadata__"] = {"cached": True}
    return payload


def start_payload(task: Task, values: Mapping[str, Any], copy: Callable[[Any], Any]) -> dict[str, Any]:
    """The "tasks" payload of a task that starts, and of each further attempt: "attempt" in its metadata says which."""
    spec = task.spec
    if task.arg is not MISSING:
        given = copy(task.arg)
    elif ROOT in values:
        given = copy(values[ROOT])
    elif spec.keys is None:
        given = {key: copy(value) for key, value in values.items()}
    else:
        given = {key: copy(values[key]) for key in spec.keys if key in values}
    payload: dict[str, Any] = {"id": task.id, "name": task.name, "input": given, "triggers": (task.path,)}
    if spec.metadata or task.attempt > 1:
        payload["metadata"] = {**spec.metadata, **_attempt(task)}
    return payload


def result_payload(task: Task, copy: Callable[[Any], Any]) -> dict[str, Any]:
    """The "tasks" payload of a task that ended."""
    payload: dict[str, Any] = {
        "id": task.id,
        "name": task.name,
        "error": repr(task.error) if task.error is not None else None,
        "result": _grouped(task.writes or (), copy),
        "interrupts": [
            {"value": asked.value, "id": asked.id, "response_schema": asked.response_schema}
            for asked in task.interrupts
        ],
    }
    if task.attempt > 1:
        payload["metadata"] = _attempt(task)
    return payload


def _attempt(task: Task) -> dict[str, int]:
    """Which attempt it is, where it is not the first."""
    return {"attempt": task.attempt} if task.attempt > 1 else {}


def _grouped(writes: Sequence[Write], copy: Callable[[Any], Any]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for write in writes:
        found.setdefault(write.key, []).append(copy(write.value))
    return {key: values[0] if len(values) == 1 else {"$writes": values} for key, values in found.items()}
