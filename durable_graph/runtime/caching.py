"""Nodes whose results are kept by their input.

What is kept is what the node wrote and where its routers led. Of several tasks with the same input that run at the same
time one computes, the others take its result.
"""

from __future__ import annotations

from functools import lru_cache, partial
from hashlib import blake2b
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from durable_graph.core.mail import Failed, Finished
from durable_graph.core.program import Program
from durable_graph.core.reports import error_record
from durable_graph.errors import NodeFailure
from durable_graph.persistence.isolation import StateView
from durable_graph.runtime import pool
from durable_graph.runtime.attempt import attempt
from durable_graph.runtime.callables import Body
from durable_graph.runtime.work import Result
from durable_graph.types import MISSING, Command

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from durable_graph.caches import BaseCache, CacheAccess
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.deadlines import Watch
    from durable_graph.runtime.work import NodeWork

__all__ = ["namespace_of", "through_cache"]


def namespace_of(work: NodeWork) -> tuple[str, ...]:
    """Where the results of a node are kept: another function under the same name finds nothing of the old one's."""
    return ("node", _origin(work.body.target) if work.body is not None else "", work.name)


def _origin(target: Any) -> str:
    """What a body is known by in every process: the name of its function and a digest of its code.

    Of what a function takes from around it nothing is in here; a `key_func` can say it.
    """
    while isinstance(target, partial):
        target = cast("partial[Any]", target).func
    program = getattr(getattr(target, "graph", None), "program", None)  # a compiled graph as a node
    if isinstance(program, Program):
        return f"{program.name} {program.fingerprint}"
    function = getattr(target, "__func__", target)
    code = getattr(function, "__code__", None)
    home: Any = function if hasattr(function, "__qualname__") else cast("Any", type(target))
    if code is None:  # an object: what is called is a method of its class
        for method in ("invoke", "ainvoke", "__call__"):
            code = code or getattr(getattr(home, method, None), "__code__", None)
    return f"{home.__module__}.{home.__qualname__}" + (f" {_digest(code)}" if isinstance(code, CodeType) else "")


@lru_cache(maxsize=1024)
def _digest(code: CodeType) -> str:
    found = blake2b(code.co_code, digest_size=8)
    for part in (*code.co_names, *code.co_varnames, *code.co_freevars):
        found.update(part.encode("utf-8", "surrogatepass") + b"\0")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            text = _digest(constant)
        elif isinstance(constant, frozenset):  # its order differs from process to process
            text = ",".join(sorted(map(repr, cast("frozenset[object]", constant))))
        else:
            text = repr(constant)
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


class _Act(Body):
    """A call of the cache, on either face."""

    __slots__ = ()

    def __init__(self, sync: Callable[..., Any], asyn: Callable[..., Any]) -> None:  # pyright: ignore[reportMissingSuperCall] - it looks at signatures, which takes longer than the call
        self.target, self.sync, self.asyn = sync, sync, asyn
        self.light, self.takes_input, self.wants = False, True, ()


def through_cache(
    task: Task, shared: RunContext, watch: Watch | None = None
) -> Generator[tuple[Body, tuple[Any, ...], Any], Any, Mail]:
    """An attempt of a node with a cache policy: its result is looked up first, and kept when it ended well.

    What was made of a human's answer is not kept: the next run is to ask again. A result that no longer fits the graph
    is computed anew.
    """
    if shared.cache is None:  # a run that needs one does not begin without
        return (yield from attempt(task, shared, watch))
    try:
        access = _access(task, shared, shared.cache)
    except Exception as error:  # noqa: BLE001 - reported by mail, like all that a node raises
        return Failed(task, error, error_record(error))
    try:
        hit = yield _Act(access.look, access.alook), (), None
        found = None if hit is MISSING else _as_result(task, shared, hit)
        if found is not None:
            return Finished(task, found.writes, found.routes, cached=True)
        if watch is not None:
            watch.let_go = access.give_up
        mail = yield from attempt(task, shared, watch)
        if type(mail) is Finished and not mail.answered:
            kept = ([[write.key, write.value] for write in mail.writes], list(mail.routes))
            _ = yield _Act(access.keep, access.akeep), (kept,), None
    except Exception as error:  # noqa: BLE001 - from the cache
        return Failed(task, error, error_record(error))
    finally:
        access.give_up()
    return mail


def _as_result(task: Task, shared: RunContext, hit: Any) -> Result | None:
    """What was kept as the result of this task, checked and encoded like a new one; None when it does not fit."""
    found = Result(task.spec.work, shared)
    writes, routes = hit
    try:
        for key, value in writes:
            found.write(key, value)
        for route in routes:
            if isinstance(route, Command):  # for a graph above
                found.take(route)
            else:
                found.route(route)
    except NodeFailure:
        return None
    return found


def _access(task: Task, shared: RunContext, cache: BaseCache) -> CacheAccess:
    from durable_graph.caches import CacheAccess

    work: NodeWork = task.spec.work
    policy = work.cache
    assert policy is not None  # noqa: S101 - the caller looked; this tells the type checker
    given = work.read(task, shared)
    key = policy.key_for(dict(given.items()) if isinstance(given, StateView) else given)
    where = f"node {task.name!r}"
    return CacheAccess(cache, namespace_of(work), key, policy.ttl, cache.flights, where=where, while_waiting=pool.lent)
