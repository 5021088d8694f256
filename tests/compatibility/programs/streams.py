"""Under asyncio: what nodes write is streamed, and what they say of their progress.

Prints:

    ('custom', 'half way')
    ('updates', {'work': {'done': 1}})
    ('updates', {'check': {'ok': True}})
    {'done': 1, 'ok': True}
"""

# ruff: noqa: T201 - a program talks to a person

import asyncio
import tempfile
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    done: int
    ok: bool


async def work(state: State):
    get_stream_writer()("half way")
    await asyncio.sleep(0)
    return {"done": 1}


async def check(state: State):
    return {"ok": state["done"] == 1}


async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(str(Path(folder, "runs.db"))) as saver:
            graph = (
                StateGraph(State)
                .add_node(work)
                .add_node(check)
                .add_edge(START, "work")
                .add_edge("work", "check")
                .add_edge("check", END)
                .compile(checkpointer=saver)
            )
            config = {"configurable": {"thread_id": "t"}}
            async for part in graph.astream({}, config, stream_mode=["updates", "custom"]):
                print(part)
            print((await graph.aget_state(config)).values)


asyncio.run(main())
