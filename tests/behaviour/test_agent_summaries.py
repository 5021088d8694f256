"""`SummarizationMiddleware`: when it summarizes, what stays, and what the model that writes is told."""

import pytest

from durable_graph.agents.middleware import SummarizationMiddleware
from durable_graph.errors import InvalidConfigError
from durable_graph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from durable_graph.models import ScriptedChatModel
from tests.behaviour.agent_parts import CFG, Tools, asks, said, scripted

SUMMARY = "Summary of the chat so far:\n\n"


@pytest.fixture
def tools():
    return Tools()


@pytest.fixture
def writer():
    """Its n-th summary is "gist n"."""
    return ScriptedChatModel([f"gist {n}" for n in range(1, 9)])


def talk(count):
    return [(HumanMessage if n % 2 == 0 else AIMessage)(f"m{n}") for n in range(count)]


def told(model):
    """What the model was asked, as one text for each call."""
    return ["\n".join(str(one.content) for one in call.messages) for call in model.calls]


def run(face, tools, writer, messages, saver=None, **options):
    """An agent that answers "done"; what became of the chat."""
    agent = tools.agent(
        ScriptedChatModel(["done"], cycle=True), SummarizationMiddleware(writer, **options), saver=saver
    )
    return face.invoke(agent, {"messages": messages}, CFG)


# --- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "summarized"),
    [
        (("messages", 5), True),
        (("messages", 6), False),
        (("tokens", 20), True),
        (("tokens", 1000), False),
        (("fraction", 0.2), True),
        (("fraction", 0.9), False),
        ([("messages", 99), ("tokens", 20)], True),
        ([("messages", 99), ("tokens", 1000)], False),
        ([], False),
        (None, False),
    ],
)
def test_when_it_summarizes(face, tools, writer, trigger, summarized):
    writer.profile = {"max_input_tokens": 100}
    found = run(face, tools, writer, talk(5), trigger=trigger, keep=("messages", 1))
    assert said(found) == ([f"{SUMMARY}gist 1", "m4", "done"] if summarized else ["m0", "m1", "m2", "m3", "m4", "done"])


@pytest.mark.parametrize(
    ("keep", "kept"), [(("messages", 3), "m2 m3 m4"), (("tokens", 11), "m3 m4"), (("fraction", 0.05), "m4")]
)
def test_what_stays(face, tools, writer, keep, kept):
    writer.profile = {"max_input_tokens": 100}
    found = run(face, tools, writer, talk(5), trigger=("messages", 5), keep=keep)
    assert said(found)[1:-1] == kept.split()


def test_a_counter_of_ones_own(face, tools, writer):
    given = []
    counter = lambda messages: given.append(len(messages)) or 100 * len(messages)
    found = run(face, tools, writer, talk(5), trigger=("tokens", 500), keep=("tokens", 200), token_counter=counter)
    assert (said(found)[1:-1], given[0]) == (["m3", "m4"], 5)


# --- what is kept together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", range(1, 10))
def test_an_answer_and_the_results_of_its_calls_are_never_parted(face, backend, tools, writer, keep):
    chat = [
        HumanMessage("m0"),
        asks(("send", "1", {"to": "a"}), ("send", "2", {"to": "b"})),
        ToolMessage("r1", tool_call_id="1"),
        ToolMessage("r2", tool_call_id="2"),
        HumanMessage("m1"),
        asks(("look", "3", {"at": "c"}), ("look", "4", {"at": "d"}), ("look", "5", {"at": "e"})),
        *(ToolMessage(f"r{key}", tool_call_id=key) for key in "345"),
    ]
    found = run(face, tools, writer, chat, backend.make(), trigger=("messages", 9), keep=("messages", keep))["messages"]
    calls = [call["id"] for one in found if one.type == "ai" for call in one.tool_calls]
    assert [one.tool_call_id for one in found if one.type == "tool"] == calls
    assert calls == (["1", "2", "3", "4", "5"] if keep >= 8 else ["3", "4", "5"])
    assert [one.type for one in found[-5:-1]] == ["ai", "tool", "tool", "tool"]
    assert len(found) <= 2 + max(keep, 4)


def test_system_messages_stay_as_they_are(face, tools, writer):
    chat = [SystemMessage("Be kind."), *talk(5)]
    found = run(face, tools, writer, chat, trigger=("messages", 5), keep=("messages", 1))
    assert said(found) == ["Be kind.", f"{SUMMARY}gist 1", "m4", "done"]
    assert "Be kind" not in told(writer)[0]


def test_kept_messages_keep_their_ids_and_the_model_sees_what_is_stored(face, backend, tools, writer):
    model = scripted("a1", "a2", "a3", "a4")
    agent = tools.agent(
        model, SummarizationMiddleware(writer, trigger=("messages", 5), keep=("messages", 2)), saver=backend.make()
    )
    for text in ("q1", "q2"):
        before = face.invoke(agent, {"messages": text}, CFG)["messages"]
    after = face.invoke(agent, {"messages": "q3"}, CFG)["messages"]
    assert said({"messages": after}) == [f"{SUMMARY}gist 1", "a2", "q3", "a2"]
    assert after[1].id == before[-1].id
    assert told(model)[-1].splitlines()[-2:] == ["a2", "q3"]


