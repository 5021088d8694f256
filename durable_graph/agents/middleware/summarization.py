"""`SummarizationMiddleware`: a long chat goes on with a summary of its beginning."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from typing_extensions import override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.errors import InvalidConfigError
from durable_graph.messages import (
    REMOVE_ALL_MESSAGES,
    RemoveMessage,
    count_tokens_approximately,
    get_buffer_string,
    trim_messages,
)
from durable_graph.messages.content import text_of
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.families import is_tool_message, message_like
from durable_graph.prebuilt.model_calls import chat_model, sent
from durable_graph.prebuilt.orphans import answer_orphans
from durable_graph.runtime.aio import acall
from durable_graph.runtime.blocking import call_here
from durable_graph.runtime.callables import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.runtime.context import Runtime

__all__ = ["ContextSize", "SummarizationMiddleware"]

ContextSize: TypeAlias = tuple[Literal["tokens", "messages", "fraction"], float]
"""So many tokens or messages, or this part of what the model can read."""

SUMMARY_PROMPT: Final = """\
The chat below is too long to go on with. It will be replaced by what you write now; everything that you leave out is
forgotten. Write down, as short as possible and without inventing anything:

- what the user wants, in their words where these matter
- what was decided and found out: names, numbers, ids, paths, quotes that may be needed again
- what was done already, and what tools gave
- what is still to be done

Give only that, no greeting and no comment.

The chat:
{messages}"""

_INTRODUCTION: Final = "Summary of the chat so far:\n\n"
_MARK: Final = {"lc_source": "summarization"}
"""In `additional_kwargs` of a summary, as in LangChain's."""

_CHARS_PER_TOKEN: Final = 4

_log = logging.getLogger("durable_graph.agents")


class _Parts(NamedTuple):
    """A chat that is to be shortened.

    system: system messages, which stay as they are.   old: what is to be summarized.   kept: what stays.
    """

    system: list[Any]
    old: list[Any]
    kept: list[Any]


