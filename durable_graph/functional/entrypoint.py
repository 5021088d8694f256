"""`@entrypoint`: a function that can be stopped, resumed and looked at like a graph."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypedDict, cast, get_args, get_origin

from typing_extensions import TypeVar

from durable_graph.channels import EphemeralValue
from durable_graph.errors import InvalidGraphError, InvalidSchemaError
from durable_graph.functional.signatures import hints_of, refuse_generators, register_hints
from durable_graph.functional.workflow import GIVEN, InputSchema, Workflow
from durable_graph.graph.builder import StateGraph
from durable_graph.runtime.callables import INJECTABLE, Body, name_of
from durable_graph.runtime.places import PREVIOUS, SAVED
from durable_graph.schema import read_schema
from durable_graph.types import START

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from durable_graph.caches import BaseCache, CachePolicy
    from durable_graph.graph.compiled import CheckpointerLike
    from durable_graph.types import RetryPolicy, TimeoutPolicy

__all__ = ["entrypoint"]

R = TypeVar("R")
S = TypeVar("S")

# Functional, because their keys are no identifiers: GIVEN, SAVED and PREVIOUS.
_State = TypedDict(
    "_State", {"__start__": Annotated[Any, EphemeralValue], "__end__": Any, "__previous__": Any}, total=False
)
_Given = TypedDict("_Given", {"__start__": Annotated[Any, EphemeralValue], "__previous__": Any}, total=False)

_INJECTED = (*INJECTABLE, "previous")
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class entrypoint:  # noqa: N801 - a decorator, named as people know it
    """Make a function the start of a workflow: it can be stopped and resumed, and has the calls of a compiled graph.

        @entrypoint(checkpointer="sqlite:///runs.db")
        def review(essay: str) -> dict:
            score = grade(essay).result()
            return {"score": score, "approved": interrupt({"score": score})}

        review.invoke("...", config)
        review.invoke(Command(resume=True), config)

    The function's first parameter is the input, anything that can be stored. By name it may also take `config`,
    `runtime`, `writer`, `store`, and `previous`: what it returned (or saved with `entrypoint.final`) in its last run on
    the same thread, None in the first one.

    Args:
        checkpointer: where runs are kept: an object, a URL such as "sqlite:///runs.db", or a path. None: nowhere.
        store: long-term memory, handed to the function and its tasks.
        cache: where results of tasks with a cache policy are kept.
        context_schema: the type of what callers pass as `context=`.
        cache_policy: by what its own results are cached.
        retry_policy: when a failed attempt is tried again. Tasks that finished are not repeated.
        timeout: seconds that one attempt may take.
        name: of the workflow; the function's when left out. Stored runs are found by it.

    Raises:
        InvalidGraphError: the function takes no input, has parameters that nobody gives, or yields.
    """

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):  # noqa: N801 - as `entrypoint`
        """What an entrypoint returns when its callers get another value than its next run (`previous`)."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: CheckpointerLike = None,
        store: Any = None,
        cache: BaseCache | None = None,
        context_schema: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: TimeoutPolicy | float | timedelta | None = None,
        name: str | None = None,
    ) -> None:
        if inspect.isfunction(checkpointer):
            what = f"@entrypoint was put over {checkpointer.__name__!r} without parentheses"
            raise InvalidGraphError(what, cure="Write @entrypoint().")
        self._compiled: dict[str, Any] = {"checkpointer": checkpointer, "store": store, "cache": cache}
        self._context_schema = context_schema
        self._node: dict[str, Any] = {"cache_policy": cache_policy, "retry_policy": retry_policy, "timeout": timeout}
        self._name = name

    def __call__(self, function: Callable[..., Any]) -> Workflow:
        """The workflow."""
        name = self._name or name_of(function)
        refuse_generators(function, "entrypoint", name)
        wanted = _parameters(function, name)
        builder = StateGraph(_State, self._context_schema)
        node = _node_of(function, name, wanted)
        _ = builder.add_node(name, node, input_schema=_Given, **self._node)
        builder.nodes[name].body = Body(node, more=("previous",))
        _ = builder.add_edge(START, name)
        workflow = Workflow(builder.compile(name=name, **self._compiled), function)
        given, returned = _hints(function)
        workflow.schemas.input = _input_schema(given)
        workflow.schemas.output = _schema(returned)
        return workflow


def _parameters(function: Any, name: str) -> list[str]:
    """The injected parameters of the function, behind its input."""
    cure = "Its first parameter is the input; by name it may take config, runtime, writer, store and previous."
    found = list(inspect.signature(function).parameters.values())
    if not found or found[0].kind not in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        raise InvalidGraphError(f"entrypoint {name!r} takes no input", cure=cure)
    wanted: list[str] = []
    for parameter in found[1:]:
        if parameter.name in _INJECTED and parameter.kind in _KEYWORDS:
            wanted.append(parameter.name)
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIABLE:
            what = f"entrypoint {name!r} has a parameter {parameter.name!r}, which nobody gives"
            raise InvalidGraphError(what, cure=cure)
    return wanted


def _node_of(function: Callable[..., Any], name: str, wanted: list[str]) -> Callable[..., Any]:
    """The function as a node of a graph."""
    body = Body(function)
    node: Any
    if body.asyn is not None:

        async def arun(state: Any, **injected: Any) -> dict[str, Any]:
            return _written(state, await function(state[GIVEN], **injected))

        node = arun
    else:

        def run(state: Any, **injected: Any) -> dict[str, Any]:
            return _written(state, function(state[GIVEN], **injected))

        node = run
    kinds = inspect.Parameter
    parameters = [kinds("state", kinds.POSITIONAL_ONLY), *(kinds(one, kinds.KEYWORD_ONLY) for one in wanted)]
    node.__signature__ = inspect.Signature(parameters)
    node.__name__ = node.__qualname__ = name
    node.__module__ = getattr(function, "__module__", __name__)
    return node


def _written(state: Any, result: Any) -> dict[str, Any]:
    """What a run of the function writes. What is saved is stored once where it is what was returned."""
    if isinstance(result, entrypoint.final):
        ended = cast("entrypoint.final[Any, Any]", result)
        return {SAVED: ended.value, PREVIOUS: ended.save}
    return {SAVED: result, PREVIOUS: result} if PREVIOUS in state else {SAVED: result}


def _hints(function: Any) -> tuple[Any, Any]:
    """The types of what goes in and what comes out; Any where the function does not say."""
    _ = register_hints(function)
    hints = hints_of(function) or {}
    first = next(iter(inspect.signature(function).parameters))
    returned = hints.get("return", Any)
    if get_origin(returned) is entrypoint.final:
        returned = get_args(returned)[0]
    return hints.get(first, Any), returned


def _schema(hint: Any) -> Any:
    """A schema of one value of this type."""
    try:
        schema = read_schema(hint, role="private")
    except InvalidSchemaError:
        schema = read_schema(Any, role="private")
    return replace(schema, type=hint, keys=(SAVED,), required=frozenset())


def _input_schema(hint: Any) -> InputSchema:
    root = read_schema(Any, role="private")
    return InputSchema(
        type=hint,
        kind="root",
        role="input",
        name=getattr(hint, "__name__", str(hint)),
        keys=(GIVEN,),
        channels={},
        managed={},
        hints={GIVEN: hint},
        required=frozenset(),
        _build=root.build,
    )
