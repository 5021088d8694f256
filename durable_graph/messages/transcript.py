"""What people do with a transcript: convert, filter, trim, count, write it down."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from durable_graph.errors import InvalidConfigError
from durable_graph.messages.coercion import as_list, family_among, to_message
from durable_graph.messages.content import text_of
from durable_graph.messages.openai_form import openai_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_graph.messages.families import Family

__all__ = [
    "convert_to_messages",
    "convert_to_openai_messages",
    "count_tokens_approximately",
    "filter_messages",
    "get_buffer_string",
    "trim_messages",
]

Kinds: TypeAlias = "str | type[Any] | Sequence[str | type[Any]]"
"""Types of messages: their `type` ("human"), their class, or several of these."""

TokenCounter: TypeAlias = Callable[[list[Any]], int]

_CHARS_PER_TOKEN: Final = 4.0
_TOKENS_PER_MESSAGE: Final = 3.0
_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def convert_to_messages(messages: Any, *, family: Family | None = "ours") -> list[Any]:
    """Make messages of what people write for them; those of either family stay as they are.

    family: what a str, a pair or a dict becomes; None: as those already there, else LangChain's where it is loaded.

    Raises:
        InvalidUpdateError: something cannot be a message.
    """
    given = as_list(messages)
    chosen = family or family_among(given)
    return [to_message(value, chosen) for value in given]


def convert_to_openai_messages(messages: Any, *, include_id: bool = False) -> Any:
    """Give messages as dicts in OpenAI's form; a single message as a single dict.

    Raises:
        ValueError: a RemoveMessage is among them.
    """
    dicts = [openai_dict(message, include_id=include_id) for message in convert_to_messages(messages)]
    several = as_list(messages) is messages
    return dicts if several else dicts[0]


def get_buffer_string(messages: Any, human_prefix: str = "Human", ai_prefix: str = "AI") -> str:
    """Write a transcript as text, a line for each message: "Human: hi"."""
    named = {"human": human_prefix, "ai": ai_prefix, "AIMessageChunk": ai_prefix, "system": "System", "tool": "Tool"}
    lines: list[str] = []
    for message in convert_to_messages(messages):
        line = f"{named.get(message.type, message.type)}: {text_of(message.content)}"
        calls = getattr(message, "tool_calls", None)
        lines.append(f"{line}{json.dumps(calls, ensure_ascii=False, default=str)}" if calls else line)
    return "\n".join(lines)


def count_tokens_approximately(
    messages: Any,
    *,
    chars_per_token: float = _CHARS_PER_TOKEN,
    extra_tokens_per_message: float = _TOKENS_PER_MESSAGE,
    count_name: bool = True,
) -> int:
    """Estimate the tokens of messages by their characters; good enough to decide when to trim.

    chars_per_token: characters that make one token.   extra_tokens_per_message: what each message costs beside.
    """
    tokens = 0.0
    for message in convert_to_messages(messages):
        content = message.content
        chars = len(content if isinstance(content, str) else repr(content)) + len(_ROLES.get(message.type, "user"))
        if (calls := getattr(message, "tool_calls", None)) and isinstance(content, str):
            chars += len(repr(calls))
        if message.type == "tool":
            chars += len(message.tool_call_id)
        if count_name and message.name:
            chars += len(message.name)
        tokens += math.ceil(chars / chars_per_token) + extra_tokens_per_message
    return math.ceil(tokens)


# --- filtering ---------------------------------------------------------------------------------------------------


def filter_messages(
    messages: Any,
    *,
    include_names: Sequence[str] = (),
    exclude_names: Sequence[str] = (),
    include_types: Kinds = (),
    exclude_types: Kinds = (),
    include_ids: Sequence[str] = (),
    exclude_ids: Sequence[str] = (),
    exclude_tool_calls: bool | Sequence[str] = False,
) -> list[Any]:
    """Give the messages that are wanted, in their order.

    One is kept when nothing excludes it and something includes it; without any `include_...` everything is included.

    exclude_tool_calls: True leaves out all calls: tool messages, and answers that call tools. A list of call ids
        leaves out these calls and their results; an answer of which no call is left goes too.
    """
    wants = bool(include_names or include_types or include_ids)
    kept: list[Any] = []
    for message in convert_to_messages(messages):
        excluded = message.name in exclude_names or message.id in exclude_ids or _is_one_of(message, exclude_types)
        included = message.name in include_names or message.id in include_ids or _is_one_of(message, include_types)
        if excluded or (wants and not included):
            continue
        rest = _without_calls(message, excluded=exclude_tool_calls)
        if rest is not None:
            kept.append(rest)
    return kept


def _without_calls(message: Any, *, excluded: bool | Sequence[str]) -> Any:
    """The message without these calls; None when nothing is left of it."""
    if excluded is False or not excluded:
        return message
    if message.type == "tool":
        return None if excluded is True or message.tool_call_id in excluded else message
    calls: list[Any] = getattr(message, "tool_calls", None) or []
    left = [] if excluded is True else [call for call in calls if call["id"] not in excluded]
    if len(left) == len(calls):
        return message
    if not left:
        return None
    content = message.content
    if isinstance(content, list):
        gone = {call["id"] for call in calls} - {call["id"] for call in left}
        content = [part for part in cast("list[Any]", content) if isinstance(part, str) or part.get("id") not in gone]
    return message.model_copy(update={"tool_calls": left, "content": content})


def _is_one_of(message: Any, kinds: Kinds) -> bool:
    several = (kinds,) if isinstance(kinds, str | type) else kinds
    return any(message.type == kind if isinstance(kind, str) else isinstance(message, kind) for kind in several)


# --- trimming ----------------------------------------------------------------------------------------------------


def trim_messages(
    messages: Any,
    *,
    max_tokens: int,
    token_counter: TokenCounter | Literal["approximate"] | Any = "approximate",  # noqa: S107 - no password: it counts
    strategy: Literal["first", "last"] = "last",
    include_system: bool = False,
    start_on: Kinds = (),
    end_on: Kinds = (),
) -> list[Any]:
    """Cut a transcript so that it has at most `max_tokens`, at its start (strategy "last") or its end ("first").

    Answers and the results of their calls are kept or cut together: a model refuses one without the other.

    token_counter: a function of a list of messages; `len` counts messages. An object with
        `get_num_tokens_from_messages`, such as a LangChain model, is asked.
    include_system: With "last": keep the system message that comes first.
    start_on: With "last": begin with a message of these types.   end_on: end with one.

    Raises:
        InvalidConfigError: an option does not go with the strategy.
    """
    if strategy not in ("first", "last"):
        raise InvalidConfigError(f"trim_messages has no strategy {strategy!r}.", cure='Use "first" or "last".')
    if strategy == "first" and (include_system or start_on):
        what = 'trim_messages takes include_system and start_on with strategy "last" only.'
        raise InvalidConfigError(what, cure="Leave them out.")
    given, count = convert_to_messages(messages), _counter(token_counter)
    head: list[Any] = []
    if include_system and given and given[0].type == "system":
        head, given = given[:1], given[1:]
    if end_on:
        while given and not _is_one_of(given[-1], end_on):
            given.pop()
    groups = _groups(given)
    if strategy == "first":
        kept = _longest(groups, lambda part: count(_flat(part)) <= max_tokens)
        return _ending_on(_flat(kept), end_on)
    groups.reverse()
    kept = _longest(groups, lambda part: count([*head, *_flat(reversed(part))]) <= max_tokens)
    while start_on and kept and not _is_one_of(kept[-1][0], start_on):
        kept.pop()
    return [*head, *_flat(reversed(kept))] if head and count(head) <= max_tokens else _flat(reversed(kept))


def _counter(given: Any) -> Callable[[list[Any]], int]:
    if given == "approximate":
        return count_tokens_approximately
    return getattr(given, "get_num_tokens_from_messages", given)


def _groups(messages: Sequence[Any]) -> list[list[Any]]:
    """What must stay together: an answer with calls and the tool messages behind it; any other message alone.

    Tool messages at the start, whose answer is not there, are left out.
    """
    groups: list[list[Any]] = []
    for message in messages:
        if message.type != "tool":
            groups.append([message])
        elif groups and getattr(groups[-1][0], "tool_calls", None):
            groups[-1].append(message)
    return groups


def _longest(groups: list[list[Any]], fits: Callable[[list[list[Any]]], bool]) -> list[list[Any]]:
    """The longest beginning that fits, found by halving: a counter may ask a model's tokenizer."""
    low, high = 0, len(groups)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(groups[:middle]):
            low = middle
        else:
            high = middle - 1
    return groups[:low]


def _flat(groups: Iterable[list[Any]]) -> list[Any]:
    return [message for group in groups for message in group]


def _ending_on(messages: list[Any], end_on: Kinds) -> list[Any]:
    while end_on and messages and not _is_one_of(messages[-1], end_on):
        messages.pop()
    return messages
