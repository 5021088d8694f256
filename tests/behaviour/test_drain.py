"""Asking a run to stop where it can be resumed: `control=RunControl()`."""

import asyncio
import signal
import threading

import pytest

from durable_graph import END, START, Command, GraphRecursionError, Runtime, Send, StateGraph, get_runtime, interrupt
from durable_graph.core.control import RunControl
from durable_graph.errors import GraphBubbleUp, GraphDrained
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, count_checkpoints, parallel, thread

CFG = thread()


class Asks:
    """A node that asks the run to stop, once."""

    def __init__(self, word, reason="deploy"):
        self.word, self.reason, self.done = word, reason, False

    def __call__(self, state, runtime: Runtime):
        if not self.done:
            self.done = True
            runtime.control.request_drain(self.reason)
        return {"log": [self.word]}


def drained(face, graph, given, config=None, **more):
    with pytest.raises(GraphDrained) as caught:
        face.invoke(graph, given, config, **more)
    return caught.value


# --- where it stops --------------------------------------------------------------------------------------------------


def test_the_step_under_way_is_finished_and_stored_and_the_run_goes_on_later(face, backend):
    control = RunControl()
    nodes = {"a": says("a"), "b": Asks("b"), "c": says("c")}
    error = drained(face, chain(**nodes).compile(backend.make()), {}, CFG, control=control)
    assert error.reason == "deploy"
    again = chain(**nodes).compile(backend.reopen())
    shown = face.get_state(again, CFG)
    assert (shown.values["log"], shown.next) == (["a", "b"], ("c",))
    assert face.invoke(again, None, CFG)["log"] == ["a", "b", "c"]


def test_a_run_that_was_asked_before_it_began_stores_its_input_and_runs_nothing(face, backend):
    control, marks = RunControl(), Marks()
    control.request_drain()
    graph = chain(a=lambda state: marks("a")).compile(backend.make())
    assert drained(face, graph, {"log": ["in"]}, CFG, control=control).reason == "shutdown"
    assert marks.seen == []
    assert face.get_state(graph, CFG).next == ("a",)
    assert face.invoke(graph, None, CFG) == {"log": ["in"]}
    assert marks.seen == ["a"]


def test_a_run_whose_last_step_was_under_way_ends_as_usual(face, backend):
    graph = chain(a=says("a"), b=Asks("b")).compile(backend.make())
    assert face.invoke(graph, {}, CFG, control=RunControl())["log"] == ["a", "b"]


def test_a_run_that_waits_for_a_human_ends_as_usual(face, backend):
    nodes = {"a": Asks("a"), "b": lambda state: {"log": [interrupt("?")]}, "c": says("c")}
    graph = parallel(**nodes).compile(backend.make())
    assert list(asked(face.invoke(graph, {}, CFG, control=RunControl())["__interrupt__"])) == ["?"]
    assert face.invoke(graph, Command(resume="B"), CFG)["log"] == ["a", "B", "c"]


def test_a_run_that_stops_at_a_breakpoint_ends_as_usual(face, backend):
    graph = chain(a=Asks("a"), b=says("b")).compile(backend.make(), interrupt_before=["b"])
    assert face.invoke(graph, {}, CFG, control=RunControl())["log"] == ["a"]
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b"]


def test_a_run_that_failed_fails(face, backend):
    def b(state):
        text = "down"
        raise ValueError(text)

    with pytest.raises(ValueError, match="down"):
        face.invoke(parallel(a=Asks("a"), b=b).compile(backend.make()), {}, CFG, control=RunControl())


def test_it_needs_no_checkpointer(face):
    assert drained(face, chain(a=Asks("a"), b=says("b")).compile(), {}, control=RunControl()).reason == "deploy"


def test_all_tasks_of_the_step_are_finished_also_those_that_wait_for_an_os_thread(face, backend):
    builder = StateGraph(Log).add_node("work", lambda arg: {"log": [arg]}).add_node("a", Asks("a"))
    builder.add_node("after", says("after")).add_edge("a", "after").add_edge(START, "a")
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(20)], ["work"])
    graph = builder.compile(backend.make())
    drained(face, graph, {}, {**CFG, "max_concurrency": 2}, control=RunControl())
    assert face.get_state(graph, CFG).values["log"] == ["a", *range(20)]


