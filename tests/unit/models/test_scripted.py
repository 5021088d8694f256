"""The scripted model: which answer comes, and in which pieces."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from durable_graph.errors import UsageError
from durable_graph.messages import AIMessage, HumanMessage, join_chunks
from durable_graph.models import ChatModel, ScriptedChatModel

CALL = {"name": "search", "args": {"city": "sf"}, "id": "1"}


def texts(pieces):
    return [piece.content for piece in pieces]


def test_it_answers_in_order_and_says_when_the_script_is_over():
    model = ScriptedChatModel(["a", AIMessage("b", id="own")])
    assert texts([model.invoke("x"), model.invoke("x")]) == ["a", "b"]
    with pytest.raises(UsageError, match="has 2 responses, and there were 2 calls before"):
        model.invoke("x")


def test_a_script_that_cycles_gives_each_answer_an_id_of_its_own():
    model = ScriptedChatModel([AIMessage("a", id="own")], cycle=True)
    answers = [model.invoke("x") for _ in range(3)]
    assert answers[0].id == "own"
    assert len({answer.id for answer in answers}) == 3


def test_by_history_a_new_process_goes_on_where_the_conversation_stands():
    def fresh():
        return ScriptedChatModel(["a", "b"], by_history=True)

    first = fresh().invoke("x")
    history = [HumanMessage("x"), first]
    assert texts([fresh().invoke(history), fresh().invoke(history)]) == ["b", "b"]
    with pytest.raises(UsageError, match="2 answers in the history"):
        fresh().invoke([*history, AIMessage("b")])


def test_a_function_answers_the_history():
    model = ScriptedChatModel(lambda history: f"{len(history)} {history[-1].content}")
    assert model.invoke([("user", "x"), {"role": "user", "content": "y"}]).content == "2 y"


def test_answers_are_copies():
    script = AIMessage("", tool_calls=[CALL])
    model = ScriptedChatModel([script], cycle=True)
    model.invoke("x").tool_calls[0]["args"]["city"] = "la"
    assert model.invoke("x").tool_calls[0]["args"] == {"city": "sf"} == script.tool_calls[0]["args"]


def test_a_call_without_id_gets_one():
    answer = ScriptedChatModel([AIMessage("", tool_calls=[{"name": "search", "args": {}}])]).invoke("x")
    assert answer.tool_calls[0]["id"].startswith("call_")


def test_an_exception_in_the_script_is_raised_in_its_turn():
    model = ScriptedChatModel([TimeoutError("slow"), "a"])
    with pytest.raises(TimeoutError, match="slow"):
        model.invoke("x")
    assert model.invoke("x").content == "a"


@pytest.mark.parametrize("response", [7, None, ["a"]], ids=str)
def test_what_is_no_answer_is_refused(response):
    with pytest.raises(UsageError, match="neither a str nor a message"):
        ScriptedChatModel([response]).invoke("x")


def test_a_bare_str_is_no_script():
    with pytest.raises(UsageError, match="one str"):
        ScriptedChatModel("hello")


@pytest.mark.parametrize("text", ["hello big\n world", " a ", "", "one"])
def test_streams_keep_all_whitespace_and_mark_the_last_piece_only(face, text):
    model = ScriptedChatModel([AIMessage(text, usage_metadata=usage())], name="tiny")
    pieces = face.stream(model, "x")
    assert "".join(texts(pieces)) == text
    assert [piece.chunk_position for piece in pieces] == [None] * (len(pieces) - 1) + ["last"]
    message = join_chunks(pieces).to_message()
    assert (message.usage_metadata, message.response_metadata) == (usage(), {"model_name": "tiny"})


def usage():
    return {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def test_a_tool_call_without_text_is_one_piece(face):
    [piece] = face.stream(ScriptedChatModel([AIMessage("", tool_calls=[CALL])]), "x")
    assert piece.to_message().tool_calls == [{**CALL, "type": "tool_call"}]
    assert piece.chunk_position == "last"


def test_a_tool_call_after_text_comes_last(face):
    pieces = face.stream(ScriptedChatModel([AIMessage("a b", tool_calls=[CALL])]), "x")
    assert texts(pieces) == ["a", " ", "b", ""]
    assert join_chunks(pieces).to_message().tool_calls == [{**CALL, "type": "tool_call"}]


def test_it_remembers_what_it_was_called_with_and_which_tools_were_bound():
    model = ScriptedChatModel(["a"])
    assert model.bind_tools(["t"], tool_choice="any") is model
    model.invoke("x", temperature=0)
    [call] = model.calls
    assert (call.messages, call.tools) == ([HumanMessage("x")], ["t"])
    assert call.options == {"tool_choice": "any", "temperature": 0}


def test_os_threads_take_each_answer_once():
    model = ScriptedChatModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: model.invoke("x").content, range(200)))
    assert sorted(answers, key=int) == [str(number) for number in range(200)]


def test_it_may_be_called_without_async_while_a_loop_runs():
    async def main():
        model = ScriptedChatModel(["a b"], cycle=True)
        return model.invoke("x").content, texts(model.stream("x"))

    assert asyncio.run(main()) == ("a b", ["a", " ", "b"])


def test_more_tags_are_another_model_in_the_same_script():
    model = ScriptedChatModel(["a", "b"])
    quiet = model.with_config(tags=["nostream"])
    assert texts([quiet.invoke("x"), model.invoke("x")]) == ["a", "b"]
    assert (quiet.tags, model.tags, len(model.calls)) == (("nostream",), (), 2)


def test_it_is_a_chat_model():
    assert isinstance(ScriptedChatModel([]), ChatModel)
    assert not isinstance(object(), ChatModel)
