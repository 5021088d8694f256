"""What interrupt() promises to the node that asks and to the person who answers."""

import asyncio
import re

import pytest

from durable_graph import END, START, Command, Interrupt, Send, StateGraph, interrupt
from durable_graph.errors import (
    GraphInterrupt,
    NoCheckpointerError,
    OutsideRunError,
    UnserializableValueError,
)
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel, thread

CFG = thread()


def test_a_node_that_asks_stops_the_run_and_goes_on_with_the_answer(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("name?")}).compile(backend.make())
    waiting = face.invoke(graph, {"log": ["start"]}, CFG)
    assert waiting["log"] == ["start"]
    assert [one.value for one in waiting["__interrupt__"]] == ["name?"]
    assert face.invoke(graph, Command(resume="Ada"), CFG) == {"log": ["start"], "answer": "Ada"}


def test_another_process_can_answer(face, backend):
    builder = chain(ask=lambda state: {"answer": interrupt("name?")})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    elsewhere = builder.compile(backend.reopen())
    assert face.invoke(elsewhere, Command(resume="Ada"), CFG)["answer"] == "Ada"


def test_several_questions_of_one_node_are_asked_one_after_the_other(face, backend):
    def ask(state):
        return {"log": [interrupt("first?"), interrupt("second?"), interrupt("third?")]}

    graph = chain(ask=ask).compile(backend.make())
    given = {}
    for answer, question in ((1, "first?"), (2, "second?"), (3, "third?")):
        result = face.invoke(graph, given, CFG)
        assert list(asked(result["__interrupt__"])) == [question]
        given = Command(resume=answer)
    assert face.invoke(graph, given, CFG)["log"] == [1, 2, 3]


def test_equal_questions_of_one_node_are_different_questions(face, backend):
    def ask(state):
        return {"log": [interrupt("go on?"), interrupt("go on?")]}

    graph = chain(ask=ask).compile(backend.make())
    first = face.invoke(graph, {}, CFG)["__interrupt__"][0]
    second = face.invoke(graph, Command(resume="yes"), CFG)["__interrupt__"][0]
    assert first.value == second.value
    assert first.id != second.id
    assert face.invoke(graph, Command(resume="no"), CFG)["log"] == ["yes", "no"]


def test_a_loop_asks_in_every_round(face, backend):
    builder = StateGraph(Log)
    builder.add_node("ask", lambda state: {"log": [interrupt("more?")]})
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: "ask" if state["log"][-1] == "yes" else END)
    graph = builder.compile(backend.make())
    ids = [face.invoke(graph, {}, CFG)["__interrupt__"][0].id]
    ids += [face.invoke(graph, Command(resume="yes"), CFG)["__interrupt__"][0].id for _ in range(2)]
    assert len(set(ids)) == 3
    assert face.invoke(graph, Command(resume="no"), CFG)["log"] == ["yes", "yes", "no"]


def test_parallel_nodes_ask_at_the_same_time(face, backend):
    nodes = {name: lambda state, name=name: {"log": [interrupt(name)]} for name in "abc"}
    graph = parallel(**nodes).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert sorted(ids) == ["a", "b", "c"]
    answers = {ids[name]: name.upper() for name in ids}
    assert face.invoke(graph, Command(resume=answers), CFG)["log"] == ["A", "B", "C"]


def test_send_tasks_of_one_node_ask_for_themselves(face, backend):
    def approve(item):
        return {"log": [(item["n"], interrupt({"approve": "same question"}))]}

    builder = StateGraph(Log).add_node("approve", approve)
    builder.add_conditional_edges(START, lambda state: [Send("approve", {"n": n}) for n in range(3)])
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    tasks = face.get_state(graph, CFG).tasks
    answers = {task.interrupts[0].id: f"for {index}" for index, task in enumerate(tasks)}
    assert len(answers) == 3
    result = face.invoke(graph, Command(resume=answers), CFG)
    assert result["log"] == [(0, "for 0"), (1, "for 1"), (2, "for 2")]


