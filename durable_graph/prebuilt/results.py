"""From what a tool returned to what a node can return: tool messages and Commands."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import InvalidUpdateError, ParentCommand, UnserializableValueError
from durable_graph.prebuilt.families import calls_of, is_tool_message
from durable_graph.types import Command, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Answer", "as_text", "from_below"]


class Answer:
    """Makes the answer to one call.

    call: the call.   name: the tool's.   family: the class of tool messages.   with_artifact: the tool returns pairs.
    root: the state is a list of messages.   key: where the messages are, otherwise.
    """

    __slots__ = ("call", "family", "key", "name", "root", "with_artifact")

    def __init__(
        self, call: Any, name: str, family: Any, *, with_artifact: bool = False, root: bool = False, key: str
    ) -> None:
        self.call = call
        self.name = name
        self.family = family
        self.with_artifact = with_artifact
        self.root = root
        self.key = key

    def message(self, content: Any, *, artifact: Any = None, error: bool = False) -> Any:
        """A tool message."""
        given = {"name": self.name, "tool_call_id": self.call.get("id") or "", "status": _status(error=error)}
        if artifact is not None:
            given["artifact"] = artifact
        return self.family(content=content, **given)

    def of(self, returned: Any) -> list[Any]:
        """Tool messages and Commands of what the tool returned: among them exactly one answer to the call.

        Raises:
            InvalidUpdateError: there is none, or more than one, or the tool was to return (content, artifact).
            UnserializableValueError: a model cannot read it.
        """
        if is_tool_message(returned):
            return [self._addressed(self._fitted(returned))]
        if isinstance(returned, Command):
            return [self._answered(cast("Command[Any]", returned))]
        if isinstance(returned, list) and any(_speaks(one) for one in cast("list[Any]", returned)):
            return self._several(cast("list[Any]", returned))
        if not self.with_artifact:
            return [self.message(as_text(returned, self.name))]
        if _is_pair(returned):
            content, artifact = cast("tuple[Any, Any]", returned)
            return [self.message(as_text(content, self.name), artifact=artifact)]
        kind = type(cast("object", returned)).__name__
        what = f"tool {self.name!r} has response_format='content_and_artifact' and returned {kind}"
        raise InvalidUpdateError(what, cure="Return a tuple (content, artifact).")

    def _fitted(self, message: Any) -> Any:
        """A tool message that the tool made, with what it left out."""
        changes: dict[str, Any] = {}
        if not message.tool_call_id:
            changes["tool_call_id"] = self.call.get("id") or ""
        if not message.name:
            changes["name"] = self.name
        return message.model_copy(update=changes) if changes else message

    def _addressed(self, message: Any) -> Any:
        """The answer to another call, from a wrapper that keeps answers, as the answer to this one. Its id is the other
        one's in the history, where it would be replaced.
        """
        key = self.call.get("id") or ""
        return message if message.tool_call_id == key else message.model_copy(update={"tool_call_id": key, "id": None})

    def _several(self, returned: list[Any]) -> list[Any]:
        found: list[Any] = []
        for one in returned:
            if is_tool_message(one):
                found.append(self._fitted(one))
            elif isinstance(one, Command):
                found.append(cast("Command[Any]", one))
            else:
                what = f"tool {self.name!r} returned a list with a {type(one).__name__} among messages and Commands"
                raise InvalidUpdateError(what, cure="Return tool messages and Commands, or plain content.")
        answers = sum(self._count(one) for one in found)
        if answers == 1:
            return found
        if answers == 0 and all(isinstance(one, Command) for one in found):
            return [self._answered(found[0]), *found[1:]]
        what = f"tool {self.name!r} returned {answers} answers to call {self.call.get('id')!r}, expected one"
        raise InvalidUpdateError(what, cure="Return one ToolMessage with this tool_call_id, alone or in a Command.")

    def _count(self, one: Any) -> int:
        """How many answers to the call there are in a message or Command."""
        messages = [one] if is_tool_message(one) else self._messages(one.update)
        return sum(1 for message in messages if is_tool_message(message) and message.tool_call_id == self.call["id"])

    def _messages(self, update: Any) -> list[Any]:
        """The messages in an update."""
        if update is None:
            return []
        if isinstance(update, dict):
            found: Any = cast("dict[str, Any]", update).get(self.key, ())
        elif isinstance(update, list | tuple):
            several: list[Any] = list(cast("Sequence[Any]", update))
            pairs: Any = [pair for pair in several if isinstance(pair, tuple)]
            found = dict(pairs).get(self.key, ()) if pairs else several
        else:
            found = getattr(update, self.key, ())
        return list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else [found]

    def _answered(self, command: Command[Any]) -> Command[Any]:
        """A Command that holds an answer to the call: its own, or one that says what happens. One for a graph above
        needs none, unless it takes the call along.
        """
        if self._count(command):
            return command
        if command.graph is not None:
            ids = [call.get("id") for one in self._messages(command.update) for call in calls_of(one)]
            if self.call.get("id") not in ids:
                return command
        message = self.message(_said(command))
        update: Any = command.update
        if self.root and not isinstance(update, dict):
            return replace(command, update=[*self._messages(update), message])
        if update is None:
            return replace(command, update={self.key: [message]})
        if isinstance(update, dict):
            known = cast("dict[str, Any]", update)
            return replace(command, update={**known, self.key: [*self._messages(known), message]})
        if isinstance(update, list | tuple):
            return replace(command, update=[*cast("list[Any]", update), (self.key, [message])])
        what = f"tool {self.name!r} returned a Command without an answer to call {self.call.get('id')!r}"
        raise InvalidUpdateError(what, cure="Put a ToolMessage with this tool_call_id into its update.")


_PAIR = 2


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == _PAIR


def _status(*, error: bool) -> str:
    return "error" if error else "success"


def _speaks(value: Any) -> bool:
    return isinstance(value, Command) or is_tool_message(value)


def _said(command: Command[Any]) -> str:
    goto: Any = command.goto
    several: Any = cast("Any", goto if isinstance(goto, list | tuple) else (goto,))
    names = [str(one.node if isinstance(one, Send) else one) for one in cast("list[Any]", several)]
    return f"Successfully transferred to {', '.join(names)}" if names else "Done"


def from_below(said: ParentCommand, graph: str) -> list[Command[Any]]:
    """What a graph inside the tool said to the graph around it: as if the tool had returned it."""
    here = (Command.PARENT, graph)
    return [replace(one, graph=None) if one.graph in here else one for one in said.commands]


def as_text(value: Any, tool: str) -> Any:
    """What a model reads: text and content blocks as they are, everything else as JSON.

    Raises:
        UnserializableValueError: it has no JSON form. Its repr would show an address in memory, if anything.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_block(one) for one in cast("list[Any]", value)):
        return cast("Any", value)
    if isinstance(value, tuple) and value and all(isinstance(one, dict) and _is_block(one) for one in value):  # pyright: ignore[reportUnknownVariableType] - tools return anything
        return list(cast("tuple[Any, ...]", value))
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        from pydantic_core import PydanticSerializationError, to_json

        try:
            return to_json(value).decode("utf-8")
        except PydanticSerializationError as error:
            what = f"tool {tool!r} returned a {type(cast('object', value)).__name__} that a model cannot read: {error}"
            raise UnserializableValueError(what, cure="Return text, or what JSON can say.") from error


def _is_block(value: Any) -> bool:
    """A text, or a dict that says what kind of content it is."""
    kinds = ("text", "image", "image_url", "audio", "video", "file", "json", "search_result", "document", "input_audio")
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get("type") in kinds
    return False
