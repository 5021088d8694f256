"""What a model is told about tools."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from durable_graph.errors import UsageError
from durable_graph.messages import AIMessage, HumanMessage
from durable_graph.models import tool_choice_of, tool_schema, usage_of


class Args(BaseModel):
    """Look for a title."""

    title: str = Field(description="what to look for")


class Tool:
    name = "search"
    description = "Look."
    args_schema = Args


class WithInjected(Tool):
    tool_call_schema = Args
    args_schema = int  # with what is injected; not asked


def search(city: Annotated[str, Field(description="a city")], days: int = 3, *, runtime=None):
    """Look for weather."""


def parameters(tool):
    return tool_schema(tool)["function"]["parameters"]


def test_a_function_is_told_by_its_signature_and_docstring():
    told = tool_schema(search)["function"]
    assert (told["name"], told["description"]) == ("search", "Look for weather.")
    assert told["parameters"]["properties"] == {
        "city": {"type": "string", "description": "a city"},
        "days": {"type": "integer", "default": 3},
    }
    assert told["parameters"]["required"] == ["city"]


@pytest.mark.parametrize("tool", [Tool(), WithInjected(), Args], ids=["args_schema", "tool_call_schema", "class"])
def test_objects_and_classes_are_told_by_their_schema(tool):
    assert parameters(tool)["properties"] == {"title": {"type": "string", "description": "what to look for"}}


@pytest.mark.parametrize(
    "tool",
    [{"type": "function", "function": {"name": "a"}}, {"type": "web_search"}, {"name": "a", "input_schema": {}}],
    ids=str,
)
def test_dicts_are_passed_unchanged(tool):
    assert tool_schema(tool) is tool


def test_a_bare_function_dict_is_wrapped():
    tool = {"name": "a", "parameters": {"type": "object"}}
    assert tool_schema(tool) == {"type": "function", "function": tool}


def test_what_is_no_tool_is_refused():
    with pytest.raises(UsageError, match="7 is no tool"):
        tool_schema(7)


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, None),
        ("auto", "auto"),
        ("any", "required"),
        (True, "required"),
        (False, "none"),
        ("search", {"name": "search"}),
        ({"type": "function", "function": {"name": "search"}}, {"name": "search"}),
        ({"type": "any"}, "required"),
    ],
    ids=str,
)
def test_choices_are_read_in_all_forms(choice, read):
    assert tool_choice_of(choice) == read


def test_usage_is_summed_over_answers_once_for_each():
    def answer(id, **details):
        usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, **details}
        return AIMessage("a", id=id, usage_metadata=usage)

    first = answer("1", input_token_details={"cache_read": 5})
    messages = [HumanMessage("x"), first, first, answer("2", input_token_details={"cache_read": 1}), AIMessage("b")]
    total = {"input_tokens": 2, "output_tokens": 4, "total_tokens": 6, "input_token_details": {"cache_read": 6}}
    assert usage_of(messages) == total == usage_of({"messages": messages})
    assert usage_of([]) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
