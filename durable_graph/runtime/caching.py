"""Nodes whose results are kept by their input.

What is kept is what the node wrote and where its routers led. Of several tasks with the same input that run at the same
time one computes, the others take its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core.mail import Failed, Finished
from durable_graph.core.reports import error_record
from durable_graph.persistence.isolation import StateView
from durable_graph.records import Write
from durable_graph.runtime import pool
from durable_graph.runtime.attempt import attempt
from durable_graph.runtime.callables import Body
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Generator

    from durable_graph.caches import BaseCache, CacheAccess
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.deadlines import Watch
    from durable_graph.runtime.work import NodeWork

__all__ = ["namespace_of", "through_cache"]


def namespace_of(work: NodeWork) -> tuple[str, ...]:
    """Where the results of a node are kept: another function under the same name finds nothing of the old one's."""
    target = work.body.target if work.body is not None else None
    home = getattr(target, "__module__", None) or type(target).__module__
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return ("node", f"{home}.{name}", work.name)


def through_cache(
    task: Task, shared: RunContext, watch: Watch | None = None
) -> Generator[tuple[Body, tuple[Any, ...], Any], Any, Mail]:
    """An attempt of a node with a cache policy: its result is looked up first, and kept when it ended well."""
    if shared.cache is None:
        return (yield from attempt(task, shared, watch))
    try:
        access = _access(task, shared, shared.cache)
    except Exception as error:  # noqa: BLE001 - reported by mail, like all that a node raises
        return Failed(task, error, error_record(error))
    try:
        hit = yield Body(access.look, access.alook), (), None
        if hit is not MISSING:
            writes, routes = hit
            return Finished(task, [Write(key, value) for key, value in writes], routes, cached=True)
        mail = yield from attempt(task, shared, watch)
        if type(mail) is Finished:
            kept = ([[write.key, write.value] for write in mail.writes], list(mail.routes))
            _ = yield Body(access.keep, access.akeep), (kept,), None
    except Exception as error:  # noqa: BLE001 - from the cache
        return Failed(task, error, error_record(error))
    finally:
        access.give_up()
    return mail


def _access(task: Task, shared: RunContext, cache: BaseCache) -> CacheAccess:
    from durable_graph.caches import CacheAccess

    work: NodeWork = task.spec.work
    policy = work.cache
    assert policy is not None  # noqa: S101 - the caller looked; this tells the type checker
    given = work.read(task, shared)
    key = policy.key_for(dict(given.items()) if isinstance(given, StateView) else given)
    where = f"node {task.name!r}"
    return CacheAccess(cache, namespace_of(work), key, policy.ttl, cache.flights, where=where, while_waiting=pool.lent)
