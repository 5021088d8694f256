"""From what tasks wrote to the next state: one fold per key, in path order, whatever order they finished in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from durable_graph.channels import LastValue
from durable_graph.errors import NodeFailure
from durable_graph.records import Change
from durable_graph.types import MISSING, Overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from durable_graph.channels import BaseChannel
    from durable_graph.core.planning import Task
    from durable_graph.core.program import Checks, Program
    from durable_graph.records import Write

__all__ = ["Blamed", "apply_tasks", "apply_writes", "merge_changes", "preview"]


class Blamed(Exception):
    """An update was refused. `paths` are the tasks whose writes took part; `error` is what to raise."""

    def __init__(self, error: Exception, paths: Sequence[str]) -> None:
        super().__init__(error)
        self.error = error
        self.paths = tuple(paths)


def apply_tasks(program: Program, values: dict[str, Any], tasks: Sequence[Task]) -> dict[str, Change]:
    """Fold the writes of finished tasks into `values` (which the run owns) and say what changed.

    Raises:
        Blamed: a channel or the state's schema refused; `values` is then of no further use.
    """
    try:
        # By far most steps have one task: without a comprehension, which is a call on 3.11.
        lists = [task.writes or () for task in tasks] if tasks[1:] else (tasks[0].writes or (),)
        changes = _apply(program, values, lists)
    except _Refused as refused:
        key = refused.key
        writers = [task for task in tasks if any(key is None or write.key == key for write in task.writes or ())]
        error = _explain(refused.error, key, [task.name for task in writers])
        raise Blamed(error, [task.path for task in writers]) from refused.error
    for key in program.transient:
        if key in values and key not in changes:
            _pass(program.channels[key], key, values, changes)
    return changes


def apply_writes(program: Program, values: dict[str, Any], writes: Sequence[Write]) -> dict[str, Change]:
    """Fold writes that belong to no task (a Command given as input) into `values`.

    Raises:
        Blamed: as in `apply_tasks`; nobody is to blame but the caller.
    """
    try:
        return _apply(program, values, [writes])
    except _Refused as refused:
        raise Blamed(_explain(refused.error, refused.key, ["Command"]), ()) from refused.error


class _Refused(Exception):
    def __init__(self, error: Exception, key: str | None) -> None:
        self.error = error
        self.key = key


def _apply(program: Program, values: dict[str, Any], lists: Iterable[Sequence[Write]]) -> dict[str, Change]:
    changes: dict[str, Change] = {}
    checks = program.checks
    for key, writes in _gather(lists).items():
        try:
            change = _fold(program.channels[key], key, values, writes)
            if checks is not None and key in checks.result_keys:
                change = _checked(checks, key, values, change)
            changes[key] = change
        except Exception as error:
            raise _Refused(error, key) from error
    if checks is not None and checks.checks_state and changes:
        try:
            checks.validate_state(values)
        except Exception as error:
            raise _Refused(error, None) from error
    return changes


def preview(
    channels: Mapping[str, BaseChannel[Any, Any]],
    values: Mapping[str, Any],
    writes: Sequence[Write],
    copy: Callable[[Any], Any],
) -> dict[str, Any]:
    """The values as they would be after these writes, e.g. for a router; `values` stay as they are.

    `copy` makes an independent copy of a value: a user's reducer may change its left argument in place.
    """
    seen = dict(values)
    for key, found in _gather((writes,)).items():
        channel, first = channels[key], found[0].value
        if type(channel) is LastValue and not found[1:] and type(first) is not Overwrite:
            seen[key] = first  # as in `_fold`
            continue
        raw, old = [write.value for write in found], seen.get(key, MISSING)
        suffix = channel.appended(old, raw)
        if suffix is not None:
            seen[key] = [*(old if type(old) is list else ()), *suffix]
            continue
        value = channel.update(old if type(channel) is LastValue else copy(old), raw)
        if value is MISSING:
            seen.pop(key, None)
        else:
            seen[key] = value
    return seen


def merge_changes(before: Mapping[str, Change], after: Mapping[str, Change]) -> dict[str, Change]:
    """What changed in all, where no checkpoint lies between the two."""
    merged = dict(before)
    for key, change in after.items():
        old = merged.get(key)
        if old is None or change.suffix is None:
            merged[key] = change
        elif old.suffix is None:  # appended to a value that is new itself
            merged[key] = Change(change.value)
        else:
            merged[key] = Change(change.value, [*old.suffix, *change.suffix])
    return merged


def _gather(lists: Iterable[Sequence[Write]]) -> dict[str, list[Write]]:
    """The writes of each key, in their order."""
    gathered: dict[str, list[Write]] = {}
    for writes in lists:
        for write in writes:
            key = write.key
            if key in gathered:
                gathered[key] += (write,)
            else:
                gathered[key] = [write]
    return gathered


def _fold(channel: BaseChannel[Any, Any], key: str, values: dict[str, Any], writes: list[Write]) -> Change:
    first = writes[0]
    if type(channel) is LastValue and not writes[1:] and type(first.value) is not Overwrite:
        values[key] = first.value  # by far the most common case, without a call
        return Change(first.value, None, first.data)
    raw = [write.value for write in writes]
    old = values.get(key, MISSING)
    suffix = channel.appended(old, raw)
    if suffix is not None:
        # A single list write whose elements are the suffix: its encoding can be used as it is.
        data = first.data if len(writes) == 1 and isinstance(first.value, list) else None
        if type(old) is list:
            cast("list[Any]", old).extend(
                suffix
            )  # the run owns the list, tasks and streams hold copies: O(what was added)
        else:
            old = values[key] = list(suffix)
        return Change(old, suffix, data)
    value = channel.update(old, raw)
    if value is MISSING:
        values.pop(key, None)
        return Change(MISSING)
    values[key] = value
    kept = len(writes) == 1 and value is first.value
    return Change(value, None, first.data if kept else None)


def _pass(channel: BaseChannel[Any, Any], key: str, values: dict[str, Any], changes: dict[str, Change]) -> None:
    value = channel.passed(values[key])
    if value is MISSING:
        del values[key]
        changes[key] = Change(MISSING)
    elif value is not values[key]:
        values[key] = value
        changes[key] = Change(value)


def _checked(checks: Checks, key: str, values: dict[str, Any], change: Change) -> Change:
    value = checks.validate_result(key, change.value, values, added=change.suffix)
    if value is change.value:
        return change
    values[key] = value
    return Change(value)


def _explain(error: Exception, key: str | None, writers: Sequence[str]) -> Exception:
    names = ", ".join(sorted({repr(name) for name in writers}))
    if isinstance(error, NodeFailure):
        error.what = f"{error.what} (written by {names})"
    else:
        error.add_note(f"While the writes of {names} were applied" + (f" to key {key!r}." if key else "."))
    return error
