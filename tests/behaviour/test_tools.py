"""`@tool`: what the model is told, what the function gets, what comes back."""

import asyncio
import functools
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from durable_graph.errors import InvalidConfigError, InvalidGraphError, InvalidSchemaError, UnserializableValueError
from durable_graph.messages import ToolMessage
from durable_graph.prebuilt import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    InjectionError,
    ToolInvocationError,
    ToolRuntime,
    tool,
)
from durable_graph.types import Config


def call(name, key="1", /, **args):
    return {"name": name, "args": args, "id": key, "type": "tool_call"}


def use(face, made, *args):
    return face.call(made, "invoke", *args)


def test_signature_and_docstring_become_the_schema():
    @tool
    def weather(city: str, days: int = 1, unit: Annotated[str, "C or F"] = "C") -> str:
        """Look up the weather.

        Args:
            city: where it is,
                in English.
            days (int): how many days ahead.
        """

    assert weather.name == "weather"
    assert weather.description == "Look up the weather."
    assert weather.tool_call_schema["required"] == ["city"]
    assert {name: one.get("description") for name, one in weather.args.items()} == {
        "city": "where it is, in English.",
        "days": "how many days ahead.",
        "unit": "C or F",
    }
    assert weather.args["days"]["type"] == "integer"


def test_without_parsing_the_whole_docstring_is_the_description():
    @tool(parse_docstring=False)
    def weather(city: str) -> str:
        """Look it up.

        Args:
            city: where.
        """

    assert "Args:" in weather.description
    assert "description" not in weather.args["city"]


def test_name_and_description_can_be_given():
    assert tool("look_up", lambda x: x, description="returns", args_schema={"type": "object"}).name == "look_up"

    @tool("other", description="told")
    def weather(city: str) -> str:
        """Not told."""

    assert (weather.name, weather.description) == ("other", "told")


@pytest.mark.parametrize("kind", ["sync", "async", "partial", "method"])
def test_whatever_can_be_called_can_be_a_tool(face, kind):
    def add(a: int, b: int = 1) -> int:
        return a + b

    async def aadd(a: int, b: int = 1) -> int:
        await asyncio.sleep(0)
        return a + b

    class Adder:
        def add(self, a: int, b: int = 1) -> int:
            return a + b

    functions = {"sync": add, "async": aadd, "partial": functools.partial(add, b=1), "method": Adder().add}
    made = tool("add", functions[kind])
    assert use(face, made, {"a": "2"}) == 3
    assert use(face, made, call("add", a=2)) == ToolMessage("3", name="add", tool_call_id="1")
    assert ("b" in made.args) == (kind != "partial")


def test_injected_parameters_are_not_in_the_schema_and_never_come_from_the_model(face):
    @tool
    def spy(
        x: int,
        runtime,
        config: Config,
        state: Annotated[dict | None, InjectedState] = None,
        store: Annotated[object, InjectedStore()] = None,
        key: Annotated[str, InjectedToolCallId] = "",
        secret: Annotated[str, InjectedToolArg()] = "kept",  # noqa: S107 - no password, a word for the test
    ) -> str:
        return f"{x} {isinstance(runtime, ToolRuntime)} {sorted(config)} {state} {store} {key} {secret}"

    assert list(spy.args) == ["x"]
    lies = dict.fromkeys(("runtime", "config", "state", "store", "key", "secret"), "lie")
    assert use(face, spy, call("spy", "7", x=1, **lies)).content == "1 True [] None None 7 kept"


def test_a_tool_without_what_it_wants_of_the_engine_says_so(face):
    @tool
    def read(where: Annotated[object, InjectedStore]) -> str:
        return "never"

    with pytest.raises(InjectionError, match="the store, but the graph has none"):
        use(face, read, {})


