"""Nodes and states that tests of the graph API share, beside those of `small_graphs`."""

import asyncio
from typing import TypedDict

from durable_graph import StateGraph
from tests.behaviour.small_graphs import Log


class Number(TypedDict, total=False):
    """A state with two plain keys."""

    x: int
    y: int


def says(*words):
    """A node that adds words to the log."""
    return lambda state: {"log": list(words)}


def both(node):
    """The node as a sync and as an async function, for parametrize."""

    async def asynchronous(*args, **keywords):
        await asyncio.sleep(0)
        return node(*args, **keywords)

    return node, asynchronous


async def until(condition):
    """Wait, without holding the event loop, for something that OS threads or other runs bring about."""
    while not condition():  # noqa: ASYNC110 - it comes from outside of this loop
        await asyncio.sleep(0.001)


def builder(*names):
    """Nodes that say their names, without edges."""
    made = StateGraph(Log)
    for name in names:
        made.add_node(name, says(name))
    return made


class Odd(Exception):
    """An error of the user's own."""
