"""The two faces of a graph, behind one set of names: a test is written once and runs on both."""

import asyncio
from abc import ABC, abstractmethod


class Face(ABC):
    """How a test calls a graph. Streams and histories come back as lists."""

    name: str

    @abstractmethod
    def call(self, graph, method, *args, **kwargs):
        """The result of `graph.method(...)`, or of its async twin."""

    @abstractmethod
    def collect(self, graph, method, *args, **kwargs):
        """All that `graph.method(...)`, or its async twin, yields."""

    def invoke(self, graph, *args, **kwargs):
        return self.call(graph, "invoke", *args, **kwargs)

    def batch(self, graph, *args, **kwargs):
        return self.call(graph, "batch", *args, **kwargs)

    def stream(self, graph, *args, **kwargs):
        return self.collect(graph, "stream", *args, **kwargs)

    def get_state(self, graph, *args, **kwargs):
        return self.call(graph, "get_state", *args, **kwargs)

    def get_state_history(self, graph, *args, **kwargs):
        return self.collect(graph, "get_state_history", *args, **kwargs)

    def update_state(self, graph, *args, **kwargs):
        return self.call(graph, "update_state", *args, **kwargs)


class SyncFace(Face):
    name = "sync"

    def call(self, graph, method, *args, **kwargs):
        return getattr(graph, method)(*args, **kwargs)

    def collect(self, graph, method, *args, **kwargs):
        return list(getattr(graph, method)(*args, **kwargs))


class AsyncFace(Face):
    """Each call runs on an event loop of its own, as in a program that calls `asyncio.run` more than once."""

    name = "async"

    def call(self, graph, method, *args, **kwargs):
        async def main():
            return await getattr(graph, "a" + method)(*args, **kwargs)

        return asyncio.run(main())

    def collect(self, graph, method, *args, **kwargs):
        async def main():
            return [item async for item in getattr(graph, "a" + method)(*args, **kwargs)]

        return asyncio.run(main())


FACES = (SyncFace(), AsyncFace())
