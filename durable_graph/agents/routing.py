"""Where an agent goes next: after a hook, after its model, after its tools. First match wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import InvalidUpdateError
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.families import calls_of
from durable_graph.prebuilt.structured_answers import asks_again
from durable_graph.prebuilt.tool_input import last_ai, names_run, pending_calls
from durable_graph.types import Command, Send

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["JUMPS", "Routes", "beside", "check_jump", "written"]

JUMPS: Final = ("model", "tools", "end")


@dataclass(frozen=True, slots=True)
class Routes:
    """The places that jumps and routes lead to.

    loop: where each turn of the model starts: the first `before_model`, or the model.   exit: the first `after_agent`,
    or END.   tools: the tools' node; None when there is none.   direct: the tools with `return_direct`.
    """

    loop: str
    exit: str
    tools: str | None
    direct: frozenset[str]

    def places(self, jumps: Collection[str]) -> list[str]:
        """The nodes that jumps lead to."""
        known = {"model": self.loop, "tools": self.tools, "end": self.exit}
        return [place for jump in jumps if (place := known[jump]) is not None]

    def jumped(self, state: Any, jumps: Collection[str] = JUMPS) -> Any:
        """Where the jump in a state leads, if it is one of these; to the tools with each pending call. None where there
        is no jump, and where nothing is pending: then the run goes its usual way.
        """
        jump = peek(state, "jump_to")
        if not jump or jump not in jumps:
            return None
        return self._sends(state) if jump == "tools" else self.places([jump])[0]

    def _sends(self, state: Any) -> list[Send] | None:
        calls = [] if self.tools is None else pending_calls(peek(state, "messages"))
        return [Send(cast("str", self.tools), call) for call in calls] or None

    def after_model(self, state: Any) -> Any:
        """Where to go when the model, and what follows it, are through."""
        if (found := self.jumped(state) or self._sends(state)) is not None:
            return found
        messages = peek(state, "messages")
        message = last_ai(messages)
        if messages and asks_again(messages[-1]):  # a text that was to be structured
            return self.loop
        if message is None or not (calls_of(message) or getattr(message, "invalid_tool_calls", None)):
            return self.exit
        return self.exit if state.get("structured_response") is not None else self.loop

    def after_tools(self, state: Any) -> str:
        """Where to go when a tool is through. Each call is a task of its own, and all find the same answer."""
        if state.get("structured_response") is not None:
            return self.exit
        ran = names_run(peek(state, "messages")) if self.direct else set[str]()
        return self.exit if ran and ran <= self.direct else self.loop


def check_jump(update: Any, hook: str, allowed: Collection[str]) -> Any:
    """What a hook returned, when it jumps only where it says.

    Raises:
        InvalidUpdateError: it jumps elsewhere, or a Command of it says where to go.
    """
    for one in cast("list[Any]", update) if isinstance(update, list) else [update]:
        if isinstance(one, Command) and one.goto and one.graph is None:
            what = f"hook {hook!r} returned a Command with goto; the edges behind it would be followed all the same"
            raise InvalidUpdateError(what, cure='Put "jump_to" into the update: "model", "tools" or "end".')
    for jump in written(update, "jump_to"):
        if jump is not None and jump not in allowed:
            said = f"which it does not declare (it declares {', '.join(allowed) or 'none'})"
            raise InvalidUpdateError(
                f"hook {hook!r} jumps to {jump!r}, {said}",
                cure=f'Put @hook_config(can_jump_to=["{jump}"]) above it, or can_jump_to=["{jump}"] into its '
                'decorator; the places are "model", "tools" and "end".',
            )
    return cast("Any", update)


def written(update: Any, key: str) -> list[Any]:
    """What an update writes to a key: a dict, pairs, a Command, or a list of them."""
    if isinstance(update, Command):
        return written(cast("Command[Any]", update).update, key)
    if isinstance(update, dict):
        told = cast("dict[str, Any]", update)
        return [told[key]] if key in told else []
    if isinstance(update, tuple):
        pair = cast("tuple[Any, ...]", update)
        return [pair[1]] if len(pair) == 2 and pair[0] == key else []  # noqa: PLR2004 - key and value
    return (
        [value for one in cast("list[Any]", update) for value in written(one, key)] if isinstance(update, list) else []
    )


def beside(update: Any, own: dict[str, Any]) -> Any:
    """What a hook returned, and `own` writes beside it, of keys that it does not write itself."""
    own = {key: value for key, value in own.items() if not written(update, key)}
    if not own:
        return update
    if update is None or isinstance(update, dict):
        return {**own, **(cast("dict[str, Any] | None", update) or {})}
    return [own, *(cast("list[Any]", update) if isinstance(update, list) else [update])]