def test_a_pydantic_model_serves_as_schema_and_its_injected_fields_stay_hidden(face):
    class Search(BaseModel):
        words: str = Field(min_length=2, description="what for")
        key: Annotated[str, InjectedToolCallId]

    @tool(args_schema=Search)
    def search(words: str, key: Annotated[str, InjectedToolCallId]) -> str:
        return f"{words} {key}"

    assert list(search.args) == ["words"]
    assert search.tool_call_schema["required"] == ["words"]
    assert use(face, search, call("search", "9", words="ab", key="lie")).content == "ab 9"
    with pytest.raises(ToolInvocationError, match="words: String should have at least 2 characters") as caught:
        use(face, search, call("search", "9", words="a", key="lie"))
    assert "key" not in caught.value.what


def test_nested_models_arrive_as_instances(face):
    class Place(BaseModel):
        city: str

    @tool
    def go(to: Place, stops: list[Place] = Field(default_factory=list)) -> str:  # noqa: B008 - pydantic reads it
        return f"{to.city} {[one.city for one in stops]}"

    assert use(face, go, {"to": {"city": "Rome"}, "stops": [{"city": "Pisa"}]}) == "Rome ['Pisa']"
    assert use(face, go, {"to": {"city": "Rome"}}) == "Rome []"


def test_parameters_may_have_names_that_pydantic_keeps_for_itself(face):
    @tool
    def odd(json: str, copy: int = 1, _hidden: int = 2, model_id: str = "m", **more: int) -> str:
        return f"{json} {copy} {_hidden} {model_id} {more}"

    assert list(odd.args) == ["json", "copy", "_hidden", "model_id"]
    assert use(face, odd, {"json": "j", "_hidden": 5, "other": 3}) == "j 1 5 m {'other': 3}"


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        ({"a": "ä"}, '{"a": "ä"}'),
        (None, "null"),
        ([1, 2], "[1, 2]"),
        (Point(1), '{"x":1}'),
        ([{"type": "text", "text": "t"}], [{"type": "text", "text": "t"}]),
    ],
    ids=["text", "dict", "None", "list", "dataclass", "blocks"],
)
def test_a_model_reads_text_blocks_or_json(face, returned, content):
    made = tool("give", lambda: returned)
    assert use(face, made, call("give")).content == content


def test_what_has_no_json_form_is_an_error_and_never_an_address(face):
    with pytest.raises(UnserializableValueError, match="tool 'give' returned a dict that a model cannot read"):
        use(face, tool("give", lambda: {"o": object()}), call("give"))


def test_an_artifact_is_kept_beside_what_the_model_reads(face):
    @tool(response_format="content_and_artifact")
    def plot(n: int):
        return f"{n} points", list(range(n))

    answer = use(face, plot, call("plot", n=3))
    assert (answer.content, answer.artifact) == ("3 points", [0, 1, 2])
    assert use(face, plot, {"n": 1}) == ("1 points", [0])


def generates():
    yield 1


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: tool(3.5), InvalidGraphError, "cannot be a tool"),
        (lambda: tool(generates), InvalidGraphError, "generator"),
        (lambda: tool("f", lambda x, /: x), InvalidGraphError, "positional parameter 'x'"),
        (lambda: tool("f", lambda *x: x), InvalidGraphError, "positional parameter 'x'"),
        (lambda: tool("f", lambda: 1, args_schema=5), InvalidConfigError, "args_schema is 5"),
        (lambda: tool("f", lambda: 1, response_format="x"), InvalidConfigError, "response_format"),
        (lambda: tool("f", lambda: 1, on_unknown="x"), InvalidConfigError, "on_unknown"),
    ],
    ids=["no function", "generator", "positional", "varargs", "schema", "format", "policy"],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_made(build, error, said):
    with pytest.raises(error, match=said):
        build()


def test_types_without_a_schema_are_refused_when_the_tool_is_made():
    def bad(x: "asyncio.Queue") -> str:
        return ""

    with pytest.raises(InvalidSchemaError, match="tool 'bad'"):
        tool(bad)