def test_start_with_a_router_is_no_step_that_it_stops_before(face, backend):
    control = RunControl()
    control.request_drain()
    builder = StateGraph(Log).add_node("a", says("a")).add_conditional_edges(START, lambda state: "a", ["a"])
    graph = builder.compile(backend.make())
    drained(face, graph, {}, CFG, control=control)
    assert face.get_state(graph, CFG).next == ("a",)
    assert face.invoke(graph, None, CFG)["log"] == ["a"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_ran_is_durable_when_the_caller_hears_of_it(face, backend, durability):
    nodes = {"a": says("a"), "b": Asks("b"), "c": says("c")}
    drained(face, chain(**nodes).compile(backend.make()), {}, CFG, control=RunControl(), durability=durability)
    again = chain(**nodes).compile(backend.reopen())
    assert face.get_state(again, CFG).values["log"] == ["a", "b"]


def test_it_stores_no_checkpoint_of_its_own(face, backend):
    saver = backend.make()
    drained(face, chain(a=Asks("a"), b=says("b")).compile(saver), {}, CFG, control=RunControl())
    face.invoke(chain(a=says("a"), b=says("b")).compile(saver), {}, thread("other"))
    assert count_checkpoints(saver) == count_checkpoints(saver, "other") - 1


def test_a_drained_run_is_unfinished_and_the_thread_is_free(face, backend):
    graph = chain(a=Asks("a"), b=says("b")).compile(backend.make())
    drained(face, graph, {}, CFG, control=RunControl())
    assert face.invoke(graph, {}, CFG, on_unfinished="finish")["log"] == ["a", "b", "a", "b"]


def test_a_control_that_was_used_stops_the_next_run_too(face, backend):
    """It says that the process is to end; a new run needs a new one."""
    control = RunControl()
    graph = chain(a=Asks("a"), b=says("b"), c=says("c")).compile(backend.make())
    drained(face, graph, {}, CFG, control=control)
    drained(face, graph, None, CFG, control=control)
    assert face.invoke(graph, None, CFG, control=RunControl())["log"] == ["a", "b", "c"]


def test_it_comes_before_the_step_limit(face, backend):
    graph = chain(a=Asks("a"), b=says("b")).compile(backend.make())
    drained(face, graph, {}, {**CFG, "recursion_limit": 1}, control=RunControl())
    with pytest.raises(GraphRecursionError):
        face.invoke(graph, {}, {**thread("u"), "recursion_limit": 1})


# --- who asks --------------------------------------------------------------------------------------------------------


def test_another_os_thread_asks_while_a_node_runs(face, backend):
    control, inside, go_on = RunControl(), threading.Event(), threading.Event()

    def a(state):
        inside.set()
        assert go_on.wait(20)
        return {"log": ["a"]}

    def ask():
        assert inside.wait(20)
        control.request_drain("from outside")
        go_on.set()

    asking = threading.Thread(target=ask)
    asking.start()
    graph = chain(a=a, b=says("b")).compile(backend.make())
    assert drained(face, graph, {}, CFG, control=control).reason == "from outside"
    asking.join()
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b"]


def test_a_signal_handler_of_the_users_asks(backend):
    control = RunControl()
    before = signal.signal(signal.SIGTERM, lambda *_: control.request_drain("SIGTERM"))
    try:
        graph = chain(a=lambda state: signal.raise_signal(signal.SIGTERM), b=says("b")).compile(backend.make())
        with pytest.raises(GraphDrained) as caught:
            graph.invoke({}, CFG, control=control)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.reason == "SIGTERM"
    assert graph.invoke(None, CFG)["log"] == ["b"]


def test_a_node_sees_that_the_run_is_to_stop_and_may_end_early(face, backend):
    control, inside = RunControl(), threading.Event()
    seen = []

    def a(state, runtime: Runtime):
        seen.append((runtime.drain_requested, runtime.drain_reason))
        inside.set()
        while not runtime.drain_requested:
            threading.Event().wait(0.001)
        seen.append((runtime.drain_requested, runtime.drain_reason))
        return Command(update={"log": ["a little"]}, goto="a" if len(seen) < 4 else END)

    asking = threading.Thread(target=lambda: (inside.wait(20), control.request_drain("deploy")))
    asking.start()
    graph = StateGraph(Log).add_node("a", a).add_edge(START, "a").compile(backend.make())
    drained(face, graph, {}, CFG, control=control)
    asking.join()
    assert seen == [(False, None), (True, "deploy")]
    assert face.get_state(graph, CFG).next == ("a",)


def test_without_a_control_nobody_may_ask(face):
    seen = []

    def a(state, runtime):
        seen.append((runtime.control, runtime.drain_requested, runtime.drain_reason))
        assert get_runtime().control is None

    face.invoke(chain(a=a).compile(), {})
    assert seen == [(None, False, None)]


def test_one_control_stops_several_runs(backend):
    control, inside, go_on = RunControl(), threading.Barrier(3), threading.Event()
    reasons = []

    def a(state):
        inside.wait(20)
        assert go_on.wait(20)

    def run(number):
        try:
            graph.invoke({}, thread(str(number)), control=control)
        except GraphDrained as drain:
            reasons.append(drain.reason)

    graph = chain(a=a, b=says("b")).compile(backend.make())
    runs = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for one in runs:
        one.start()
    inside.wait(20)
    control.request_drain("all of you")
    go_on.set()
    for one in runs:
        one.join(20)
    assert reasons == ["all of you", "all of you"]


# --- graphs inside ---------------------------------------------------------------------------------------------------


def nested(saver, marks, checkpointer=None):
    def one(state, runtime):
        marks("one")
        if marks.count("one") == 1:
            runtime.control.request_drain("inside")
        return {"log": ["one"]}

    def two(state):
        marks("two")
        return {"log": ["two"]}

    inner = chain(one=one, two=two).compile(checkpointer)
    return chain(sub=inner, after=says("after")).compile(saver)


def test_a_graph_inside_stops_after_its_own_step_and_goes_on_there(face, backend):
    marks = Marks()
    error = drained(face, nested(backend.make(), marks), {}, CFG, control=RunControl())
    assert error.reason == "inside"
    again = nested(backend.reopen(), marks)
    assert face.get_state(again, CFG).next == ("sub",)
    assert face.get_state(again, CFG).tasks[0].error is None
    assert face.invoke(again, None, CFG)["log"] == ["one", "two", "after"]
    assert marks.seen == ["one", "two"]


def test_a_graph_inside_that_stores_nothing_runs_again_from_its_start(face, backend):
    marks = Marks()
    drained(face, nested(backend.make(), marks, checkpointer=False), {}, CFG, control=RunControl())
    again = nested(backend.reopen(), marks, checkpointer=False)
    assert face.invoke(again, None, CFG)["log"] == ["one", "two", "after"]
    assert marks.seen == ["one", "one", "two"]


def test_three_levels_stop_together(face, backend):
    marks = Marks()

    def made(saver):
        def deep(state, runtime):
            marks("deep")
            if marks.count("deep") == 1:
                runtime.control.request_drain("deep")
            return {"log": ["deep"]}

        third = chain(deep=deep, deeper=says("deeper")).compile()
        second = chain(third=third, b=says("b")).compile()
        return chain(second=second, a=says("a")).compile(saver)

    drained(face, made(backend.make()), {}, CFG, control=RunControl())
    assert face.invoke(made(backend.reopen()), None, CFG)["log"] == ["deep", "deeper", "b", "a"]
    assert marks.count("deep") == 1


def test_several_graphs_inside_that_stop_are_one_drain_and_siblings_keep_their_results(face, backend):
    marks, both = Marks(), threading.Barrier(2)

    def made(saver):
        def first(state, runtime):
            marks("first")
            both.wait(20)
            runtime.control.request_drain("both")
            return {"log": ["first"]}

        def plain(state):
            marks("plain")
            return {"log": ["plain"]}

        subs = {name: chain(first=first, second=says(name)).compile() for name in ("s1", "s2")}
        return parallel(plain=plain, **subs).compile(saver)

    assert drained(face, made(backend.make()), {}, CFG, control=RunControl()).reason == "both"
    graph = made(backend.reopen())
    assert face.get_state(graph, CFG).next == ("s1", "s2")
    assert face.invoke(graph, None, CFG)["log"] == ["plain", "first", "s1", "first", "s2"]
    assert (marks.count("first"), marks.count("plain")) == (2, 1)


def test_where_a_sibling_failed_its_error_is_what_is_raised(face, backend):
    marks = Marks()

    def made(saver):
        stopped = threading.Event()

        def first(state, runtime):
            marks("first")
            if marks.count("first") == 1:
                runtime.control.request_drain()
            stopped.set()

        def bad(state):
            assert stopped.wait(20)
            if marks.count("first") == 1 and not marks.count("mended"):
                text = "bad"
                raise ValueError(text)

        return parallel(bad=bad, sub=chain(first=first, second=says("second")).compile()).compile(saver)

    with pytest.raises(ValueError, match="bad"):
        face.invoke(made(backend.make()), {}, CFG, control=RunControl())


def test_a_graph_inside_with_a_control_of_its_own_stops_the_node_that_runs_it(face, backend):
    own = RunControl()
    own.request_drain("own")
    inner = chain(x=says("x")).compile()
    graph = chain(a=lambda state: inner.invoke(state, control=own)).compile(backend.make())
    assert drained(face, graph, {}, CFG).reason == "own"
    assert face.get_state(graph, CFG).next == ("a",)


def test_a_node_may_catch_the_drain_of_an_independent_run_that_it_started(face, backend):
    own = RunControl()
    own.request_drain("own")
    saver = backend.make()
    inner = chain(x=says("x")).compile(saver)

    def a(state):
        try:
            inner.invoke({}, thread("elsewhere"), control=own)
        except GraphDrained as drain:
            return {"log": [drain.reason]}

    assert face.invoke(chain(a=a).compile(saver), {}, CFG)["log"] == ["own"]


# --- faces and streams -----------------------------------------------------------------------------------------------


def test_a_stream_shows_what_ran_and_then_raises(face, backend):
    graph = chain(a=says("a"), b=Asks("b"), c=says("c")).compile(backend.make())
    parts = []

    def sync():
        for part in graph.stream({}, CFG, control=RunControl()):
            parts.append(part)  # noqa: PERF402 - what came before the error counts

    async def asynchronous():
        async for part in graph.astream({}, CFG, control=RunControl()):
            parts.append(part)  # noqa: PERF401 - as above

    with pytest.raises(GraphDrained):
        sync() if face.name == "sync" else asyncio.run(asynchronous())
    assert parts == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]
    assert face.stream(graph, None, CFG) == [{"c": {"log": ["c"]}}]


def test_a_stream_shows_siblings_of_a_graph_that_stopped(backend):
    def first(state, runtime):
        runtime.control.request_drain()

    subs = {"sub": chain(first=first, second=says("second")).compile(), "plain": says("plain")}
    graph = parallel(**subs).compile(backend.make())
    parts = []

    def run():
        for part in graph.stream({}, CFG, control=RunControl()):
            parts.append(part)  # noqa: PERF402 - what came before the error counts

    with pytest.raises(GraphDrained):
        run()
    assert parts == [{"plain": {"log": ["plain"]}}]


def test_an_async_node_asks(face, backend):
    async def a(state, runtime):
        await asyncio.sleep(0)
        runtime.control.request_drain("async")
        return {"log": ["a"]}

    graph = chain(a=a, b=says("b")).compile(backend.make())
    assert drained(face, graph, {}, CFG, control=RunControl()).reason == "async"


def test_it_is_control_flow_that_except_exception_lets_pass():
    assert issubclass(GraphDrained, GraphBubbleUp)
    assert not issubclass(GraphDrained, Exception)
