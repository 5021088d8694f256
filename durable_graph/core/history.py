"""A stored checkpoint as a user sees it: `StateSnapshot`.

Two views. *Live* (the newest checkpoint of a thread): results of finished tasks are in `values`, finished nodes are
no longer in `next`. *Historical* (a checkpoint asked for by id, and all of history): the checkpoint as it was saved;
what its tasks did is in `tasks[].result`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from durable_graph.core import identity, streaming
from durable_graph.core.applying import preview
from durable_graph.core.commands import COMMAND_PATH, live_frontier
from durable_graph.core.versions import adapted, version_of
from durable_graph.types import StateSnapshot, StateTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.core.program import Program
    from durable_graph.records import Address, Frontier, StoredCheckpoint
    from durable_graph.types import Config

__all__ = ["config_of", "empty_snapshot", "snapshot"]


def config_of(thread: str, address: Address, ns: str = "") -> Config:
    """The config that addresses a checkpoint."""
    found = identity.checkpoint_id(address)
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": found}}


def empty_snapshot(config: Config) -> StateSnapshot:
    """What an unknown thread shows."""
    return StateSnapshot({}, (), config, None, None, None, (), ())


def snapshot(
    program: Program, thread: str, stored: StoredCheckpoint, *, live: bool, copy: Callable[[Any], Any], ns: str = ""
) -> StateSnapshot:
    """A checkpoint as a user sees it. `ns` is the namespace of the graph."""
    stored = adapted(program, stored, thread) or stored
    values = {**program.initial_values(), **stored.values}
    named = _paths(live_frontier(stored, program.deferred) if live else stored.step.frontier)
    planned = {path for path, _ in named}
    named += [  # error handlers, and what a Command led to if it waits for a human
        (path, record.node)
        for path, record in sorted(stored.pending.items(), key=lambda known: identity.path_order(known[0]))
        if path not in planned and (path.startswith(identity.HANDLER) or (record.interrupts and record.writes is None))
    ]
    tasks = [_state_task(thread, *one, stored, live=live) for one in named]
    done = [stored.pending[path] for path in sorted(stored.pending, key=identity.path_order)] if live else []
    done = [record for record in done if record.writes is not None]
    for brought in (True, False):  # what a Command brought is there before the step
        wrote = [record for record in done if (record.path == COMMAND_PATH) is brought]
        writes = [write for record in wrote for write in record.writes or () if write.key in program.channels]
        with suppress(Exception):  # where results contradict each other, the step fails; reading must not
            values = preview(program.channels, values, writes, copy)
    finished = {record.path for record in done}
    finished |= {record.path.removeprefix(identity.HANDLER) for record in done}  # what a handler did for a node
    paths = [path for path, _ in named]
    created = datetime.fromtimestamp(stored.step.created_at / 1000, UTC).isoformat() if stored.step.created_at else None
    return StateSnapshot(
        values=streaming.state(program, values, copy),
        next=tuple(
            task.name for path, task in zip(paths, tasks, strict=True) if path in planned and path not in finished
        ),
        config=config_of(thread, stored.address, ns),
        metadata=_metadata(stored),
        created_at=created,
        parent_config=config_of(thread, stored.parent, ns) if stored.parent is not None else None,
        tasks=tuple(tasks),
        interrupts=tuple(asked for task in tasks for asked in task.interrupts),
    )


def _paths(frontier: Frontier) -> list[tuple[str, str]]:
    """Path and node name of each task, by name alone: the graph may have changed since this was stored."""
    found = [(name, name) for name in frontier.nodes]
    return found + [(identity.push_path(send.node, index), send.node) for index, send in enumerate(frontier.sends)]


def _state_task(thread: str, path: str, node: str, stored: StoredCheckpoint, *, live: bool) -> StateTask:
    record = stored.pending.get(path)
    public = ("push", node, int(path.rpartition("#")[2])) if "#" in path else ("pull", node)
    found = StateTask(identity.task_id(thread, stored.origin, _id_path(stored, path)), node, public)
    calls = tuple(call.name for call in stored.calls if call.task == path)
    if record is None:
        return found._replace(calls=calls)
    result: Any = None if record.writes is None else (streaming.written(record.writes) or {})
    error = None if record.error is None else f"{record.error.type.rpartition('.')[2]}({record.error.message!r})"
    waits = record.writes is None
    asked = tuple(one for one in record.interrupts if not live or (waits and one.id not in stored.answers))
    return found._replace(
        state=_child_config(thread, record.children),
        error=error,
        interrupts=asked,
        result=result,
        attempt=record.attempt,
        started=record.started or None,
        duration=record.duration if record.started else None,
        answered=record.answered,
        calls=calls,
        version=version_of(stored) or None,
    )


def _id_path(stored: StoredCheckpoint, path: str) -> str:
    """The path that the id of a task is made of."""
    if path.startswith(identity.HANDLER):
        return identity.handler_path(_id_path(stored, path.removeprefix(identity.HANDLER)))
    return stored.renamed.get(path, path)


def _child_config(thread: str, children: Mapping[str, tuple[int, int]]) -> Config | None:
    """The config of the graph that ran inside a task; of the first, where there were several."""
    for ns in sorted(children):
        found: Config = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
        return found
    return None


def _metadata(stored: StoredCheckpoint) -> dict[str, Any]:
    step = stored.step
    found: dict[str, Any] = {**step.metadata, "source": step.source, "step": step.step, "parents": {}}
    if step.run_id:
        found["run_id"] = step.run_id
    if step.stop:
        found["stop"] = step.stop
    if step.fingerprint:
        found["fingerprint"] = step.fingerprint.partition(" ")[0]
    if version_of(stored):
        found["version"] = version_of(stored)
    return found
