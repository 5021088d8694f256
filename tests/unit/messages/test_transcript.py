"""What people do with transcripts."""

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    count_tokens_approximately,
    filter_messages,
    get_buffer_string,
    trim_messages,
)

SYSTEM = SystemMessage("be short", id="s")
ASK = HumanMessage("weather?", id="h1", name="ann")
CALLS = AIMessage("", id="a1", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}])
RESULT = ToolMessage("sunny", tool_call_id="c1", id="t1")
ANSWER = AIMessage("It is sunny.", id="a2")
THANKS = HumanMessage("thanks", id="h2")
ALL = [SYSTEM, ASK, CALLS, RESULT, ANSWER, THANKS]


@pytest.mark.parametrize("limit", range(8))
@pytest.mark.parametrize("strategy", ["first", "last"])
def test_a_call_and_its_result_are_never_parted(limit, strategy):
    kept = trim_messages(ALL, max_tokens=limit, token_counter=len, strategy=strategy)
    assert len(kept) <= limit
    assert (CALLS in kept) == (RESULT in kept)
    assert kept == (ALL[: len(kept)] if strategy == "first" else ALL[len(ALL) - len(kept) :])


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"max_tokens": 4}, [CALLS, RESULT, ANSWER, THANKS]),
        ({"max_tokens": 4, "include_system": True}, [SYSTEM, ANSWER, THANKS]),
        ({"max_tokens": 4, "start_on": "human"}, [THANKS]),
        ({"max_tokens": 5, "start_on": HumanMessage}, [ASK, CALLS, RESULT, ANSWER, THANKS]),
        ({"max_tokens": 2, "end_on": ("ai",)}, [ANSWER]),
        ({"max_tokens": 2, "strategy": "first", "end_on": "human"}, [SYSTEM, ASK]),
        ({"max_tokens": 0, "include_system": True}, []),
    ],
)
def test_trimming_options(options, kept):
    options = {"token_counter": len, **options}
    if kept == [ANSWER]:
        assert trim_messages(ALL, **options)[-1] == ANSWER
        return
    assert trim_messages(ALL, **options) == kept


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(InvalidConfigError, match="include_system"):
        trim_messages(ALL, max_tokens=5, strategy="first", include_system=True)
    with pytest.raises(InvalidConfigError, match="middle"):
        trim_messages(ALL, max_tokens=5, strategy="middle")


def test_a_model_may_count():
    class Model:
        def get_num_tokens_from_messages(self, messages):
            return 10 * len(messages)

    assert trim_messages(ALL, max_tokens=25, token_counter=Model()) == [ANSWER, THANKS]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, ALL),
        ({"include_types": "human"}, [ASK, THANKS]),
        ({"include_types": [HumanMessage, "system"]}, [SYSTEM, ASK, THANKS]),
        ({"exclude_types": [AIMessage], "exclude_ids": ["h2"]}, [SYSTEM, ASK, RESULT]),
        ({"include_names": ["ann"], "include_ids": ["s"]}, [SYSTEM, ASK]),
        ({"exclude_names": ["ann"]}, [SYSTEM, CALLS, RESULT, ANSWER, THANKS]),
        ({"exclude_tool_calls": True}, [SYSTEM, ASK, ANSWER, THANKS]),
        ({"exclude_tool_calls": ["c1"]}, [SYSTEM, ASK, ANSWER, THANKS]),
        ({"exclude_tool_calls": ["c9"]}, ALL),
    ],
)
def test_filtering(options, kept):
    assert filter_messages(ALL, **options) == kept


def test_one_of_several_calls_can_be_left_out():
    both = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}, {"name": "g", "args": {}, "id": "2"}])
    [left] = filter_messages([both], exclude_tool_calls=["1"])
    assert [call["id"] for call in left.tool_calls] == ["2"]
    assert len(both.tool_calls) == 2


def test_more_text_counts_more():
    assert count_tokens_approximately([]) == 0
    assert count_tokens_approximately(["x" * 400]) == 104  # (400 + "user") / 4 + 3
    assert count_tokens_approximately([CALLS]) > count_tokens_approximately([AIMessage("")])


def test_a_transcript_as_text():
    assert get_buffer_string([ASK, CALLS, ANSWER], human_prefix="You").splitlines() == [
        "You: weather?",
        'AI: [{"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}]',
        "AI: It is sunny.",
    ]


def test_openais_form():
    assert convert_to_openai_messages([SYSTEM, CALLS, RESULT]) == [
        {"role": "system", "content": "be short"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]
    assert convert_to_openai_messages(ASK) == {"role": "user", "content": "weather?", "name": "ann"}
    with pytest.raises(ValueError, match="remove"):
        convert_to_openai_messages([RemoveMessage("1")])


def test_what_was_written_in_openais_form_comes_out_the_same():
    written = [
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "t"}]},
        convert_to_openai_messages(CALLS),
    ]
    assert convert_to_openai_messages(written) == written
