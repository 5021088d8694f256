"""The index of a store: which texts of an item are embedded, and by what.

An embedding function takes a list of texts and gives a vector for each, directly or as an awaitable; or it is an
object with `embed_documents` and `embed_query` (LangChain's Embeddings, by duck typing), or their async twins. Every
form serves sync and async calls: which calls are made is said once (`Index._calls`), and two short drivers make them.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Required, TypeAlias, TypedDict, cast

from durable_graph.errors import EventLoopError, InvalidConfigError, shortened
from durable_graph.own_loop import OwnLoop
from durable_graph.stores.paths import parse_path, texts_at
from durable_graph.stores.scoring import BYTES_PER_NUMBER, pack

__all__ = ["EmbeddingFunction", "Embeds", "Index", "IndexConfig", "Vectors"]

EmbeddingFunction: TypeAlias = Callable[[list[str]], Any]
"""Texts to vectors (sequences of numbers), or to an awaitable of them."""


class Embeds(Protocol):
    """An object that embeds, such as LangChain's Embeddings. Async twins (`aembed_...`) are used when it has them."""

    def embed_documents(self, texts: list[str], /) -> Any:
        """A vector for each text."""

    def embed_query(self, text: str, /) -> Any:
        """The vector of a query."""


class IndexConfig(TypedDict, total=False):
    """How items of a store are embedded for semantic search.

    dims: numbers in a vector. embed: what makes vectors of texts. fields: paths to the texts of a value, each text
        with a vector of its own (default ["$"], the whole value as JSON).
    """

    dims: Required[int]
    embed: Required[EmbeddingFunction | Embeds]
    fields: Sequence[str]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors, as bytes, of texts that are stored and of queries."""

    documents: dict[str, bytes]
    queries: dict[str, bytes]


_EMBED_CURE: Final = (
    "Pass a function (texts) -> vectors, an async one, or an object with embed_documents and embed_query, "
    "such as LangChain's Embeddings."
)

_Call: TypeAlias = tuple[Callable[..., Any], Any]

# Not the one on which async nodes run (`runtime.private_loop`): these may call a store in a sync way, and wait for it.
_loop = OwnLoop("durable_graph-embed")


class Index:
    """A checked IndexConfig.

    Raises:
        InvalidConfigError: a key is missing or unknown, or a value wrong.
    """

    __slots__ = ("_embed", "_fields", "dims")

    def __init__(self, config: Any) -> None:
        if not isinstance(config, dict):
            raise InvalidConfigError(
                f"index {shortened(config)} is not a dict.", cure='Pass e.g. {"dims": 1536, "embed": embed}.'
            )
        given = cast("dict[str, Any]", config)
        if unknown := [name for name in given if name not in IndexConfig.__annotations__]:
            raise InvalidConfigError(
                f"index: unknown key {unknown[0]!r}; the keys are {', '.join(IndexConfig.__annotations__)}."
            )
        dims = given.get("dims")
        if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
            raise InvalidConfigError(
                f"index['dims'] is {shortened(dims)}; it is how many numbers a vector has.", cure="Pass e.g. 1536."
            )
        self.dims = dims
        self._embed = _checked_embed(given.get("embed"))
        self._fields = paths_of(given.get("fields", ("$",)), "index['fields']")

    def texts(self, value: dict[str, Any], index: Any) -> tuple[str, ...]:
        """The texts of a value that are embedded. `index` is that of a PutOp; each text occurs once.

        Raises:
            InvalidConfigError: `index` is neither None, False nor a list of paths.
        """
        if index is False:
            return ()
        paths = self._fields if index is None else paths_of(index, "index")
        return tuple(dict.fromkeys(text for path in paths for text in texts_at(value, path)))

    def embed(self, texts: Sequence[str], queries: Sequence[str]) -> Vectors:
        """The vectors of texts and queries.

        Raises:
            InvalidConfigError: the embedding function gave something else than one vector of `dims` numbers for each.
        """
        calls = self._calls(list(texts), list(queries), prefer="embed")
        answer: Any = None
        while True:
            try:
                function, argument = calls.send(answer)
            except StopIteration as done:
                return cast("Vectors", done.value)
            answer = function(argument)
            if inspect.isawaitable(answer):
                answer = _outcome(answer)

    async def aembed(self, texts: Sequence[str], queries: Sequence[str]) -> Vectors:
        """Async `embed`. Sync functions run in an OS thread, since they mostly wait for a service."""
        calls = self._calls(list(texts), list(queries), prefer="aembed")
        answer: Any = None
        while True:
            try:
                function, argument = calls.send(answer)
            except StopIteration as done:
                return cast("Vectors", done.value)
            answer = (function if _is_async(function) else _in_os_thread(function))(argument)
            while inspect.isawaitable(answer):  # twice for a sync function that gives an awaitable
                answer = await answer

    def _calls(self, texts: list[str], queries: list[str], *, prefer: str) -> Generator[_Call, Any, Vectors]:
        """The calls to make, in order; each is answered with what it gave."""
        many = self._method("documents", prefer) or self._embed
        one = self._method("query", prefer)
        documents: dict[str, bytes] = {}
        found: dict[str, bytes] = {}
        if texts:
            documents = self._packed(texts, (yield many, texts))
        if queries and one is None:
            found = self._packed(queries, (yield many, queries))
        for query in queries if one is not None else ():
            found |= self._packed([query], [(yield cast("_Call", (one, query)))])
        return Vectors(documents, found)

    def _method(self, what: str, prefer: str) -> Callable[..., Any] | None:
        """The method of an object that embeds; of its two faces the preferred one, when it has both."""
        other = "embed" if prefer == "aembed" else "aembed"
        return getattr(self._embed, f"{prefer}_{what}", None) or getattr(self._embed, f"{other}_{what}", None)

    def _packed(self, texts: list[str], vectors: Any) -> dict[str, bytes]:
        try:
            rows = [[float(number) for number in vector] for vector in vectors]
        except (TypeError, ValueError, OverflowError) as error:
            raise self._refused(f"gave {shortened(vectors)} for {len(texts)} texts: {error}") from error
        if len(rows) != len(texts):
            raise self._refused(f"gave {len(rows)} vectors for {len(texts)} texts")
        for text, row in zip(texts, rows, strict=True):
            if len(row) != self.dims:
                raise self._refused(f"gave {len(row)} numbers for {shortened(text)}; index['dims'] is {self.dims}")
            if not all(map(math.isfinite, row)):
                raise self._refused(f"gave a number that is not finite for {shortened(text)}")
        return {text: pack(row) for text, row in zip(texts, rows, strict=True)}

    def _refused(self, why: str) -> InvalidConfigError:
        name = getattr(self._embed, "__qualname__", type(self._embed).__qualname__)
        return InvalidConfigError(
            f"The embedding function {name} {why}. Nothing was stored.",
            cure="Let it give one sequence of index['dims'] finite numbers for each text.",
        )

    def check_stored(self, data: bytes, namespace: tuple[str, ...], key: str) -> None:
        """Refuse a stored vector that was made with other dimensions.

        Raises:
            InvalidConfigError: it was.
        """
        if len(data) != self.dims * BYTES_PER_NUMBER:
            raise InvalidConfigError(
                f"Item {key!r} of namespace {namespace!r} was embedded with {len(data) // BYTES_PER_NUMBER} "
                f"dimensions; this store's index has {self.dims}.",
                cure="Open the store with the index it was filled with, or put its items again.",
            )


def paths_of(given: Any, where: str) -> list[Any]:
    """The checked paths of a list.

    Raises:
        InvalidConfigError: no list of paths, or an empty one.
    """
    paths = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else ()
    if not paths:
        raise InvalidConfigError(
            f"{where} is {shortened(cast('object', given))}; it is a list of paths.",
            cure='Pass e.g. ["$"] or ["text", "tags[*]"].',
        )
    return [parse_path(path) for path in paths]


def _checked_embed(embed: Any) -> Any:
    if isinstance(embed, str):
        raise InvalidConfigError(
            f"index['embed'] is the name {embed!r}; names of models are LangChain's.",
            cure=f"Pass langchain.embeddings.init_embeddings({embed!r}).",
        )
    if not callable(embed) and not any(hasattr(embed, f"{face}_documents") for face in ("embed", "aembed")):
        raise InvalidConfigError(f"index['embed'] is {shortened(embed)}, which cannot embed.", cure=_EMBED_CURE)
    return embed


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - whether its __call__ is async, not whether it has one


def _outcome(answer: Awaitable[Any]) -> Any:
    """What an async embedding function gives, for a sync call.

    Raises:
        EventLoopError: that function makes a sync call to a store itself.
    """
    if not _loop.runs_here():
        return _loop.run(answer)
    if asyncio.iscoroutine(answer):
        answer.close()
    raise EventLoopError(
        "An async embedding function made a sync call to a store that would have to wait for it.",
        cure="Await the async twin there: await store.asearch(...).",
    )


def _in_os_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    def call(argument: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, argument)

    return call
