"""Chat models in graphs: the stream mode "messages", and models of providers over real HTTP."""

import asyncio
import contextlib
import operator
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest

from checkpointers import InMemorySaver
from durable_graph import START, RetryPolicy, StateGraph, interrupt
from durable_graph.errors import EventLoopError, InvalidConfigError, UsageError
from durable_graph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, join_chunks
from durable_graph.models import ScriptedChatModel, init_chat_model, usage_of
from durable_graph.types import Command, Send
from tests.behaviour.openai_server import OpenAIServer, Reply


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


INPUT = {"messages": [HumanMessage("q", id="q")]}


def node(model, method="invoke"):
    def call(state):
        if method == "stream":
            return {"messages": [join_chunks(list(model.stream(state["messages"]))).to_message()]}
        return {"messages": [model.invoke(state["messages"])]}

    async def acall(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return acall if method == "ainvoke" else call


def chain(*steps, **compiled):
    graph = StateGraph(State)
    for name, body in steps:
        graph.add_node(name, body)
    names = [START, *(name for name, _ in steps)]
    for before, after in pairwise(names):
        graph.add_edge(before, after)
    return graph.compile(**compiled)


def shown(parts):
    return [(metadata["langgraph_node"], message.content) for message, metadata in parts]


@pytest.mark.parametrize("method", ["invoke", "ainvoke", "stream"])
def test_what_a_model_says_inside_a_node_is_streamed_and_shown_once(face, method):
    graph = chain(("llm", node(ScriptedChatModel(["hello big"], name="tiny"), method)))
    parts = face.stream(graph, INPUT, stream_mode="messages")
    assert shown(parts) == [("llm", "hello"), ("llm", " "), ("llm", "big")]
    metadata = parts[0][1]
    assert metadata["langgraph_step"] == 1
    assert metadata["langgraph_checkpoint_ns"].startswith("llm:")
    assert metadata["langgraph_triggers"]
    assert (metadata["ls_provider"], metadata["ls_model_name"]) == ("scripted", "tiny")
    assert [message.chunk_position for message, _ in parts] == [None, None, "last"]


def test_tokens_come_before_the_update_that_holds_the_answer(face):
    graph = chain(("llm", node(ScriptedChatModel(["a b"]))))
    modes = [mode for mode, _ in face.stream(graph, INPUT, stream_mode=["updates", "messages"])]
    assert modes == ["messages", "messages", "messages", "updates"]


def test_whole_messages_are_shown_once_and_old_ones_never(face):
    def tool(state):
        return {"messages": [ToolMessage("found", tool_call_id="1", id="t"), state["messages"][0]]}

    def again(state):
        return {"messages": state["messages"]}

    graph = chain(("tool", tool), ("again", again))
    assert shown(face.stream(graph, INPUT, stream_mode="messages")) == [("tool", "found")]


def test_a_message_that_a_send_brought_is_not_shown(face):
    graph = StateGraph(State)
    graph.add_node("go", lambda _: {"messages": []})
    graph.add_node("echo", lambda given: {"messages": [*given["messages"], AIMessage("new", id="n")]})
    graph.add_edge(START, "go")
    graph.add_conditional_edges("go", lambda _: [Send("echo", {"messages": [HumanMessage("sent", id="s")]})], ["echo"])
    assert shown(face.stream(graph.compile(), INPUT, stream_mode="messages")) == [("echo", "new")]


def test_nostream_keeps_an_answer_out_of_the_stream_but_not_out_of_the_state(face):
    model = ScriptedChatModel(["secret plan"])
    graph = chain(("llm", node(model.with_config(tags=["nostream"]))))
    parts = face.stream(graph, INPUT, stream_mode=["messages", "values"])
    assert [mode for mode, _ in parts] == ["values", "values"]
    assert parts[-1][1]["messages"][-1].content == "secret plan"


def test_tags_and_metadata_come_with_the_tokens(face):
    model = ScriptedChatModel(["a"]).with_config(tags=["draft"], metadata={"team": "x"})
    graph = chain(("llm", node(model)))
    [(_, metadata)] = face.stream(graph, INPUT, {"tags": ["run"]}, stream_mode="messages")
    assert (metadata["tags"], metadata["team"]) == (["run", "draft"], "x")


@pytest.mark.parametrize("way", ["as a node", "called in a node"])
def test_a_graph_inside_a_node_streams_too_and_its_answer_is_not_shown_again(face, way):
    inner = chain(("llm", node(ScriptedChatModel(["hello big"]))))
    graph = chain(("sub", inner if way == "as a node" else inner.invoke))
    if way == "called in a node" and face.name == "async":
        graph = chain(("sub", _awaiting(inner)))
    words = [("llm", "hello"), ("llm", " "), ("llm", "big")]
    assert shown(face.stream(graph, INPUT, stream_mode="messages")) == words


def _awaiting(inner):
    async def call(state):
        return await inner.ainvoke(state)

    return call


def test_parts_of_a_graph_inside_say_where_they_come_from(face):
    inner = chain(("llm", node(ScriptedChatModel(["a"]))))
    parts = face.stream(chain(("sub", inner)), INPUT, stream_mode="messages", subgraphs=True)
    assert [(ns[0].partition(":")[0], message.content) for ns, (message, _) in parts] == [("sub", "a")]


def test_a_model_streams_inside_invoke_only_when_somebody_listens(face):
    model = Counting(["a b"], cycle=True)
    graph = chain(("llm", node(model)))
    face.invoke(graph, INPUT)
    assert model.streamed == 0
    face.stream(graph, INPUT, stream_mode="values")
    assert model.streamed == 0
    face.stream(graph, INPUT, stream_mode="messages")
    assert model.streamed == 1


class Counting(ScriptedChatModel):
    streamed = 0

    def _pieces(self, history, options):
        self.streamed += 1
        return super()._pieces(history, options)


def test_a_resumed_run_shows_only_what_is_new(face, backend):
    def ask(state):
        return {"messages": [HumanMessage(interrupt("sure?"), id="h")]}

    graph = chain(("llm", node(ScriptedChatModel(["a b"]))), ("ask", ask), checkpointer=backend.make())
    config = {"configurable": {"thread_id": "1"}}
    assert shown(face.stream(graph, INPUT, config, stream_mode="messages")) == [
        ("llm", "a"),
        ("llm", " "),
        ("llm", "b"),
    ]
    parts = face.stream(graph, Command(resume="yes"), config, stream_mode="messages")
    assert shown(parts) == [("ask", "yes")]
    assert parts[0][1]["thread_id"] == "1"


def test_version_2_names_the_mode(face):
    graph = chain(("llm", node(ScriptedChatModel(["a"]))))
    [part] = face.stream(graph, INPUT, stream_mode="messages", version="v2")
    assert (part["type"], part["data"][0].content) == ("messages", "a")


# --- providers -----------------------------------------------------------------------------------------------------


def search(city: str):
    """Look for weather."""


CALLS = [("1", "search", {"city": "sf"}), ("2", "search", {"city": "la"})]


def test_a_server_is_asked_in_its_protocol_and_its_answer_is_a_message(face):
    with OpenAIServer(Reply("hello big")) as server:
        answer = face.invoke(init_chat_model("tiny", base_url=server.url, temperature=0.5), "hi")
    [asked] = server.requests
    assert (asked["model"], asked["temperature"]) == ("tiny", 0.5)
    assert asked["messages"] == [{"role": "user", "content": "hi"}]
    assert (answer.type, answer.content, answer.response_metadata["finish_reason"]) == ("ai", "hello big", "stop")
    assert usage_of([answer]) == {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}


def test_it_streams(face):
    with OpenAIServer(Reply("hello big")) as server:
        pieces = face.stream(init_chat_model("openai:tiny", base_url=server.url), "hi")
    assert [piece.content for piece in pieces] == ["hello", " big", ""]
    assert pieces[-1].chunk_position == "last"
    assert len({piece.id for piece in pieces}) == 1
    assert usage_of([join_chunks(pieces).to_message()])["total_tokens"] == 14


def test_tool_calls_come_back_whole_and_streamed(face):
    with OpenAIServer(Reply(calls=CALLS), Reply("well", calls=CALLS)) as server:
        model = init_chat_model("tiny", base_url=server.url).bind_tools([search], tool_choice="any")
        whole = face.invoke(model, "hi")
        streamed = join_chunks(face.stream(model, "hi")).to_message()
    wanted = [{"name": name, "args": args, "id": key, "type": "tool_call"} for key, name, args in CALLS]
    assert whole.tool_calls == streamed.tool_calls == wanted
    assert server.requests[0]["tools"][0]["function"]["name"] == "search"
    assert server.requests[0]["tool_choice"] == "required"


def test_a_whole_history_is_told():
    history = [
        SystemMessage("be kind"),
        HumanMessage("q"),
        AIMessage("", tool_calls=[{"name": "search", "args": {"city": "sf"}, "id": "1"}]),
        ToolMessage("rain", tool_call_id="1"),
    ]
    with OpenAIServer(Reply("a")) as server:
        init_chat_model("tiny", base_url=server.url).invoke(history)
    roles = [(message["role"], message["content"]) for message in server.requests[0]["messages"]]
    assert roles == [("system", "be kind"), ("user", "q"), ("assistant", None), ("tool", "rain")]


def test_a_built_in_tool_is_passed_unchanged():
    with OpenAIServer(Reply("a")) as server:
        init_chat_model("tiny", base_url=server.url).bind_tools([search, {"type": "web_search"}]).invoke("hi")
    assert [tool["type"] for tool in server.requests[0]["tools"]] == ["function", "web_search"]


def test_a_rate_limit_is_waited_for(face):
    with OpenAIServer(Reply(status=429, headers={"Retry-After": "0"}), Reply("a")) as server:
        assert face.invoke(init_chat_model("tiny", base_url=server.url), "hi").content == "a"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "name"), [(400, "BadRequestError"), (429, "RateLimitError"), (503, "InternalServerError")]
)
@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_errors_are_the_providers_own(face, status, name, method):
    with OpenAIServer(Reply(status=status)) as server:
        model = init_chat_model("tiny", base_url=server.url, max_retries=0)
        with pytest.raises(Exception, match="no") as caught:
            getattr(face, method)(model, "hi")
    assert (type(caught.value).__module__.partition(".")[0], type(caught.value).__name__) == ("openai", name)
    assert caught.value.status_code == status


