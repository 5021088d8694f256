"""`ValidationNode`: checks the arguments of tool calls, and calls nothing."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import InvalidGraphError, shortened
from durable_graph.prebuilt.families import tool_message_like
from durable_graph.prebuilt.foreign import as_tool
from durable_graph.prebuilt.tool_errors import unknown_tool
from durable_graph.prebuilt.tool_input import read_input
from durable_graph.runtime.context import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ValidationNode"]


def _default_format(error: Exception, call: dict[str, Any], schema: type[Any]) -> str:
    """What a model is told about arguments that do not fit."""
    del call, schema
    return f"{error!r}\n\nRespond after fixing all validation errors."


class ValidationNode:
    """Answers each call of the model's last message with its arguments as JSON, or with what is wrong with them.

    For extraction and for re-prompting: a message with `additional_kwargs["is_error"]` (and status "error") sends the
    graph back to the model.

    Args:
        schemas: pydantic models, tools, or functions; calls name them.
        format_error: `(error, call, schema) -> text` for the model.
        name, tags: of the node.
        messages_key: the key of the state with the messages; a list of messages is a state too.

    Raises:
        InvalidGraphError: a schema is none of these, or has no pydantic model.
    """

    def __init__(
        self,
        schemas: Sequence[Any],
        *,
        format_error: Callable[[Exception, dict[str, Any], type[Any]], str] | None = None,
        name: str = "validation",
        tags: Sequence[str] | None = None,
        messages_key: str = "messages",
    ) -> None:
        self.name = name
        self.tags = list(tags or ())
        self.messages_key = messages_key
        self._format = format_error or _default_format
        self.schemas_by_name: dict[str, type[Any]] = dict(_schema_of(one) for one in schemas)

    def get_name(self) -> str:
        """The name it goes by as a node."""
        return self.name

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Check the calls.

        Raises:
            InvalidValueError: the input has no message of a model.
        """
        del config
        asked = read_input(input, self.messages_key, CURRENT.get())
        family = tool_message_like(asked.message)
        answers = [self._checked(call, family) for call in asked.calls]
        return answers if asked.root else {self.messages_key: answers}

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Async `invoke`."""
        return self.invoke(input, config)

    def _checked(self, call: dict[str, Any], family: Any) -> Any:
        from pydantic import ValidationError

        given = {"name": call["name"], "tool_call_id": call.get("id") or ""}
        schema = self.schemas_by_name.get(call["name"])
        if schema is None:
            content = unknown_tool(call["name"], self.schemas_by_name)
        else:
            try:
                return family(content=schema.model_validate(call["args"]).model_dump_json(), **given)
            except ValidationError as error:
                content = self._format(error, call, schema)
        return family(content=content, status="error", additional_kwargs={"is_error": True}, **given)


def _schema_of(given: Any) -> tuple[str, type[Any]]:
    if inspect.isclass(given):
        schema: Any = cast("Any", given)
        name = schema.__name__
    else:
        made: Any = as_tool(given)
        if isinstance(made, dict):
            what = f"{shortened(cast('object', made))} is a provider's tool; its arguments cannot be checked"
            raise InvalidGraphError(what, cure="Pass pydantic models, tools or functions.")
        schema, name = getattr(getattr(made, "tool", made), "args_schema", None), made.name
    if not (isinstance(schema, type) and hasattr(schema, "model_validate")):
        what = f"{shortened(cast('object', given))} has no pydantic model that its arguments could be checked by"
        raise InvalidGraphError(what, cure="Pass pydantic models, tools or functions.")
    return name, schema
