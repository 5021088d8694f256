"""`ToolNode`: the node that makes the calls a model asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from durable_graph.core.retrying import as_policies
from durable_graph.errors import GraphBubbleUp, InvalidGraphError, ParentCommand
from durable_graph.prebuilt.families import is_tool_message, tool_message_like
from durable_graph.prebuilt.foreign import ForeignTool, as_tool
from durable_graph.prebuilt.injection import runtime_for
from durable_graph.prebuilt.results import Answer, from_below
from durable_graph.prebuilt.tool_calls import Job, ToolCallRequest, aperform, arun_jobs, nested, perform, run_jobs
from durable_graph.prebuilt.tool_errors import ErrorPolicy, ToolInvocationError, failures_in_a_row, unknown_tool
from durable_graph.prebuilt.tool_input import read_input
from durable_graph.prebuilt.tools import Tool, acall, call
from durable_graph.recording.doing import ado_step, do_step
from durable_graph.recording.once import check_on_unknown
from durable_graph.recording.step import Started, Step, take_place
from durable_graph.runtime.callables import Body
from durable_graph.runtime.calling_back import calling_back
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.places import INSIDE
from durable_graph.types import MISSING, Command, TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence
    from datetime import timedelta

    from durable_graph.prebuilt.tool_errors import HandleToolErrors
    from durable_graph.prebuilt.tool_input import Asked
    from durable_graph.prebuilt.tools import Due
    from durable_graph.recording.step import OnUnknown
    from durable_graph.runtime.context import TaskContext
    from durable_graph.types import Missing, RetryPolicy

__all__ = ["ToolNode"]


class _Explain(NamedTuple):
    """Say to the model that a job failed."""

    job: Job
    error: Exception


class ToolNode:
    """Makes the calls that a model asked for, at the same time, each once.

        graph.add_node("tools", ToolNode([search, book]))
        graph.add_conditional_edges("model", tools_condition)

    Its input is a state with messages (also a list of messages), a list of tool calls, or one call (of a Send). It
    gives back tool messages, and what tools returned as Commands. Calls that are answered already are not made again.

    Each call is a recorded step: a crash, or an interrupt of another tool, does not repeat a call that is done.

    Args:
        tools: functions, tools, LangChain's tools. Dicts (tools that a provider runs itself) are left alone.
        name: of the node.
        tags: for the config that tools get.
        handle_tool_errors: what becomes of exceptions. Left out: the model is told, and the log gets the traceback.
            True: the same. False: raised. A text: what the model is told. Exception types: the model is told of these,
            others are raised. A function of the exception: gives the text; which exceptions it handles is read from
            its annotation. Interrupts always pass.
        messages_key: the key of the state with the messages.
        wrap_tool_call: a function `(request, execute) -> answer` around each call. It may change the request
            (`request.override(...)`), call `execute` several times, or not at all. Each execution is recorded. With
            the policy that nobody chose, exceptions of the tool reach it.
        awrap_tool_call: its async form, where a run is async.
        max_tool_errors: how often in a row one tool may fail before its error is raised; None: as often as it wants.
            Left out: 3 where `handle_tool_errors` is left out too, else None.
        tool_timeout, tool_retry, on_unknown: for calls of tools that do not say it themselves; see `tool`.

    Raises:
        InvalidGraphError: something is no tool, or two have one name.
        InvalidConfigError: an option is wrong.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: HandleToolErrors = MISSING,
        messages_key: str = "messages",
        wrap_tool_call: Callable[[ToolCallRequest, Callable[[ToolCallRequest], Any]], Any] | None = None,
        awrap_tool_call: Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Any]]], Any] | None = None,
        max_tool_errors: int | Missing | None = MISSING,
        tool_timeout: TimeoutPolicy | float | timedelta | None = None,
        tool_retry: RetryPolicy | Sequence[RetryPolicy] | None = None,
        on_unknown: OnUnknown = "rerun",
    ) -> None:
        self.name = name
        self.tags = list(tags or ())
        self.messages_key = messages_key
        self.policy = ErrorPolicy(handle_tool_errors, max_tool_errors)
        self._wrap, self._awrap = wrap_tool_call, awrap_tool_call
        self._retry = as_policies(tool_retry)
        self._timeout = None if tool_timeout is None else TimeoutPolicy.coerce(tool_timeout)
        self._on_unknown = check_on_unknown(on_unknown)
        self._tools: dict[str, Tool | ForeignTool] = {}
        self._steps: dict[str, Step] = {}
        self.built_in: list[dict[str, Any]] = []
        for one in tools:
            self._add(as_tool(one))
        self._wrapping = Body(self._in_wrapper, self._ain_wrapper) if wrap_tool_call or awrap_tool_call else None
        if self._wrapping is not None and wrap_tool_call is None:
            self._wrapping = Body(self._ain_wrapper)
        self._explaining = Body(self._explain, self._aexplain)

    def _add(self, made: Tool | ForeignTool | dict[str, Any]) -> None:
        if isinstance(made, dict):
            self.built_in.append(made)
            return
        if made.name in self._tools:
            what = f"node {self.name!r} has two tools named {made.name!r}"
            raise InvalidGraphError(what, cure="Give one another name.")
        self._tools[made.name] = made
        self._steps[made.name] = self._step_of(made)

    def _step_of(self, made: Tool | ForeignTool) -> Step:
        return Step(
            made.name,
            Body(self._do, self._ado),
            retry=self._retry if made.retry is None else made.retry,
            timeout=self._timeout if made.timeout is None else made.timeout,
            on_unknown=_asking(
                made.name, cast("Any", self._on_unknown if made.on_unknown is None else made.on_unknown)
            ),
        )

    def __repr__(self) -> str:
        return f"ToolNode({list(self._tools)!r}, name={self.name!r})"

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """The tools that can be called, as they were given, functions as tools."""
        return {name: made.tool if isinstance(made, ForeignTool) else made for name, made in self._tools.items()}

    @property
    def offered(self) -> list[Any]:
        """What a model is told of: the tools that can be called, and those that a provider runs itself."""
        return [*self.tools_by_name.values(), *self.built_in]

    @property
    def direct(self) -> frozenset[str]:
        """The names of the tools with `return_direct`."""
        return frozenset(n for n, tool in self.tools_by_name.items() if getattr(tool, "return_direct", False))

    def get_name(self) -> str:
        """The name it goes by as a node."""
        return self.name

    def invoke(self, input: Any, config: Any = None, *, store: Any = None) -> Any:
        """Make the calls.

        Raises:
            InvalidValueError: the input has no message of a model.
            InjectionError: a tool wants something of the engine that is not there.
            Exception: what a tool raised, where the policy does not tell the model.
            GraphInterrupt: a tool asks a human.
        """
        work = self._work(input, config, store)
        due: Any = next(work)
        try:
            while True:
                try:
                    answer = self._told(due) if isinstance(due, _Explain) else run_jobs(due)
                except Exception as error:  # noqa: BLE001 - the work decides what it means
                    due = work.throw(error)
                else:
                    due = work.send(answer)
        except StopIteration as end:
            return end.value

    async def ainvoke(self, input: Any, config: Any = None, *, store: Any = None) -> Any:
        """Async `invoke`."""
        work = self._work(input, config, store)
        due: Any = next(work)
        try:
            while True:
                try:
                    answer = await (self._atold(due) if isinstance(due, _Explain) else arun_jobs(due))
                except Exception as error:  # noqa: BLE001 - the work decides what it means
                    due = work.throw(error)
                else:
                    due = work.send(answer)
        except StopIteration as end:
            return end.value

    # --- the work ----------------------------------------------------------------------------------------------------

    def _work(self, given: Any, config: Any, store: Any) -> Generator[Any, Any, Any]:
        """Yields the jobs to run, and what is to be explained to the model; returns what the node gives back."""
        context = CURRENT.get()
        asked = read_input(given, self.messages_key, context)
        jobs = self._jobs(asked, config, store, context)
        outcomes: list[Any] = yield jobs
        answers: list[Any] = []
        failed: list[BaseException] = []
        stopped: list[BaseException] = []
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, GraphBubbleUp):
                stopped.append(outcome)
                continue
            try:
                if isinstance(outcome, Exception):
                    raise outcome  # noqa: TRY301 - it and what `_settled` raises are explained alike
                answers += self._settled(job, outcome)
            except Exception as error:  # noqa: BLE001 - the policy decides
                try:
                    answers.append((yield _Explain(job, error)))
                except Exception as final:  # noqa: BLE001 - raised when all others are explained
                    failed.append(final)
        for error in (*failed, *stopped):
            raise error
        return self._given_back(answers, asked)

    def _jobs(self, asked: Asked, config: Any, store: Any, context: TaskContext | None) -> list[Job]:
        family = tool_message_like(asked.message)
        tools = tuple(self.tools_by_name.values())
        fields: dict[str, Any] = {"state": asked.state, "tools": tools}
        if store is not None:
            fields["store"] = store
        config = self._tagged(config, context)
        jobs: list[Job] = []
        for one in asked.calls:
            made, name = self._tools.get(one["name"]), one["name"]
            answer = self._answer(made, one, family, root=asked.root)
            step = self._steps.get(name)
            if self._wrapping is not None:
                step = Step(name, self._wrapping)
            failures = failures_in_a_row(asked.messages, name) if self.policy.limit is not None else 0
            job = Job(step, answer, failures)
            runtime = runtime_for(context, one.get("id"), config, key_source=job.key, **fields)
            told = dict(one) if made is None else made.stripped(one)
            job.request = ToolCallRequest(told, _shown(made), asked.state, runtime)
            if context is not None and step is not None:
                job.place = take_place(step, (dict(one),), {})
                job.recorded = not self._is_all(context, asked, step)
            jobs.append(job)
        return jobs

    def _is_all(self, context: TaskContext, asked: Asked, step: Step) -> bool:
        """Whether the step does nothing but this call, so that the call is recorded as the task.

        Not beside other tasks: a worker starts the next one before the result of the last is stored, and a crash right
        then would repeat a call that was done.
        """
        run = context.shared.run
        if run is None or len(run.tasks) > 1:
            return False
        plain = not step.retry and step.timeout is None and step.on_unknown == "rerun"
        alone = len(asked.calls) == 1 and INSIDE.get() is None
        body: Any = context.task.spec.work.body
        return plain and alone and body is not None and body.target is self

    def _tagged(self, config: Any, context: TaskContext | None) -> Any:
        if not self.tags:
            return config
        config = config if config is not None else context.config if context is not None else {}
        return {**config, "tags": [*(config.get("tags") or ()), *self.tags]}

    def _answer(self, made: Tool | ForeignTool | None, one: Any, family: Any, *, root: bool) -> Answer:
        if made is None:
            return Answer(one, one["name"], family, root=root, key=self.messages_key)
        return made.answer(one, family, root=root, key=self.messages_key)

    def _settled(self, job: Job, outcome: Any) -> list[Any]:
        """The answers of a job. What a human or a function said about a lost call is made one here."""
        if outcome is None and job.step is None:
            return [job.answer.message(self._unknown(job.answer.name), error=True)]
        return cast("list[Any]", outcome) if _are_answers(outcome) else job.answer.of(outcome)

    def _unknown(self, name: str) -> str:
        return unknown_tool(name, self._tools)

    def _given_back(self, answers: list[Any], asked: Asked) -> Any:
        """Messages in one update; with Commands among them a list, in the order of the calls."""
        parts: list[Any] = []
        run: list[Any] = []
        for one in answers:
            if isinstance(one, Command):
                run = []
                parts.append(cast("Any", one))
            else:
                if not run:
                    run = []
                    parts.append(run)
                run.append(one)
        found: list[Any] = [
            part if not isinstance(part, list) or asked.root else {self.messages_key: cast("Any", part)}
            for part in parts
        ]
        if any(isinstance(one, Command) for one in found):
            return found
        return found[0] if found else [] if asked.root else {self.messages_key: []}

    # --- one call ----------------------------------------------------------------------------------------------------

    def _begin(self, job: Job, request: ToolCallRequest) -> tuple[Due, Answer] | list[Any]:
        """The call that a request is, ready to be made; or its answer, when there is no such tool."""
        made = self._tools.get(request.tool_call["name"])
        if request.tool is not _shown(made):
            made = None if request.tool is None else cast("Tool | ForeignTool", as_tool(request.tool))
        old = job.answer
        answer = self._answer(made, request.tool_call, old.family, root=old.root)
        if made is None:
            return [answer.message(self._unknown(request.tool_call["name"]), error=True)]
        return made.start(request.tool_call, job.changed(request), self.messages_key), answer

    def _do(self, job: Job, request: ToolCallRequest) -> list[Any]:
        """The body of the step of a call."""
        begun = self._begin(job, request)
        if isinstance(begun, list):
            return begun
        try:
            return begun[1].of(call(begun[0]))
        except ParentCommand as said:
            return begun[1].of(_commands(said))

    async def _ado(self, job: Job, request: ToolCallRequest) -> list[Any]:
        begun = self._begin(job, request)
        if isinstance(begun, list):
            return begun
        try:
            return begun[1].of(await acall(begun[0]))
        except ParentCommand as said:
            return begun[1].of(_commands(said))

    # --- wrappers ----------------------------------------------------------------------------------------------------

    def _in_wrapper(self, job: Job, request: ToolCallRequest) -> list[Any]:
        """The body of the step around a call."""
        assert self._wrap is not None  # noqa: S101 - else this is no body; this tells the type checker
        return job.answer.of(self._wrap(request, lambda changed: self._execute(job, changed)))

    async def _ain_wrapper(self, job: Job, request: ToolCallRequest) -> list[Any]:
        if self._awrap is not None:
            return job.answer.of(await self._awrap(request, lambda changed: self._aexecute(job, changed)))
        assert self._wrap is not None  # noqa: S101 - as above
        wrap = self._wrap
        answer = await calling_back(lambda back: wrap(request, back), lambda changed: self._aexecute(job, changed))
        return job.answer.of(answer)

    def _execute(self, job: Job, request: ToolCallRequest) -> Any:
        step = self._step_for(request)
        try:
            if job.place is None:
                found = perform(step, job, request)
            else:
                found = do_step(nested(step, request.tool_call), step, (job, request), {})
            return self._one(job, request, found)
        except Exception as error:  # noqa: BLE001 - the policy decides
            return self._within(job, request, error)

    async def _aexecute(self, job: Job, request: ToolCallRequest) -> Any:
        step = self._step_for(request)
        try:
            if job.place is None:
                found = await aperform(step, job, request)
            else:
                found = await ado_step(nested(step, request.tool_call), step, (job, request), {})
            return self._one(job, request, found)
        except Exception as error:  # noqa: BLE001 - the policy decides
            return self._within(job, request, error)

    def _step_for(self, request: ToolCallRequest) -> Step:
        name = request.tool_call["name"]
        if request.tool is not None and request.tool is not _shown(self._tools.get(name)):
            return self._step_of(cast("Tool | ForeignTool", as_tool(request.tool)))
        return self._steps.get(name) or Step(name, Body(self._do, self._ado))

    def _one(self, job: Job, request: ToolCallRequest, found: Any) -> Any:
        """What `execute` gives to a wrapper."""
        made = self._tools.get(request.tool_call["name"])
        answer = self._answer(made, request.tool_call, job.answer.family, root=job.answer.root)
        answers = found if _are_answers(found) else answer.of(found)
        return answers[0] if len(answers) == 1 else answers

    def _within(self, job: Job, request: ToolCallRequest, error: Exception) -> Any:
        """What a wrapper sees: the exception, unless a policy was chosen; bad arguments are the model's."""
        if not self.policy.chosen and not isinstance(error, ToolInvocationError):
            raise error
        name = request.tool_call["name"]
        text = self.policy.answer(error, name, job.failures, request.tool_call.get("id"))
        answer = self._answer(self._tools.get(name), request.tool_call, job.answer.family, root=job.answer.root)
        return answer.message(text, error=True)

    # --- failures ----------------------------------------------------------------------------------------------------

    def _told(self, due: _Explain) -> Any:
        """The message that tells the model of a failure. Recorded like the call: where the node runs again, the error
        may be one of which only the text is left.
        """
        job, error = due
        if job.place is None or not job.recorded:
            return self._explain(job, error)
        step = Step(f"{job.answer.name} failed", self._explaining)
        return do_step(take_place(step, (dict(job.answer.call),), {}), step, (job, error), {})

    async def _atold(self, due: _Explain) -> Any:
        job, error = due
        if job.place is None or not job.recorded:
            return self._explain(job, error)
        step = Step(f"{job.answer.name} failed", self._explaining)
        return await ado_step(take_place(step, (dict(job.answer.call),), {}), step, (job, error), {})

    def _explain(self, job: Job, error: Exception) -> Any:
        text = self.policy.answer(error, job.answer.name, job.failures, job.answer.call.get("id"))
        return job.answer.message(text, error=True)

    async def _aexplain(self, job: Job, error: Exception) -> Any:
        return self._explain(job, error)


def _shown(made: Tool | ForeignTool | None) -> Any:
    return made.tool if isinstance(made, ForeignTool) else made


def _are_answers(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(one, Command) or is_tool_message(one) for one in cast("list[Any]", found)
    )


def _commands(said: ParentCommand) -> list[Command[Any]]:
    context = CURRENT.get()
    return from_below(said, "" if context is None else context.task.spec.work.scope.graph)


def _asking(name: str, on_unknown: OnUnknown) -> OnUnknown:
    """A policy for lost calls: a function is told of the tool's arguments, and not of ours."""
    if not callable(on_unknown):
        return on_unknown
    function: Callable[..., Any] = on_unknown

    def told(started: Started) -> Started:
        request: ToolCallRequest = started.args[1]
        return Started(name, (), request.tool_call["args"], request.runtime.idempotency_key, started.started)

    if Body(function).asyn is not None:

        async def afind(started: Started) -> Any:
            return await function(told(started))

        return afind
    return lambda started: function(told(started))