class SummarizationMiddleware(AgentMiddleware[Any, Any]):
    """Before a turn of the model, a chat that grew too long is replaced by a summary and its newest messages.

        SummarizationMiddleware("openai:gpt-5-nano", trigger=("tokens", 50_000), keep=("messages", 20))

    An answer of the model and the results of its calls stay together. System messages are
    never summarized. A later summary takes the earlier one in. When the model fails, the chat is as it was.

    Args:
        model: writes the summaries: "provider:model", or a chat model. What it writes is not shown in streams.
        trigger: when: at ("tokens", n), ("messages", n) or ("fraction", part of what the model can read); a list: at
            any of them; None: never.
        keep: how much stays: ("messages", n), ("tokens", n) or ("fraction", part), and at least the newest message
            with what belongs to it.
        token_counter: a function of a list of messages, or an object with `get_num_tokens_from_messages`.
        summary_prompt: what the model is asked, with "{messages}" where the chat is to stand.
        trim_tokens_to_summarize: the model gets so many tokens of what is to be summarized, the newest, and an earlier
            summary. What is older is lost. None: it gets all.

    Raises:
        InvalidConfigError: an argument is wrong, or there is a "fraction" and the model's `profile` does not say how
            much it can read.
    """

    def __init__(
        self,
        model: Any,
        *,
        trigger: ContextSize | Sequence[ContextSize] | None = None,
        keep: ContextSize = ("messages", 20),
        token_counter: Any = count_tokens_approximately,
        summary_prompt: str = SUMMARY_PROMPT,
        trim_tokens_to_summarize: int | None = 4000,
    ) -> None:
        self.model = chat_model(model)
        self._body = Body(self.model)
        triggers: Any = [] if trigger is None else [trigger] if isinstance(trigger, tuple) else list(trigger)
        self.trigger = [self._size("trigger", one) for one in triggers]
        self.keep = self._size("keep", keep)
        self.token_counter: Callable[[list[Any]], int] = getattr(
            token_counter, "get_num_tokens_from_messages", token_counter
        )
        if "{messages}" not in summary_prompt:
            what = "summary_prompt does not say where the chat is to stand"
            raise InvalidConfigError(what, cure='Put "{messages}" there.')
        self.summary_prompt = summary_prompt
        self.trim_tokens_to_summarize = trim_tokens_to_summarize

    def _size(self, name: str, given: Any) -> tuple[str, float]:
        """A size in tokens or messages."""
        match given:
            case ("tokens" | "messages" as kind, int() | float() as size) if size > 0:
                return kind, size
            case ("fraction", int() | float() as part) if part > 0:
                profile: dict[str, Any] = getattr(self.model, "profile", None) or {}
                if (most := profile.get("max_input_tokens")) is not None:
                    return "tokens", most * part
                what = f"{name} is {given!r}, and the model's profile does not say how many tokens it can read"
                raise InvalidConfigError(what, cure="Use 'tokens', or a model with profile={'max_input_tokens': ...}.")
            case _:
                what = f"{name} is {given!r}, expected a pair: ('tokens', 4000), ('messages', 20) or ('fraction', 0.8)"
                raise InvalidConfigError(what)

    @override
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Summarize, where it is time."""
        parts = self._parts(state)
        return None if parts is None else self._update(parts, call_here(self._body, *self._asked(parts.old)))

    @override
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async `before_model`."""
        parts = self._parts(state)
        return None if parts is None else self._update(parts, await acall(self._body, *self._asked(parts.old)))

    def _parts(self, state: Any) -> _Parts | None:
        """What becomes of each message; None where nothing is to be done."""
        ours = self.token_counter is count_tokens_approximately  # and changes nothing in what it is given
        messages: list[Any] = peek(state, "messages") if ours else state["messages"]
        if not any(self._count(kind, messages) >= size for kind, size in self.trigger):
            return None
        messages = answer_orphans(messages)  # so that each result is right behind its call
        kind, size = self.keep
        count: Any = len if kind == "messages" else self.token_counter
        cut = len(messages) - len(trim_messages(messages, max_tokens=int(size), token_counter=count))
        if cut == len(messages):  # the newest message stays, however long it is
            cut = next((at for at in range(cut - 1, -1, -1) if not is_tool_message(messages[at])), 0)
        system = [one for one in messages[:cut] if one.type == "system"]
        old = [one for one in messages[:cut] if one.type != "system"]
        if not old or (len(old) == 1 and _is_summary(old[0])):
            return None
        return _Parts(system, old, messages[cut:])

    def _count(self, kind: str, messages: list[Any]) -> int:
        return len(messages) if kind == "messages" else self.token_counter(messages)

    def _asked(self, old: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """The arguments of the call of the model."""
        prompt = self.summary_prompt.replace("{messages}", self._transcript(old))
        told = sent(self.model, None, [message_like(old[-1], "HumanMessage")(content=prompt)])
        return (told,), {"config": {"tags": ["nostream"]}} if "config" in self._body.wants else None

    def _transcript(self, old: list[Any]) -> str:
        most = self.trim_tokens_to_summarize
        if most is None:
            return get_buffer_string(old)
        earlier = old[:1] if _is_summary(old[0]) else []
        rest, left = old[len(earlier) :], max(0, most - self.token_counter(earlier))
        newest = trim_messages(rest, max_tokens=left, token_counter=self.token_counter)
        if newest:
            return get_buffer_string([*earlier, *newest])
        end = get_buffer_string(rest[-1:])[-_CHARS_PER_TOKEN * max(left, 1) :]  # of one that is longer than all may be
        return "\n".join(filter(None, (get_buffer_string(earlier), end)))

    def _update(self, parts: _Parts, answer: Any) -> dict[str, Any] | None:
        text = text_of(answer.content).strip()
        if not text:
            _log.warning("the summary of %d messages is empty; they stay as they are", len(parts.old))
            return None
        human = message_like(parts.old[-1], "HumanMessage")
        summary = human(content=f"{_INTRODUCTION}{text}", additional_kwargs=dict(_MARK))
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *parts.system, summary, *parts.kept]}


def _is_summary(message: Any) -> bool:
    return bool(_MARK.items() <= (getattr(message, "additional_kwargs", None) or {}).items())
