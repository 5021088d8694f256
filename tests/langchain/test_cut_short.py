"""Runs that are cut short: handlers are told of the end of all that they saw begin, once."""

import asyncio
import threading
from dataclasses import dataclass

import pytest
from langchain_core.callbacks import AsyncCallbackHandler

from durable_graph.langchain.callbacks import Bridge
from tests.langchain.graphs import fan, line, says


def test_a_cancelled_run_leaves_no_run_open(any_recorder):
    async def main():
        began = {name: asyncio.Event() for name in "ab"}

        def waits(name):
            async def node(state):
                began[name].set()
                await asyncio.Event().wait()

            return node

        graph = fan({name: waits(name) for name in began})
        running = asyncio.create_task(graph.ainvoke({"log": []}, {"callbacks": [any_recorder]}))
        for event in began.values():
            await event.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert any_recorder.book.ends() == dict.fromkeys(("LangGraph", "a", "b"), asyncio.CancelledError)


def test_a_stream_that_is_broken_off_ended_well(any_recorder):
    graph = line({"first": says("a"), "second": says("b")})
    for _ in (events := graph.stream({"log": []}, {"callbacks": [any_recorder]})):
        events.close()
    assert any_recorder.book.ends() == {"LangGraph": "ok", "first": "ok"}


def test_an_async_stream_that_is_broken_off_ended_well(any_recorder):
    async def main():
        graph = line({"first": says("a"), "second": says("b")})
        events = graph.astream({"log": []}, {"callbacks": [any_recorder]})
        async for _ in events:
            await events.aclose()

    asyncio.run(main())
    assert any_recorder.book.ends() == {"LangGraph": "ok", "first": "ok"}


def test_a_node_that_still_runs_when_its_stream_is_broken_off_is_ended_once(any_recorder):
    going, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(state):
        going.set()
        go_on.wait()
        done.set()

    def fast(state):
        going.wait()

    events = fan({"fast": fast, "slow": slow}).stream({"log": []}, {"callbacks": [any_recorder]})
    next(events)
    events.close()
    assert any_recorder.book.ends() == {"LangGraph": "ok", "fast": "ok", "slow": "ok"}
    go_on.set()
    done.wait()


def test_a_node_that_still_runs_when_its_async_stream_is_broken_off_is_ended_once(any_recorder):
    async def main():
        going = asyncio.Event()

        async def slow(state):
            going.set()
            await asyncio.Event().wait()

        async def fast(state):
            await going.wait()

        events = fan({"fast": fast, "slow": slow}).astream({"log": []}, {"callbacks": [any_recorder]})
        await anext(events)
        await events.aclose()

    asyncio.run(main())
    assert any_recorder.book.ends() == {"LangGraph": "ok", "fast": "ok", "slow": "ok"}


def test_ctrl_c_in_a_node_ends_its_run_and_the_graphs(any_recorder):
    def work(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        line({"work": work}).invoke({"log": []}, {"callbacks": [any_recorder]})
    assert any_recorder.book.ends() == {"LangGraph": KeyboardInterrupt, "work": KeyboardInterrupt}


def test_a_node_whose_input_cannot_be_made_has_no_run(face, recorder):
    @dataclass
    class Needs:
        answer: str

    def work(state: Needs):
        return None

    with pytest.raises(Exception, match="answer"):
        face.invoke(line({"work": work}), {"log": []}, {"callbacks": [recorder]})
    assert list(recorder.book.ends()) == ["LangGraph"]


def test_a_handler_that_is_cancelled_does_not_hold_the_node_up():
    finished = threading.Event()

    class Stuck(AsyncCallbackHandler):
        def __init__(self):
            self.begun = asyncio.Event()

        async def on_chain_start(self, *args, name, **_):
            if name == "work":
                self.begun.set()
                await asyncio.Event().wait()

    async def main():
        stuck = Stuck()
        graph = line({"work": lambda state: finished.set()})
        running = asyncio.create_task(graph.ainvoke({"log": []}, {"callbacks": [stuck]}))
        await stuck.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert finished.wait(30)


def test_a_node_that_outlives_its_event_loop_tells_nobody():
    async def told():
        raise AssertionError

    bridge = Bridge("graph", {}, {"configurable": {}}, lambda outcome: outcome)
    bridge._loop = asyncio.new_event_loop()
    bridge._loop.close()
    assert bridge.wait(told()) is None
