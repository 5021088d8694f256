"""`add_messages`: how a list of messages takes an update."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, overload
from uuid import uuid4

from durable_graph.errors import InvalidConfigError, InvalidUpdateError
from durable_graph.messages.coercion import as_list, family_among, to_message, without_chunks
from durable_graph.messages.families import default_family, family_of, family_of_hint
from durable_graph.messages.known_ids import KNOWN_IDS
from durable_graph.messages.models import REMOVE_ALL_MESSAGES
from durable_graph.messages.openai_form import with_openai_content
from durable_graph.types import MISSING, Overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from durable_graph.messages.families import Family

__all__ = ["AddMessages", "Format", "add_messages"]

Format: TypeAlias = Literal["langchain-openai"]

_type_of: Callable[[object], type[Any]] = cast("Any", type)  # the class of the user's value is any class

_OVERWRITE: Final = "__overwrite__"
"""An `Overwrite` in JSON is a dict with this one key."""


class AddMessages:
    """The reducer. There is one object for each format, so that two schemas that use it agree.

        class State(TypedDict):
            messages: Annotated[list[AnyMessage], add_messages]

    A message with the id of one that is there replaces it in its place; others are put behind. A `RemoveMessage`
    removes one, or with `REMOVE_ALL_MESSAGES` all before it; a message that is removed and written again in one
    update stays. Messages without an id get one. Neither argument is changed.

    Either side may be a list, or a single message, str, pair or dict. What is no message yet becomes one of the family
    of those in `left`, else in `right`, else LangChain's where that is loaded, else ours.
    """

    __slots__ = ("__name__", "_format")

    def __init__(self, format: Format | None = None) -> None:
        self.__name__ = "add_messages"
        self._format: Format | None = format

    def __repr__(self) -> str:
        return "add_messages" if self._format is None else f"add_messages(format={self._format!r})"

    @overload
    def __call__(self, left: Any, right: Any, *, format: Format | None = None) -> list[Any]: ...
    @overload
    def __call__(self, *, format: Format | None = None) -> AddMessages: ...
    def __call__(self, left: Any = MISSING, right: Any = MISSING, *, format: Format | None = None) -> Any:
        """Give the messages of `left` after the update `right`, in a new list. Without both: a reducer with `format`.

        format: "langchain-openai" turns the content of each message into OpenAI's form.

        Raises:
            InvalidUpdateError: one side is missing, something is no message, or an id to be removed is not there.
            InvalidConfigError: an unknown format.
        """
        chosen = _REDUCERS.get(format)
        if chosen is None:
            what = f"add_messages does not know the format {format!r}."
            raise InvalidConfigError(what, cure='Leave it out, or write format="langchain-openai".')
        if left is MISSING and right is MISSING:
            return chosen
        if left is None or right is None or left is MISSING or right is MISSING:
            side = "left" if left is None or left is MISSING else "right"
            what = f"add_messages got no messages on the {side} side."
            raise InvalidUpdateError(what, cure="Pass both lists; an empty list for no messages.")
        return _merged(left, right, format or self._format)

    def appended(self, value: Any, writes: Sequence[Any]) -> list[Any] | None:
        """What these updates put behind `value`; None when they do anything else (see `channels.reduced`).

        Only looks at what was written: updates must have gone through `prepare`, which the engine sees to.
        """
        added: list[Any] = []
        ids: set[str] = set()
        for write in writes:
            if type(write) is not list:
                return None
            message: Any
            for message in cast("list[Any]", write):
                if not _is_ready(message, self._format) or message.id in ids or message.type == "remove":
                    return None
                ids.add(message.id)
                added.append(message)
        if value is MISSING or not value or ids.isdisjoint(KNOWN_IDS.of(value)):
            return added
        return None

    def prepare(self, write: Any, value: Any = MISSING) -> Any:
        """See `prepare_for`; for a list of no declared type."""
        return _prepared(write, value, None, default_family(), self._format)

    def prepare_for(self, hint: Any = None, messages: Family | None = None) -> Callable[[Any, Any], Any]:
        """Give the function `(write, value) -> write` that readies an update before anything is stored.

        It makes messages of what was written, gives each an id, once, and a list of a single one. So a run that
        goes on after a crash, and every branch, sees the same ids. `value`: what the key holds, for its family.

        hint: the declared type of the key, whose family new messages get.   messages: a family that overrides it.
        """
        return partial(
            _prepare_as,
            family=messages or family_of_hint(hint),
            default=default_family(),
            format=self._format,
        )


def _prepare_as(write: Any, value: Any, *, family: Family | None, default: Family, format: Format | None) -> Any:
    return _prepared(write, value, family, default, format)


def _prepared(write: Any, value: Any, family: Family | None, default: Family, format: Format | None) -> Any:
    whole = _overwriting(write)
    if whole is not MISSING:
        return Overwrite(_merged([], _prepared(whole, value, family, default, format), format))
    given = as_list(write)
    if given is write and type(write) is list and all(_is_ready(message, format) for message in given):
        return given
    if family is None and isinstance(value, list):
        family = family_among(cast("list[Any]", value))
    return _ready(given, family or family_among(given) or default, format)


def _overwriting(write: Any) -> Any:
    """What an `Overwrite` puts in the place of everything; MISSING for any other update."""
    if isinstance(write, Overwrite):
        return write.value
    if isinstance(write, dict):
        told = cast("dict[str, Any]", write)
        return told[_OVERWRITE] if told.keys() == {_OVERWRITE} else MISSING
    return MISSING


def _is_ready(message: Any, format: Format | None) -> bool:
    if family_of(_type_of(message)) is None or message.id is None or message.type.endswith("Chunk"):
        return False
    return format is None or with_openai_content(message) is message


def _ready(given: Iterable[Any], family: Family | None, format: Format | None) -> list[Any]:
    """Messages with ids, whole ones, in the wanted form."""
    ready: list[Any] = []
    for value in given:
        message = value if _is_ready(value, None) else without_chunks(to_message(value, family))
        if message.id is None:
            message = message.model_copy(update={"id": uuid4().hex})
        if format is not None:
            message = with_openai_content(message)
        ready.append(message)
    return ready


def _merged(left: Any, right: Any, format: Format | None) -> list[Any]:
    before, after = as_list(left), as_list(right)
    family = family_among(before) or family_among(after)
    update = _ready(after, family, format)
    cut = max((at for at, message in enumerate(update) if _removes_all(message)), default=None)
    merged = _ready(before, family, format) if cut is None else []
    places = {message.id: place for place, message in enumerate(merged)}
    removed: set[str] = set()
    for message in update if cut is None else update[cut + 1 :]:
        key: str = message.id
        place = places.get(key)
        if message.type == "remove":
            if place is None:
                what = f"A RemoveMessage names the id {key!r}, and no message has it."
                raise InvalidUpdateError(what, cure="Remove messages by the ids they have in the state.")
            removed.add(key)
        elif place is None:
            places[key] = len(merged)
            merged.append(message)
        else:
            merged[place] = message
            removed.discard(key)
    return [message for message in merged if message.id not in removed] if removed else merged


def _removes_all(message: Any) -> bool:
    return message.type == "remove" and message.id == REMOVE_ALL_MESSAGES


add_messages: Final = AddMessages()
"""The reducer of a list of messages; see `AddMessages`."""

_REDUCERS: Final[dict[str | None, AddMessages]] = {
    None: add_messages,
    "langchain-openai": AddMessages("langchain-openai"),
}
