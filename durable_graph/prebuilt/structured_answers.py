"""What becomes of an answer that was to be structured: the value, or what the model is told for another try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_graph.errors import shortened
from durable_graph.messages.content import text_of
from durable_graph.prebuilt.families import calls_of, message_like
from durable_graph.prebuilt.structured_output import (
    MultipleStructuredOutputsError,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.prebuilt.structured_output import OutputSchema, ProviderStrategy

__all__ = ["StructuredAnswer", "asks_again", "read_answer"]

_MARK: Final = "structured_output_failed"
"""In `additional_kwargs` of what the model is told when its answer did not fit."""


class StructuredAnswer(NamedTuple):
    """The value that was asked for, None where there is none yet, and messages that follow the model's."""

    value: Any
    messages: list[Any]


def asks_again(message: Any) -> bool:
    """Whether a message tells the model that its answer did not fit."""
    more: dict[str, Any] = getattr(message, "additional_kwargs", None) or {}
    return bool(more.get(_MARK))


def read_answer(
    strategy: ToolStrategy[Any] | ProviderStrategy[Any], message: Any, before: Sequence[Any]
) -> StructuredAnswer:
    """Read what a model answered. before: the history it answered to, which tells how often it failed.

    Raises:
        StructuredOutputError: it does not fit, and the strategy allows no other try.
    """
    if isinstance(strategy, ToolStrategy):
        return _of_calls(strategy, message, before)
    if calls_of(message):
        return StructuredAnswer(None, [])
    try:
        return StructuredAnswer(strategy.read(text_of(message.content)), [])
    except ValueError as error:
        failed = _invalid(strategy.output, message, error)
        _check_tries(strategy.max_retries, failed, before)
        return StructuredAnswer(None, [_nudge(message, f"Error: {failed.what}. Give it again.")])


def _of_calls(strategy: ToolStrategy[Any], message: Any, before: Sequence[Any]) -> StructuredAnswer:
    schemas = {one.name: one for one in strategy.schemas}
    calls = [call for call in calls_of(message) if call["name"] in schemas]
    if not calls:
        if calls_of(message):
            return StructuredAnswer(None, [])
        return StructuredAnswer(None, [_nudge(message, _explained(strategy, _none(schemas, message), before))])
    if len(calls) > 1:
        text = _explained(strategy, _several(calls, message), before)
        return StructuredAnswer(None, [_result(message, call, text, failed=True) for call in calls])
    [call] = calls
    try:
        value = schemas[call["name"]].read(call["args"])
    except ValueError as error:
        text = _explained(strategy, _invalid(schemas[call["name"]], message, error), before)
        return StructuredAnswer(None, [_result(message, call, text, failed=True)])
    return StructuredAnswer(value, [_result(message, call, strategy.said_of(value), failed=False)])


# --- failures --------------------------------------------------------------------------------------------------------


def _invalid(schema: OutputSchema, message: Any, error: ValueError) -> StructuredOutputError:
    failed = StructuredOutputValidationError(f"the answer does not fit {schema.name}: {error}")
    failed.tool_name, failed.ai_message, failed.__cause__ = schema.name, message, error
    return failed


def _none(schemas: dict[str, OutputSchema], message: Any) -> StructuredOutputError:
    names = " or ".join(schemas)
    failed = StructuredOutputValidationError(f"the answer is text, and was to be a call of {names}")
    failed.tool_name, failed.ai_message = names, message
    return failed


def _several(calls: list[dict[str, Any]], message: Any) -> StructuredOutputError:
    names = [call["name"] for call in calls]
    failed = MultipleStructuredOutputsError(f"the answer calls {', '.join(names)}, and one was asked for")
    failed.tool_names, failed.ai_message = tuple(names), message
    return failed


def _explained(strategy: ToolStrategy[Any], failed: StructuredOutputError, before: Sequence[Any]) -> str:
    text = strategy.explained(failed)
    if text is None:
        raise failed
    _check_tries(strategy.max_retries, failed, before)
    return text


def _check_tries(allowed: int, failed: StructuredOutputError, before: Sequence[Any]) -> None:
    """Count the answers that failed since a human spoke; several results of one answer are one failure."""
    tries, counted = 0, False
    for message in reversed(before):
        if asks_again(message):
            tries += not counted
            counted = True
        elif message.type == "human":
            break
        else:
            counted = False
    if tries >= allowed:
        times = f"{tries + 1} times" if tries else "once"
        failed.what = f"the model failed {times} to give a structured answer; the last time {failed.what}"
        failed.args = (failed.what,)
        failed.add_note(f"Its answer: {shortened(failed.ai_message, 500)}")
        raise failed


# --- messages --------------------------------------------------------------------------------------------------------


def _result(message: Any, call: dict[str, Any], text: str, *, failed: bool) -> Any:
    more: dict[str, Any] = {"status": "error", "additional_kwargs": {_MARK: True}} if failed else {}
    return message_like(message, "ToolMessage")(
        content=text, name=call["name"], tool_call_id=call.get("id") or "", **more
    )


def _nudge(message: Any, text: str) -> Any:
    return message_like(message, "HumanMessage")(content=text, additional_kwargs={_MARK: True})