@pytest.mark.parametrize("answer", [None, "", 0, False, {}, [], 0.0, b"", ()], ids=repr)
def test_a_falsy_answer_is_an_answer(face, backend, answer):
    graph = chain(ask=lambda state: {"answer": interrupt("?"), "other": "asked"}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    result = face.invoke(graph, Command(resume=answer), CFG)
    assert "__interrupt__" not in result
    assert result["other"] == "asked"
    assert type(result["answer"]) is type(answer)
    assert result["answer"] == answer


@pytest.mark.parametrize(
    "answer",
    [
        {"approved": True},
        {"d41d8cd98f00b204e9800998ecf8427e": "file ok"},
        {"intr_": "short"},
        {"intr_" + "z" * 32: "no hex"},
        {1: "one", None: "none"},
    ],
    ids=str,
)
def test_a_dict_that_names_no_interrupt_is_the_answer_itself(face, backend, answer):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume=answer), CFG)["answer"] == answer


def test_answers_come_back_with_their_exact_types_and_independent(face, backend):
    answer = {"when": (1, 2), "who": {"a"}}
    seen = []

    def ask(state):
        got = interrupt("?")
        seen.append(got)
        got["who"].add("changed in the node")
        interrupt("again?")

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume=answer), CFG)
    face.invoke(graph, Command(resume="yes"), CFG)
    assert answer == {"when": (1, 2), "who": {"a"}}
    assert [type(got["when"]) for got in seen] == [tuple, tuple]
    assert seen[0] is not seen[1]


def test_interrupt_ids_have_a_prefix_and_stay_the_same(face, backend):
    builder = parallel(a=lambda state: {"log": [interrupt("?")]}, b=lambda state: {"log": [interrupt("?")]})
    graph = builder.compile(backend.make())
    result = {one.id for one in face.invoke(graph, {}, CFG)["__interrupt__"]}
    assert len(result) == 2
    assert all(re.fullmatch("intr_[0-9a-f]{32}", one) for one in result)
    assert {one.id for one in face.invoke(graph, None, CFG)["__interrupt__"]} == result
    elsewhere = builder.compile(backend.reopen())
    assert {one.id for one in face.get_state(elsewhere, CFG).interrupts} == result


def test_threads_have_different_ids_for_equal_questions(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    one, other = (face.invoke(graph, {}, thread(name))["__interrupt__"][0].id for name in ("one", "other"))
    assert one != other


def test_a_key_makes_a_question_whose_text_changes_the_same_question(face, backend):
    drawn = iter(range(10))

    def ask(state):
        return {"answer": interrupt(f"approve draft {next(drawn)}?", key="approve")}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume="yes"), CFG)["answer"] == "yes"


def test_keys_tell_equal_questions_apart(face, backend):
    order = ["left", "right"]

    def ask(state):
        return {"log": sorted((key, interrupt("go?", key=key)) for key in order)}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume="answer for left"), CFG)
    order.reverse()
    result = face.invoke(graph, Command(resume="answer for right"), CFG)
    assert result["log"] == [("left", "answer for left"), ("right", "answer for right")]


def test_async_nodes_can_ask(face, backend):
    async def ask(state):
        await asyncio.sleep(0)
        return {"answer": interrupt("?")}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume=1), CFG)["answer"] == 1


def test_questions_of_gathered_coroutines_are_all_open_at_once(face, backend):
    async def one(question):
        await asyncio.sleep(0)
        return interrupt(question)

    async def ask(state):
        return {"log": list(await asyncio.gather(one("left?"), one("right?")))}

    graph = chain(ask=ask).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert sorted(ids) == ["left?", "right?"]
    still = asked(face.invoke(graph, Command(resume={ids["right?"]: "R"}), CFG)["__interrupt__"])
    assert still == {"left?": ids["left?"]}
    assert face.invoke(graph, Command(resume="L"), CFG)["log"] == ["L", "R"]


def test_a_router_can_ask(face, backend):
    builder = chain(first=lambda state: {"log": ["first"]})
    builder.add_node("second", lambda state: {"log": ["second"]})
    builder.add_conditional_edges("first", lambda state: interrupt("where to?"), ["second", END])
    graph = builder.compile(backend.make())
    assert face.invoke(graph, {}, CFG)["__interrupt__"][0].value == "where to?"
    assert face.invoke(graph, Command(resume="second"), CFG)["log"] == ["first", "second"]


