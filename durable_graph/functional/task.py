"""`@task`: a function whose calls are recorded steps that run beside their caller."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, cast, overload

from typing_extensions import TypeVar

from durable_graph.core.retrying import as_policies
from durable_graph.errors import InvalidGraphError
from durable_graph.functional.futures import begin, begin_async
from durable_graph.functional.signatures import refuse_generators, register_hints
from durable_graph.recording.once import check_on_unknown
from durable_graph.recording.step import Step, take_place
from durable_graph.runtime.callables import Body, name_of
from durable_graph.types import TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from durable_graph.caches import BaseCache, CachePolicy
    from durable_graph.functional.futures import TaskFuture
    from durable_graph.recording.step import OnUnknown
    from durable_graph.types import RetryPolicy

__all__ = ["TaskFunction", "task"]

P = ParamSpec("P")
T = TypeVar("T")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TaskFunction(Generic[P, T]):
    """A function as a task. Each call starts it and returns at once.

    In sync code a call returns a `concurrent.futures.Future` (`.result()`), in async code one that can be awaited. The
    result is stored as soon as it is there, and the same call gets it when the node or entrypoint runs again. Calls are
    known by name and arguments, equal ones by their order.

    `functools.wraps` lets it look like the function.
    """

    def __init__(self, function: Callable[P, Any], step: Step) -> None:
        functools.update_wrapper(cast("Any", self), function)
        self.name = step.name
        self.function = function
        self._step = step
        self._positions = _positions(step.body)
        self._steps: dict[int, Step] = {}
        self._registered = False

    def __repr__(self) -> str:
        return f"task({self.name!r})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A task among the methods of a class is called with the instance first."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start it.

        Raises:
            OutsideRunError: no node or entrypoint runs here.
        """
        if not self._registered:
            self._registered = register_hints(self.function)
        step = self._step if not self._positions else self._step_for(len(args))
        place = take_place(step, args, kwargs)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return begin(place, step, args, kwargs)
        caller = place.context.task.spec.work.body if place.outer is None else place.outer.body
        if caller.asyn is None:  # sync code that stands in the OS thread of a loop, which it cannot await on
            return begin(place, step, args, kwargs)
        return cast("TaskFuture[T]", begin_async(place, step, args, kwargs, loop))

    def _step_for(self, given: int) -> Step:
        """The step of a call with so many positional arguments: what they give is not injected."""
        found = self._steps.get(given)
        if found is None:
            body = Body(self._step.body.target)
            body.wants = tuple(name for name in body.wants if self._positions.get(name, given) >= given)
            found = self._steps[given] = _with_body(self._step, body)
        return found

    def clear_cache(self, cache: BaseCache) -> None:
        """Forget the results of this task that a cache holds."""
        if self._step.cache is not None:
            cache.clear([self._step.cache[1]])

    async def aclear_cache(self, cache: BaseCache) -> None:
        """Async `clear_cache`."""
        if self._step.cache is not None:
            await cache.aclear([self._step.cache[1]])


class _Decorator(Protocol):
    """What `task(...)` gives."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T]: ...


def _positions(body: Body) -> dict[str, int]:
    """Which positional argument each injected parameter would be, where it could be one."""
    if not body.wants:
        return {}
    parameters = inspect.signature(body.target).parameters.values()
    names = [one.name for one in parameters if one.kind in _POSITIONAL]
    return {name: names.index(name) for name in body.wants if name in names}


def _with_body(step: Step, body: Body) -> Step:
    return Step(step.name, body, step.keyed, step.retry, step.timeout, step.on_unknown, step.cache, step.shown)


@overload
def task(function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...


@overload
def task(function: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(
    function: None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown = "rerun",
) -> _Decorator: ...


def task(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown = "rerun",
) -> Any:
    """Make a function a task: `@task`, or `@task(name=..., ...)`.

        @task
        def fetch(url: str) -> str: ...

        @entrypoint(checkpointer="sqlite:///runs.db")
        def digest(urls: list[str]) -> list[str]:
            pages = [fetch(url) for url in urls]  # they run at the same time
            return [page.result() for page in pages]

    Args:
        function: sync or async. It may take `config`, `runtime`, `writer`, `store` and `previous`, as nodes do.
        name: of the task; the function's when left out. Stored results are found by it.
        retry_policy: when a failed attempt is tried again.
        cache_policy: by what results are cached, where the entrypoint or graph has a cache.
        timeout: seconds that one attempt may take.
        on_unknown: what to do when it was started, and its process died before the result was there: "rerun" it (with
            the same `runtime.idempotency_key`), "ask" a human, or a function of a `Started` that finds out.

    Raises:
        InvalidGraphError: it is a generator function, or nothing that can be called.
        InvalidConfigError: `on_unknown` is no policy.
    """

    def decorate(target: Any) -> TaskFunction[Any, Any]:
        body = Body(target, more=("previous",))
        named = name or name_of(target)
        refuse_generators(target, "task", named)
        if not named or "/" in named:
            what = f"task name {named!r} holds '/', which is reserved" if named else "a task's name is empty"
            raise InvalidGraphError(what, cure="Choose another name.")
        module, qualified = getattr(target, "__module__", ""), getattr(target, "__qualname__", named)
        step = Step(
            named,
            body,
            retry=as_policies(retry_policy),
            timeout=None if timeout is None else TimeoutPolicy.coerce(timeout),
            on_unknown=check_on_unknown(on_unknown),
            cache=None if cache_policy is None else (cache_policy, ("task", f"{module}.{qualified}")),
            shown=True,
        )
        return TaskFunction(target, step)

    return decorate if function is None else decorate(function)