# --- what is summarized ----------------------------------------------------------------------------------------------


def test_the_writer_gets_the_old_part_and_no_more(face, tools, writer):
    chat = [HumanMessage("who?"), asks(("look", "1", {"at": "list"})), ToolMessage("ann", tool_call_id="1"), *talk(2)]
    prompt = {"summary_prompt": "Shorten {it}: {messages}"}
    run(face, tools, writer, chat, trigger=("messages", 5), keep=("messages", 1), **prompt)
    lines = told(writer)[0].splitlines()
    assert (lines[0], lines[2:]) == ("Shorten {it}: Human: who?", ["Tool: ann", "Human: m0"])
    assert "look" in lines[1]


def test_a_later_summary_takes_the_earlier_one_in_though_what_it_gets_is_limited(face, backend, tools, writer):
    middleware = SummarizationMiddleware(
        writer, trigger=("messages", 4), keep=("messages", 1), trim_tokens_to_summarize=24
    )
    agent = tools.agent(ScriptedChatModel(["ok"], cycle=True), middleware, saver=backend.make())
    for n in range(6):
        found = face.invoke(agent, {"messages": f"q{n}"}, CFG)
    assert len(writer.calls) > 1
    assert f"gist {len(writer.calls) - 1}" in told(writer)[-1]
    assert "q0" not in told(writer)[-1]
    assert f"{SUMMARY}gist {len(writer.calls)}" in said(found)


def test_a_summary_alone_is_not_summarized_again(face, tools, writer):
    sizes = {"trigger": ("messages", 3), "keep": ("messages", 3)}
    chat = run(face, tools, writer, talk(4), **sizes)["messages"]
    assert said({"messages": chat}) == [f"{SUMMARY}gist 1", "m1", "m2", "m3", "done"]
    again = run(face, tools, writer, chat[:4], **sizes)
    assert (said(again)[0], len(writer.calls)) == (f"{SUMMARY}gist 1", 1)


@pytest.mark.parametrize(
    ("most", "has", "lacks"),
    [(None, "START", "nothing"), (30, "END", "START")],
)
def test_one_message_that_is_longer_than_all_may_be_is_cut(face, tools, writer, most, has, lacks):
    chat = [HumanMessage(f"START {'x' * 400} END"), HumanMessage("q")]
    run(face, tools, writer, chat, trigger=("messages", 2), keep=("messages", 1), trim_tokens_to_summarize=most)
    assert has in told(writer)[0].partition("The chat:")[2]
    assert lacks not in told(writer)[0].partition("The chat:")[2]


# --- the model that writes -------------------------------------------------------------------------------------------


def test_when_the_writer_fails_the_chat_is_whole_and_the_run_goes_on_later(face, backend, tools):
    def write(history):
        if failing:
            raise failing.pop()
        return "gist"

    failing = [ConnectionError("lost")]

    def agent(saver):
        middleware = SummarizationMiddleware(ScriptedChatModel(write), trigger=("messages", 3), keep=("messages", 1))
        return tools.agent(scripted("done", "done"), middleware, saver=saver)

    with pytest.raises(ConnectionError):
        face.invoke(agent(backend.make()), {"messages": talk(3)}, CFG)
    again = agent(backend.reopen())
    assert said(face.get_state(again, CFG).values) == ["m0", "m1", "m2"]
    assert said(face.invoke(again, None, CFG)) == [f"{SUMMARY}gist", "m2", "done"]


def test_an_empty_summary_is_none(face, tools):
    found = run(face, tools, ScriptedChatModel([" \n"]), talk(3), trigger=("messages", 3), keep=("messages", 1))
    assert said(found) == ["m0", "m1", "m2", "done"]


class OnlySync:
    def invoke(self, messages):
        return AIMessage("gist")


class OnlyAsync:
    async def ainvoke(self, messages):
        return AIMessage("gist")


@pytest.mark.parametrize("model", [OnlySync(), OnlyAsync()], ids=["sync", "async"])
def test_a_writer_with_one_form_serves_both_faces(face, tools, model):
    found = run(face, tools, model, talk(3), trigger=("messages", 3), keep=("messages", 1))
    assert said(found)[0] == f"{SUMMARY}gist"


def test_what_it_writes_is_not_shown_as_an_answer(face, tools, writer):
    agent = tools.agent(
        scripted("done", "done"), SummarizationMiddleware(writer, trigger=("messages", 3), keep=("messages", 1))
    )
    shown = face.stream(agent, {"messages": talk(3)}, stream_mode="messages")
    assert "done" in "".join(piece.content for piece, _ in shown)
    assert "gist" not in "".join(piece.content for piece, _ in shown if piece.type != "human")


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"trigger": ("words", 3)}, "trigger is"),
        ({"trigger": ("tokens", 0)}, "trigger is"),
        ({"trigger": [("messages", 3), 5]}, "trigger is 5"),
        ({"keep": ("fraction", 0.5)}, "keep is .* profile does not say"),
        ({"summary_prompt": "Summarize."}, "summary_prompt"),
        ({"model": 5}, "which is no chat model"),
    ],
)
def test_wrong_arguments_are_refused(writer, arguments, told):
    with pytest.raises(InvalidConfigError, match=told):
        SummarizationMiddleware(**{"model": writer, **arguments})
