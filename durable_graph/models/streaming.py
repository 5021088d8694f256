"""The stream mode "messages": tokens as models produce them, and whole messages that nobody streamed.

A stream shows each message once. Models that run inside a node say their pieces with `emit_token`; what they stream,
LangChain's models included, is remembered by id in the `Heard` of the run. When a task ends, the core asks `Heard` for
the messages it wrote that were not streamed. A graph inside a node has a `Heard` of its own, which shares the ids: what
it streamed is not shown again when the node around it hands the message on.

The payload is `(chunk or message, metadata)`. Metadata is the node's config metadata and what LangGraph's users look
at: langgraph_step, langgraph_node, langgraph_triggers, langgraph_path, langgraph_checkpoint_ns, ls_model_name, tags.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.core.mail import Said
from durable_graph.errors import InvalidValueError, OutsideRunError, shortened
from durable_graph.persistence.isolation import own
from durable_graph.runtime.context import CURRENT, TaskContext
from durable_graph.types import MISSING, TAG_NOSTREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from durable_graph.core.planning import Task
    from durable_graph.runtime.context import RunContext

__all__ = ["MESSAGES", "NOSTREAM", "Heard", "emit_token", "is_message", "listener", "metadata_of", "push_message"]

MESSAGES: Final = "messages"
"""The name of the stream mode."""

NOSTREAM: Final = frozenset({TAG_NOSTREAM, "langsmith:nostream"})
"""Tags that keep a model's answers out of the stream."""

_pushing = threading.Lock()

_MESSAGE_HOMES: Final = ("durable_graph.messages", "langchain_core.messages")


@lru_cache(maxsize=1024)
def _is_message_type(kind: type[Any]) -> bool:
    return any(base.__name__ == "BaseMessage" and base.__module__.startswith(_MESSAGE_HOMES) for base in kind.__mro__)


def is_message(value: object) -> bool:
    """Whether a value is a chat message, ours or LangChain's."""
    return _is_message_type(cast("type[Any]", type(value)))


def messages_in(value: object) -> Iterator[Any]:
    """The messages a written value holds: itself, or those of a list or tuple. No deeper: data may be large."""
    if isinstance(value, list | tuple):
        yield from (one for one in cast("Sequence[Any]", value) if is_message(one))
    elif is_message(value):
        yield value


class Heard:
    """What a run's listeners to "messages" have seen: the ids of all messages streamed, shown, or there before.

    It is called by the core when a task ends, and gives the payloads that are still to be shown. Ids are shared with
    the runs around and inside.
    """

    __slots__ = ("_first", "_shared", "seen")

    def __init__(self, shared: RunContext) -> None:
        around = listener(shared.parent)
        self.seen: set[str] = set() if around is None else around.seen
        self._shared = shared
        self._first = True

    def __call__(self, task: Task, values: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
        """The messages a task wrote that nobody has seen. values: the state it ran on.

        The state is searched once, when the first task ends. What comes into it later passes here.
        """
        if self._first:
            self._first = False
            self._know(values.values())
        found = [one for one in self._written(task) if one.id is None or one.id not in self.seen]
        if found and task.arg is not MISSING:
            given = {one.id for value in _parts(task.arg) for one in messages_in(value)}
            found = [one for one in found if one.id is None or one.id not in given]
        if not found:
            return []
        self.seen.update(one.id for one in found if one.id is not None)
        if not NOSTREAM.isdisjoint(_tags(self._shared.config)):
            return []
        metadata = metadata_of(TaskContext(task, self._shared))
        return [(own(one), dict(metadata)) for one in found]

    def known(self, task: Task) -> None:
        """A task's result was stored by an earlier call, which has shown it."""
        self._know(write.value for write in task.writes or ())

    def _know(self, values: Iterable[Any]) -> None:
        self.seen.update(one.id for value in values for one in messages_in(value) if one.id is not None)

    @staticmethod
    def _written(task: Task) -> list[Any]:
        written = [one for write in task.writes or () for one in messages_in(write.value)]
        return [one for one in written if one.type != "remove"]


def _parts(arg: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", arg).values() if isinstance(arg, dict) else (arg,)


def listener(context: TaskContext | None = None) -> Heard | None:
    """What listens to the tokens of a task; None when nobody does.

    Reaches the run of this attempt, which has `heard` only when somebody listens to "messages", here or outside.
    """
    run = context.shared.run if context is not None and context.shared.post is not None else None
    return getattr(run.request, "heard", None) if run is not None else None


def metadata_of(
    context: TaskContext, *, model_name: str | None = None, provider: str | None = None, tags: Sequence[str] = ()
) -> dict[str, Any]:
    """What comes with a token or message: where in the graph it was made, and by which model."""
    config = context.config
    metadata: dict[str, Any] = {**config["metadata"], "langgraph_triggers": (context.task.path,)}
    metadata["checkpoint_ns"] = metadata["langgraph_checkpoint_ns"]
    if (thread := config["configurable"].get("thread_id")) is not None:
        metadata["thread_id"] = str(thread)
    if provider is not None:
        metadata["ls_provider"] = provider
    if model_name is not None:
        metadata |= {"ls_model_name": model_name, "ls_model_type": "chat"}
    if told := [*dict.fromkeys((*_tags(config), *tags))]:
        metadata["tags"] = told
    return metadata


def _tags(config: Mapping[str, Any]) -> Sequence[str]:
    return config.get("tags") or ()


def emit_token(
    chunk: Any,
    *,
    model_name: str | None = None,
    provider: str | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    context: TaskContext | None = None,
) -> bool:
    """Show a piece of an answer, or a whole message, to who listens to "messages".

    tags: of the model and the call; "nostream" keeps the answer out of the stream, also when the node returns it.
    metadata: more to say beside it.   context: the attempt that makes it; by default the one that runs here.

    Returns:
        Whether somebody listens. Outside of a node nobody does.

    Raises:
        AttemptOver: the attempt was given up (a timeout); whoever streams shall stop.
    """
    context = CURRENT.get() if context is None else context
    heard = listener(context)
    if context is None or heard is None:
        return False
    context.check()
    if chunk.id is not None:
        heard.seen.add(chunk.id)
    if not NOSTREAM.isdisjoint((*tags, *_tags(context.config))):
        return False
    told = metadata_of(context, model_name=model_name, provider=provider, tags=tags)
    told = {**(metadata or {}), **told}
    return context.post(Said(context.task, (chunk, told), MESSAGES))


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Show a whole message in the stream "messages" before the node returns, and write it to the state.

    For what a node has to say while it works. It goes through the key's reducer, before what the node returns; when the
    node runs again (after an interrupt or a crash), it is pushed again, and its id keeps it from standing there twice.

    message: in any form that has an id.   state_key: the key it is written to; None: it is only shown.

    Returns:
        The message.

    Raises:
        InvalidValueError: it has no id.
        OutsideRunError: no node runs here.
    """
    from durable_graph.messages.coercion import to_message

    context = CURRENT.get()
    if context is None:
        raise OutsideRunError("push_message() was called outside of a node")
    told = to_message(message)
    if not told.id:
        what = f"node {context.task.name!r} pushes a message without an id: {shortened(told)}"
        raise InvalidValueError(what, cure="Give it an id of its own, the same whenever the node runs again.")
    _ = emit_token(told, context=context)
    if state_key is not None:
        with _pushing:  # a node may push from several OS threads at once
            context.pushed = [*(context.pushed or ()), (state_key, told)]
    return told
