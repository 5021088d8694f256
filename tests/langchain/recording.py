"""Callback handlers that remember what they are told."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler


@dataclass
class Seen:
    """One run. `end` is "ok", an exception, or None while it is open."""

    name: str
    parent: UUID | None
    tags: list[str]
    metadata: dict[str, Any]
    inputs: Any
    end: Any = None
    outputs: Any = None
    tokens: list[str] = field(default_factory=list)


class Book:
    """The runs by id, in the order in which they began."""

    def __init__(self):
        self.runs: dict[UUID, Seen] = {}
        self.lock = threading.Lock()

    def began(self, run_id, name, parent, tags, metadata, inputs):
        with self.lock:
            assert run_id not in self.runs
            self.runs[run_id] = Seen(name, parent, tags or [], metadata or {}, inputs)

    def ended(self, run_id, end, outputs=None):
        with self.lock:
            assert self.runs[run_id].end is None, "a run ends once"
            self.runs[run_id].end, self.runs[run_id].outputs = end, outputs

    def named(self, name):
        """The runs of this name."""
        return [seen for seen in self.runs.values() if seen.name == name]

    def one(self, name):
        """The only run of this name."""
        (seen,) = self.named(name)
        return seen

    def path(self, name):
        """The names from the root to the only run of this name."""
        seen = self.one(name)
        names = [seen.name]
        while seen.parent is not None:
            seen = self.runs[seen.parent]
            names.insert(0, seen.name)
        return names

    def ends(self):
        """How each run ended: name -> "ok" or the exception's type."""
        return {s.name: s.end if isinstance(s.end, str) else type(s.end) for s in self.runs.values()}


class Recorder(BaseCallbackHandler):
    """A sync handler."""

    def __init__(self):
        self.book = Book()

    def on_chain_start(
        self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, metadata=None, name=None, **_
    ):
        self.book.began(run_id, name, parent_run_id, tags, metadata, inputs)

    def on_chain_end(self, outputs, *, run_id, **_):
        self.book.ended(run_id, "ok", outputs)

    def on_chain_error(self, error, *, run_id, **_):
        self.book.ended(run_id, error)

    def on_chat_model_start(
        self, serialized, messages, *, run_id, parent_run_id=None, tags=None, metadata=None, name=None, **_
    ):
        self.book.began(run_id, name or serialized["name"], parent_run_id, tags, metadata, messages)

    def on_llm_new_token(self, token, *, run_id, **_):
        self.book.runs[run_id].tokens.append(token)

    def on_llm_end(self, response, *, run_id, **_):
        self.book.ended(run_id, "ok", response)


class AsyncRecorder(AsyncCallbackHandler):
    """An async handler. `loops` are the event loops that it was called on."""

    def __init__(self):
        self.book = Book()
        self.loops = set()

    async def on_chain_start(
        self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, metadata=None, name=None, **_
    ):
        self.loops.add(asyncio.get_running_loop())
        self.book.began(run_id, name, parent_run_id, tags, metadata, inputs)

    async def on_chain_end(self, outputs, *, run_id, **_):
        self.loops.add(asyncio.get_running_loop())
        self.book.ended(run_id, "ok", outputs)

    async def on_chain_error(self, error, *, run_id, **_):
        self.loops.add(asyncio.get_running_loop())
        self.book.ended(run_id, error)

    async def on_chat_model_start(
        self, serialized, messages, *, run_id, parent_run_id=None, tags=None, metadata=None, name=None, **_
    ):
        self.book.began(run_id, name or serialized["name"], parent_run_id, tags, metadata, messages)

    async def on_llm_new_token(self, token, *, run_id, **_):
        self.book.runs[run_id].tokens.append(token)

    async def on_llm_end(self, response, *, run_id, **_):
        self.book.ended(run_id, "ok", response)
