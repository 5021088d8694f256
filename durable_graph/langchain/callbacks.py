"""A run of a graph as LangChain sees it.

The graph is a chain run under the name of its config (`run_name`, else the graph's name); each attempt of a node is a
chain run below it, under the node's name; what a node calls is below that. So handlers in `config["callbacks"]`, tags,
metadata and tracers reach nested calls, also of nodes that pass no config on.

Handlers see a graph that waits for a human, and the node that asked, end well with `__interrupt__` as their output.
An exception in a handler is logged and forgotten, unless the handler says `raise_error`: LangChain's own rule.
Handlers that are coroutines run on the event loop of the run, also when the node runs in an OS thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from durable_graph.core.mail import Failed, Interrupted, Late, Relayed, Said
from durable_graph.core.reports import error_record
from durable_graph.models.streaming import listener
from durable_graph.runtime.callables import Body
from durable_graph.runtime.context import CURRENT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence

    from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
    from langchain_core.callbacks.manager import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun

    from durable_graph.core.ending import Outcome
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.streaming import Event
    from durable_graph.runtime.context import TaskContext

    Events = Generator[Sequence[Event], None, Outcome]
    AsyncEvents = AsyncGenerator[Sequence[Event], None]
    Steps = Generator[tuple[Body, tuple[Any, ...], Any], Any, Mail]
    Manager = CallbackManager | AsyncCallbackManager
    ChainRun = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun

__all__ = ["Bridge", "without_default_limit"]

_CONFIG: Final = "langchain_core.runnables.config"


def without_default_limit(config: dict[str, Any]) -> None:
    """Take out the recursion limit that LangChain filled in and nobody asked for.

    A config that LangChain passes down (to a graph in a chain, or called by a RunnableLambda with its config) always
    holds a recursion_limit, 25 when the caller named none. There it means depth of nested runnables, and would cut off
    a graph in a chain that runs well on its own (LangGraph does that). So 25 in such a config counts as "not said" and
    the graph's own limit holds; any other number is obeyed. Whoever means 25 says so where no default can be mistaken
    for it: `graph.with_config(recursion_limit=25)`, or in a call of the graph itself.

    A config that LangChain passes down is known by its callback manager, which has a parent run. Inside a node, 25 is
    kept when the run around it was given 25.
    """
    if getattr(config.get("callbacks"), "parent_run_id", None) is None or _CONFIG not in sys.modules:
        return
    around = CURRENT.get()
    said = around.shared.config.get("recursion_limit") if around is not None else None
    if config.get("recursion_limit") == sys.modules[_CONFIG].DEFAULT_RECURSION_LIMIT != said:
        del config["recursion_limit"]


class Bridge:
    """One call of a graph, told to LangChain's handlers.

    name: of the graph.   given: the input as the caller passed it.   config: of the call.   output: an outcome as the
    caller sees it. `watch` or `awatch` goes around the whole run, `follow` around each attempt of a task.
    """

    def __init__(self, name: str, given: Any, config: dict[str, Any], output: Callable[[Outcome], Any]) -> None:
        from langchain_core.runnables.config import var_child_runnable_config

        self._name: str = config.get("run_name") or name
        self._given = given
        self._output = output
        self._nested = var_child_runnable_config
        self._config = self._for_handlers(config)
        self._run: ChainRun | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[UUID, ChainRun] = {}

    def _for_handlers(self, config: dict[str, Any]) -> dict[str, Any]:
        """The config that the graph's run is made of.

        Without callbacks of its own a graph called inside a chain or node belongs to that run: they come from there,
        with their tags and metadata. The thread's id is shown, as tracers group by it; other configurable values are
        not, as they may be secrets.
        """
        around = self._nested.get()
        inherited = around.get("callbacks") if around else None
        shown = dict(config.get("metadata", {}))
        thread = config["configurable"].get("thread_id")
        if thread is not None:
            shown["thread_id"] = str(thread)
        return {**config, "metadata": shown, "callbacks": config.get("callbacks") or inherited}

    # --- the graph --------------------------------------------------------------------------------------------------

    def watch(self, events: Events) -> Events:
        """The sync face: pass the events on, tell how the run began and ended."""
        from langchain_core.runnables.config import get_callback_manager_for_config

        manager = get_callback_manager_for_config(cast("Any", self._config))
        self._run = run = manager.on_chain_start(None, self._given, run_id=self._run_id(), name=self._name)
        try:
            outcome = yield from events
        except GeneratorExit:  # the caller broke off a stream: that is no error
            for one in self._unended():
                _ = one.on_chain_end(None)
            run.on_chain_end(None)
            raise
        except BaseException as error:
            for one in self._unended():
                _ = one.on_chain_error(error)
            run.on_chain_error(error)
            raise
        run.on_chain_end(self._output(outcome))
        return outcome

    async def awatch(self, events: AsyncEvents, outcomes: list[Outcome]) -> AsyncEvents:
        """The async face; `outcomes` holds the outcome when `events` are over."""
        from langchain_core.runnables.config import get_async_callback_manager_for_config

        self._loop = asyncio.get_running_loop()
        manager = get_async_callback_manager_for_config(cast("Any", self._config))
        self._run = run = await manager.on_chain_start(None, self._given, run_id=self._run_id(), name=self._name)
        try:
            async for some in events:
                yield some
        except GeneratorExit:
            await events.aclose()
            for one in self._unended():
                await cast("Any", one.on_chain_end(None))
            await run.on_chain_end(None)
            raise
        except BaseException as error:
            for one in self._unended():
                await cast("Any", one.on_chain_error(error))
            await run.on_chain_error(error)
            raise
        await run.on_chain_end(self._output(outcomes[0]))

    def _run_id(self) -> UUID | None:
        """The run_id of the config where it is a UUID, as LangChain wants it; else the trace gets one of its own."""
        given = self._config.get("run_id")
        try:
            return given if isinstance(given, UUID) else UUID(given) if given else None
        except (ValueError, AttributeError, TypeError):
            return None

    def _unended(self) -> list[ChainRun]:
        """The nodes that were cut short; they are taken out, so that nobody ends them twice."""
        return [self._open.pop(key) for key in list(self._open)]

    # --- its nodes --------------------------------------------------------------------------------------------------

    def follow(self, task: Task, steps: Steps) -> Steps:
        """An attempt of a task (see `runtime.attempt`), inside LangChain's child config and with a run of its own.

        Its first call is the node's; what comes after are routers, which are part of the node's run.
        """
        try:
            call = next(steps)
        except StopIteration as end:
            return end.value  # START without a router, or an input that cannot be read
        context = CURRENT.get()
        assert context is not None and self._run is not None  # noqa: S101, PT018 - attempts set it; `watch` came before
        manager = self._manager(self._run, context)
        token = self._nested.set(cast("Any", context.config))
        try:
            if task.spec.hidden or not manager.handlers:
                return (yield from _rest(steps, call))
            return (yield from self._told(task, context, manager, steps, call))
        finally:
            steps.close()
            self._nested.reset(token)

    @staticmethod
    def _manager(run: ChainRun, context: TaskContext) -> Manager:
        """The manager under which a node's run begins, put into the node's config."""
        metadata = context.config["metadata"]
        manager = run.get_child(f"graph:step:{metadata['langgraph_step']}")
        manager.add_metadata(metadata)
        if listener(context) is not None:
            from durable_graph.langchain.tokens import token_handler

            if token_handler() not in manager.inheritable_handlers:
                manager.add_handler(token_handler(), inherit=True)
        context.config["callbacks"] = manager
        return manager

    def _told(self, task: Task, context: TaskContext, manager: Manager, steps: Steps, call: Any) -> Steps:
        outputs: list[Any] = []
        arguments = call[1]
        try:
            given: Any = _plain(arguments[0]) if arguments else {}
            run: ChainRun | None = yield _START, (self, manager, task.name, given), None
        except Exception as error:  # noqa: BLE001 - a handler with raise_error fails the node
            return (yield from _rest(steps, (_FAIL, (error,), None)))
        if run is not None:
            context.config["callbacks"] = run.get_child()
        mail = yield from _rest(steps, call, outputs)
        if run is None or (unended := self._open.pop(run.run_id, None)) is None:
            return mail
        assert not isinstance(mail, Said | Relayed | Late)  # noqa: S101 - attempts end with one of the others
        try:
            _ = yield _END, (self, unended, mail, outputs[0] if outputs else None), None
        except Exception as error:  # noqa: BLE001 - as above
            return Failed(task, error, error_record(error), (), mail.started, mail.duration)
        return mail

    def began(self, run: ChainRun) -> ChainRun:
        """Remember a node's run until it ends."""
        self._open[run.run_id] = run
        return run

    def wait(self, told: Any) -> Any:
        """In the OS thread of a node: what the handlers gave; on the async face they run on the run's event loop.

        Returns:
            None when the loop is gone: the run was broken off, nobody listens to what is left of it.
        """
        if self._loop is None:
            return told
        coroutine: Coroutine[Any, Any, Any] = told
        try:
            waiting = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            return None
        try:
            return waiting.result()
        except concurrent.futures.CancelledError:
            return None