def test_the_default_retry_policy_tries_a_servers_failure_again(face):
    with OpenAIServer(Reply(status=503), Reply("a")) as server:
        model = init_chat_model("tiny", base_url=server.url, max_retries=0)
        graph = StateGraph(State)
        graph.add_node("llm", node(model), retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
        graph.add_edge(START, "llm")
        assert face.invoke(graph.compile(), INPUT)["messages"][-1].content == "a"


def test_a_stream_that_breaks_off_is_an_error_and_no_short_answer(face):
    with OpenAIServer(Reply("a b", cut=True)) as server, pytest.raises(ConnectionError, match="hung up"):
        face.stream(init_chat_model("tiny", base_url=server.url), "hi")


def test_closing_a_stream_hangs_up():
    with OpenAIServer(Reply("a", endless=True)) as server:
        pieces = init_chat_model("tiny", base_url=server.url).stream("hi")
        assert next(pieces).content == "a"
        pieces.close()
        assert server.hung_up.wait(10)


def test_closing_an_async_stream_hangs_up():
    async def main(model):
        async with contextlib.aclosing(model.astream("hi")) as pieces:
            async for _ in pieces:
                break

    with OpenAIServer(Reply("a", endless=True)) as server:
        asyncio.run(main(init_chat_model("tiny", base_url=server.url)))
        assert server.hung_up.wait(10)


def test_cancelling_a_run_hangs_up():
    async def main(graph):
        async for _ in graph.astream(INPUT, stream_mode="messages"):
            raise asyncio.CancelledError

    with OpenAIServer(Reply("a", endless=True)) as server:
        graph = chain(("llm", node(init_chat_model("tiny", base_url=server.url), "ainvoke")))
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main(graph))
        assert server.hung_up.wait(10)


