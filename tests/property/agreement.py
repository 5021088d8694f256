"""Graphs over several backends, called alike, and what they show as text that must be the same.

Ids hold random epochs, so each backend's are named in the order in which they appear: the same names mean that the same
id stands in the same places.
"""

import re

from durable_graph.errors import (
    DurableGraphError,
    GraphRecursionError,
    InternalError,
    InvalidUpdateError,
    StorageError,
    UsageError,
)
from durable_graph.types import StateSnapshot, StateTask
from tests.property.agreeing_graphs import GRAPHS, LIMIT

IDS = re.compile(
    r"\d{12}\.\d+\.[0-9a-f]+"  # a checkpoint
    r"|intr_[0-9a-f]{32}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a task
    r"|(?<='run_id': str ')[0-9a-f]{16}"
)
FAULTS = (InternalError, StorageError)
REFUSALS = (UsageError, InvalidUpdateError)


class Shown:
    """A checkpoint as it was shown: what stays for ever, and all of it."""

    def __init__(self, snapshot, side):
        self.snapshot = snapshot
        self.id = snapshot.config["configurable"].get("checkpoint_id")
        parent = snapshot.parent_config
        self.parent = None if parent is None else parent["configurable"]["checkpoint_id"]
        lasting = (snapshot.values, snapshot.next, snapshot.metadata, snapshot.config, parent)
        self.lasting = side.named(told(lasting))
        self.text = side.named(told(snapshot))

    @property
    def lane(self):
        return self.id.split(".")[1]


class Side:
    """The graphs over one backend. names: what stands for each id."""

    def __init__(self, checkpointer):
        self.checkpointer = checkpointer
        self.graphs = {kind: build().compile(checkpointer) for kind, build in GRAPHS.items()}
        self.names = {}
        self.histories = {}

    def named(self, text):
        return IDS.sub(lambda found: self.names.setdefault(found[0], f"<id {len(self.names)}>"), text)

    def config(self, thread, at=None, **more):
        """Where a call goes: the thread, or one of its checkpoints by the order in which they were made."""
        found = {"recursion_limit": LIMIT, "max_concurrency": 1, **more}
        known = self.known(thread)
        if at is None or not known:
            return {"configurable": {"thread_id": thread.name}, **found}
        return {**known[at % len(known)].snapshot.config, **found}

    def known(self, thread):
        """All checkpoints that were shown, those of graphs inside behind those of the thread."""
        return [one for ns in thread.namespaces for one in self.histories.get((thread.name, ns), [])]

    def questions(self, thread, face, at):
        snapshot = face.get_state(self.graphs[thread.kind], self.config(thread, at), subgraphs=True)
        return [asked.id for asked in snapshot.interrupts]

    def look(self, thread, face):
        """The histories of the thread and of the graphs inside, oldest checkpoint first."""
        graph = self.graphs[thread.kind]
        for ns in thread.namespaces:
            config = {"configurable": {"thread_id": thread.name, "checkpoint_ns": ns}}
            found = face.get_state_history(graph, config)
            self.histories[thread.name, ns] = [Shown(snapshot, self) for snapshot in reversed(found)]

    def outcome(self, call, *given, **options):
        """What a call gives, or how it fails, as text. Only what a user did wrong, or a node, may be told."""
        try:
            return "gave " + self.named(told(call(*given, **options)))
        except Exception as error:
            failed = list(causes(error))
            expected = (*REFUSALS, GraphRecursionError)
            if any(isinstance(one, FAULTS) or not isinstance(one, (*expected, ValueError)) for one in failed):
                raise
            texts = sorted(self.named(f"{type(one).__name__}: {one}") for one in failed)
            refused = any(isinstance(one, DurableGraphError) and isinstance(one, REFUSALS) for one in failed)
            return ("refused " if refused else "failed ") + " | ".join(texts)

    def rows(self, thread):
        """The thread's row and its lanes; the numbers of rows depend on how many results came together."""
        loaded = self.checkpointer.load(thread.name)
        if loaded is None:
            return None
        info = loaded.thread
        return (info.owner, info.status, info.lease), [lane[:3] for lane in loaded.lanes]


def causes(error):
    if isinstance(error, ExceptionGroup):
        for one in error.exceptions:
            yield from causes(one)
    else:
        yield error


def told(value):
    """A value as text that tells its type, and in which two equal values are alike. Of times only whether they are."""
    if isinstance(value, StateTask):
        value = value._replace(started=value.started is not None, duration=value.duration is not None)
    elif isinstance(value, StateSnapshot):
        value = value._replace(created_at=value.created_at is not None)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{told(key)}: {told(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(told, value))})"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(told, value)))})"
    return f"{type(value).__name__} {value!r}"
