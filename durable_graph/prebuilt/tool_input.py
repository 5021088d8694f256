"""What a `ToolNode` is given: which calls to make, and the state around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import InvalidValueError, shortened
from durable_graph.persistence.isolation import own, peek
from durable_graph.prebuilt.families import calls_of, is_ai, is_message, is_tool_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.runtime.context import TaskContext

__all__ = ["Asked", "last_ai", "messages_in", "names_run", "pending_calls", "read_input"]

_WITH_CONTEXT = "tool_call_with_context"


@dataclass(slots=True)
class Asked:
    """The calls to make, in the order in which the model asked for them.

    state: what tools see as the state.   messages: those in it.   message: the model's, None when only calls are known.
    root: the state is a list of messages, and so is what is given back.
    """

    calls: list[dict[str, Any]]
    state: Any
    messages: list[Any]
    message: Any
    root: bool


def read_input(given: Any, key: str, context: TaskContext | None) -> Asked:
    """Read what a node got: a state, a list of messages, calls, or one call (with the state around it).

    Raises:
        InvalidValueError: there are no messages in it, or none of a model.
    """
    calls = _calls_in(given)
    if calls is not None:
        around = cast("dict[str, Any]", given).get("state") if _has_context(given) else _state_here(context)
        messages = messages_in(around, key)
        return Asked(calls, around, messages, last_ai(messages), isinstance(around, list))
    messages = messages_in(given, key)
    message = last_ai(messages)
    if message is None:
        where = "the list" if isinstance(given, list) else f"key {key!r} of the state"
        what = f"tools cannot be called: there is no AI message in {where}"
        if not messages and not isinstance(given, list):
            what = f"tools cannot be called: {shortened(given)} has no messages under {key!r}"
        raise InvalidValueError(what, cure="Run a model before its tools, or name the key with messages_key=.")
    return Asked(own(pending_calls(messages)), given, messages, message, isinstance(given, list))


def _has_context(given: Any) -> bool:
    return isinstance(given, Mapping) and cast("Mapping[str, Any]", given).get("__type") == _WITH_CONTEXT


def _calls_in(given: Any) -> list[dict[str, Any]] | None:
    if _has_context(given):
        return [given["tool_call"]]
    if _is_call(given):
        return [given]
    if isinstance(given, list) and given and all(_is_call(one) for one in cast("list[Any]", given)):
        return list(cast("list[dict[str, Any]]", given))
    return None


def _is_call(given: Any) -> bool:
    return isinstance(given, Mapping) and cast("Mapping[str, Any]", given).get("type") == "tool_call"


def _state_here(context: TaskContext | None) -> Any:
    """The state as a node sees it: a Send brings a call, and never the state."""
    if context is None or context.shared.run is None:
        return None
    return context.task.spec.work.reader.read(context.shared.run.values, context.shared)


def messages_in(state: Any, key: str) -> list[Any]:
    """The messages of a state, to be looked at and not changed: the list itself, or what is under `key`."""
    found: Any = state
    if isinstance(state, Mapping):
        found = peek(cast("Mapping[str, Any]", state), key)
    elif not isinstance(state, list):
        found = getattr(state, key, None)
    if found is None:
        return []
    return (
        list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else [found] if is_message(found) else []
    )


def last_ai(messages: Sequence[Any]) -> Any:
    """The last message of a model; None when there is none."""
    return next((message for message in reversed(messages) if is_ai(message)), None)


def pending_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The calls of the model's last message that no tool message after it answers. Calls with one id are matched by
    order.
    """
    answered: Counter[Any] = Counter()
    for message in reversed(messages):
        if is_tool_message(message):
            answered[message.tool_call_id] += 1
        elif is_ai(message):
            pending: list[dict[str, Any]] = []
            for call in calls_of(message):
                if answered[call.get("id")] > 0:
                    answered[call.get("id")] -= 1
                else:
                    pending.append(call)
            return pending
    return []


def names_run(messages: Sequence[Any]) -> set[str]:
    """The tools that are run for the model's last message, as the router behind one of them sees it.

    Those without a result yet, and the one whose result came last: where each call is a task of its own, a task sees
    its own result, and none of the tasks beside it. So all of them find the same names. A call that was answered
    before (by a human, say) was not run.
    """
    ran = {call["name"] for call in pending_calls(messages)}
    last: Any = next((one for one in reversed(messages) if is_tool_message(one) or is_ai(one)), None)
    if is_tool_message(last):
        ran |= {call["name"] for call in calls_of(last_ai(messages)) if call.get("id") == last.tool_call_id}
    return ran