def test_one_model_serves_one_event_loop_after_the_other_and_the_sync_face():
    with OpenAIServer(*(Reply("a") for _ in range(4))) as server:
        model = init_chat_model("tiny", base_url=server.url)
        answers = [asyncio.run(model.ainvoke("hi")), model.invoke("hi"), asyncio.run(model.ainvoke("hi"))]
        assert [answer.content for answer in answers] == ["a"] * 3


def test_a_sync_call_that_would_block_an_event_loop_is_refused():
    async def main(model):
        return model.invoke("hi")

    with OpenAIServer() as server, pytest.raises(EventLoopError, match=r"await model\.ainvoke"):
        asyncio.run(main(init_chat_model("tiny", base_url=server.url)))


def test_a_provider_in_a_graph_streams_its_tokens(face):
    with OpenAIServer(Reply("hello big")) as server:
        graph = chain(("llm", node(init_chat_model("tiny", base_url=server.url))), checkpointer=InMemorySaver())
        parts = face.stream(graph, INPUT, {"configurable": {"thread_id": "1"}}, stream_mode="messages")
    assert shown(parts) == [("llm", "hello"), ("llm", " big"), ("llm", "")]
    assert parts[0][1]["ls_model_name"] == "tiny"


def test_what_is_no_name_is_a_model_already():
    model = ScriptedChatModel([])
    assert init_chat_model(model) is model


@pytest.mark.parametrize(
    ("name", "says"),
    [("gpt", "no name of a chat model"), ("nobody:gpt", "nobody"), ("openai:gpt-5-mini", "OPENAI_API_KEY")],
)
def test_a_wrong_name_or_a_missing_key_is_found_when_the_model_is_made(monkeypatch, name, says):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidConfigError, match=says):
        init_chat_model(name)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("durable_graph.models.providers.find_spec", lambda _: None)
    with pytest.raises(InvalidConfigError, match=r"pip install durable-graph\[models\]"):
        init_chat_model("openai:gpt-5-mini")


def test_a_provider_is_held_to_a_json_schema(face):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "Count", "schema": schema, "strict": True}}
    with OpenAIServer(Reply('{"n": 3}')) as server:
        answer = face.invoke(init_chat_model("tiny", base_url=server.url), "hi", response_format=wanted)
    assert answer.content == '{"n": 3}'
    asked = server.requests[0]["response_format"]
    assert (asked["type"], asked["json_schema"]["name"], asked["json_schema"]["strict"]) == (
        "json_schema",
        "Count",
        True,
    )
    assert asked["json_schema"]["schema"]["properties"] == schema["properties"]
    with pytest.raises(UsageError, match="response_format"):
        face.invoke(init_chat_model("tiny", base_url=server.url), "hi", response_format="json")


def test_a_model_tells_whether_its_provider_knows_json_schemas(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert init_chat_model("openai:gpt-5-mini").profile == {"structured_output": True}
    assert init_chat_model("tiny", base_url="http://127.0.0.1:1/v1").profile == {"structured_output": False}
