"""Runs whose event loop was closed before they ended: nobody finds their thread busy afterwards."""

import asyncio
import gc

import pytest

from durable_graph import END, START, StateGraph
from tests.behaviour.small_graphs import Log, thread

CONFIG = thread()


def counting(backend, waits=None):
    async def step(state):
        if waits is not None and len(state["log"]) == 2:
            waits.set()
            await asyncio.Event().wait()
        return {"log": [len(state["log"])]}

    builder = StateGraph(Log)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if len(state["log"]) < 4 else END)
    return builder.compile(checkpointer=backend.reopen())


def leave_a_stream(backend):
    async def main():
        stream = counting(backend).astream({"log": [0]}, CONFIG)
        await anext(stream)
        return stream

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(main())
    loop.close()
    del stream


def leave_a_call(backend):
    async def main():
        waits = asyncio.Event()
        task = asyncio.ensure_future(counting(backend, waits).ainvoke({"log": [0]}, CONFIG))
        await waits.wait()
        task._log_destroy_pending = False  # asyncio would report that nobody ended it, which is what is wanted here

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("leave", [leave_a_stream, leave_a_call])
def test_a_run_that_a_closed_loop_left_behind_can_be_resumed(face, backend, leave):
    backend.make()
    leave(backend)
    gc.collect()
    assert face.invoke(counting(backend), None, CONFIG)["log"] == [0, 1, 2, 3]