def _rest(steps: Steps, call: Any, outputs: list[Any] | None = None) -> Steps:
    """What is left of an attempt from `call` on; every result goes to `outputs` too."""
    try:
        while True:
            try:
                answer = yield call
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - the attempt decides what it means
                call = steps.throw(error)
            else:
                if outputs is not None:
                    outputs.append(answer)
                call = steps.send(answer)
    except StopIteration as end:
        return end.value


def _plain(given: Any) -> Any:
    """What a handler may keep: a view of the state would show what becomes of the state later."""
    return dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else given


def _start(bridge: Bridge, manager: Manager, name: str, given: Any) -> ChainRun | None:
    run = bridge.wait(manager.on_chain_start(None, given, name=name))
    if run is None:
        return None
    _ = bridge.began(run)
    return run.get_sync() if hasattr(run, "get_sync") else run  # the node is sync code


async def _astart(bridge: Bridge, manager: AsyncCallbackManager, name: str, given: Any) -> ChainRun:
    return bridge.began(await manager.on_chain_start(None, given, name=name))


def _end(bridge: Bridge, run: ChainRun, mail: Mail, output: Any) -> None:
    bridge.wait(_tell_end(run, mail, output))


async def _aend(bridge: Bridge, run: AsyncCallbackManagerForChainRun, mail: Mail, output: Any) -> None:
    del bridge
    await _tell_end(run, mail, output)


def _tell_end(run: ChainRun, mail: Mail, output: Any) -> Any:
    if isinstance(mail, Failed):
        return run.on_chain_error(mail.error)
    if isinstance(mail, Interrupted):
        return run.on_chain_end({"__interrupt__": list(mail.interrupts)})
    return run.on_chain_end(output)


def _fail(error: Exception) -> None:
    """Takes the place of the node's call."""
    raise error


_START: Final = Body(_start, _astart)
_END: Final = Body(_end, _aend)
_FAIL: Final = Body(_fail)