def test_functions_that_a_node_calls_can_ask(face, backend):
    def helper():
        return interrupt("from a helper")

    graph = chain(ask=lambda state: {"answer": helper()}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume=1), CFG)["answer"] == 1


def test_without_a_checkpointer_asking_is_an_error_that_names_the_node(face):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile()
    with pytest.raises(NoCheckpointerError, match=r"'ask'.*interrupt\(\)"):
        face.invoke(graph, {})


def test_resuming_without_a_checkpointer_is_an_error(face):
    graph = chain(ask=lambda state: None).compile()
    with pytest.raises(NoCheckpointerError, match="resume"):
        face.invoke(graph, Command(resume=1))


def test_outside_of_a_node_asking_is_an_error():
    with pytest.raises(OutsideRunError, match=r"interrupt\(\)"):
        interrupt("?")


def test_a_question_that_cannot_be_stored_is_refused_and_named(face, backend):
    fine = []

    def ask(state):
        return {"answer": interrupt("fine" if fine else {"value": object()})}

    graph = chain(ask=ask).compile(backend.make())
    with pytest.raises(UnserializableValueError, match=r"interrupt value of node 'ask'.*object") as caught:
        face.invoke(graph, {"log": ["kept"]}, CFG)
    assert "interrupt" in str(caught.value)
    assert face.get_state(graph, CFG).next == ("ask",)
    fine.append(True)
    assert face.invoke(graph, None, CFG)["log"] == ["kept"]
    assert face.invoke(graph, Command(resume="ok"), CFG)["answer"] == "ok"


def test_an_answer_that_cannot_be_stored_is_refused_and_changes_nothing(face, backend):
    saver = backend.make()
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(saver)
    face.invoke(graph, {}, CFG)
    before = dump(saver)
    with pytest.raises(UnserializableValueError, match=r"Command\.resume"):
        face.invoke(graph, Command(resume=object()), CFG)
    assert dump(saver) == before


def test_the_answer_is_delivered_again_when_the_node_fails_after_it(face, backend):
    marks = Marks()

    def ask(state):
        answer = interrupt("?")
        marks(answer)
        if marks.count(answer) == 1:
            raise ValueError("broken after the answer")
        return {"answer": answer}

    graph = chain(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    with pytest.raises(ValueError, match="broken after"):
        face.invoke(graph, Command(resume="kept"), CFG)
    assert face.get_state(graph, CFG).interrupts == ()
    assert face.invoke(graph, None, CFG)["answer"] == "kept"


def test_a_retried_attempt_gets_the_answer_too(face, backend):
    from durable_graph import RetryPolicy

    marks = Marks()

    def ask(state):
        answer = interrupt("?")
        marks(answer)
        if marks.count(answer) == 1:
            raise ConnectionError("once")
        return {"answer": answer}

    builder = StateGraph(Log).add_node("ask", ask, retry_policy=RetryPolicy(0.001, jitter=False))
    graph = builder.add_edge(START, "ask").compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(resume="yes"), CFG)["answer"] == "yes"
    assert marks.seen == ["yes", "yes"]


def test_asking_is_never_retried(face, backend):
    from durable_graph import RetryPolicy

    marks = Marks()

    def ask(state):
        marks("entered")
        return {"answer": interrupt("?")}

    policy = RetryPolicy(0.001, max_attempts=5, retry_on=BaseException)
    graph = StateGraph(Log).add_node("ask", ask, retry_policy=policy).add_edge(START, "ask").compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert marks.count("entered") == 1


def test_an_interrupt_shows_its_value_unchanged(face, backend):
    question = {"tool": "rm", "args": ("-rf", "/"), "risk": {1.5, 2.5}}
    graph = chain(ask=lambda state: {"answer": interrupt(question)}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    shown = face.get_state(graph, CFG).interrupts[0]
    assert isinstance(shown, Interrupt)
    assert shown.value == question
    assert type(shown.value["args"]) is tuple


def test_graph_interrupt_can_still_be_caught_by_name(face, backend):
    seen = []

    def ask(state):
        try:
            return {"answer": interrupt("?")}
        except GraphInterrupt as caught:
            seen.extend(caught.interrupts)
            raise

    graph = chain(ask=ask).compile(backend.make())
    assert face.invoke(graph, {}, CFG)["__interrupt__"] == seen
