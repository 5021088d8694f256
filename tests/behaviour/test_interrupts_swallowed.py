"""User code that catches too much does not skip a question."""

import asyncio
import contextlib

import pytest

from durable_graph import Command, interrupt
from tests.behaviour.small_graphs import Marks, asked, chain, parallel, thread

CFG = thread()


def except_exception(state):
    try:
        answer = interrupt("?")
    except Exception:  # noqa: BLE001 - what user code does
        answer = "swallowed"
    return {"log": [answer]}


def except_everything(state):
    answer = "swallowed"
    with contextlib.suppress(BaseException):
        answer = interrupt("?")
    return {"log": [answer]}


def swallow_and_return_nothing(state):
    with contextlib.suppress(BaseException):
        return {"log": [interrupt("?")]}


async def gather_exceptions(state):
    async def one():
        return interrupt("?")

    return {"log": await asyncio.gather(one(), return_exceptions=True)}


async def task_group(state):
    async def one():
        return interrupt("?")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(one())
    return {"log": [task.result()]}


def grouped(state):
    try:
        answer = interrupt("?")
    except BaseException as caught:  # noqa: BLE001 - what user code does
        raise BaseExceptionGroup("wrapped", [BaseExceptionGroup("twice", [caught])]) from None
    return {"log": [answer]}


def except_star(state):
    answers = []
    try:
        answers.append(interrupt("?"))
    except* Exception:  # noqa: BLE001 - what user code does
        answers.append("swallowed")
    return {"log": answers}


@pytest.mark.parametrize(
    "node",
    [
        except_exception,
        except_everything,
        swallow_and_return_nothing,
        gather_exceptions,
        task_group,
        grouped,
        except_star,
    ],
    ids=lambda node: node.__name__,
)
def test_the_run_stops_at_the_question_all_the_same(face, backend, node):
    graph = chain(ask=node, after=lambda state: {"log": ["after"]}).compile(backend.make())
    waiting = face.invoke(graph, {}, CFG)
    assert list(asked(waiting["__interrupt__"])) == ["?"]
    assert waiting["log"] == []
    assert face.get_state(graph, CFG).next == ("ask",)
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes", "after"]


def test_all_questions_that_were_swallowed_are_open(face, backend):
    async def ask(state):
        async def one(name):
            return interrupt(name)

        return {"log": await asyncio.gather(*map(one, "abc"), return_exceptions=True)}

    graph = chain(ask=ask).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    assert sorted(ids) == ["a", "b", "c"]
    result = face.invoke(graph, Command(resume={ids[name]: name.upper() for name in ids}), CFG)
    assert result["log"] == ["A", "B", "C"]


def test_an_error_beside_a_question_in_one_group_is_not_lost(face, backend):
    healed = []

    async def ask(state):
        async def question():
            return interrupt("?")

        async def trouble():
            if not healed:
                raise ValueError("real trouble")
            return "fine"

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(question()), group.create_task(trouble())]
        return {"log": [task.result() for task in tasks]}

    graph = chain(ask=ask).compile(backend.make())
    with pytest.raises(BaseExceptionGroup) as caught:
        face.invoke(graph, {}, CFG)
    assert caught.group_contains(ValueError, match="real trouble")
    healed.append(True)
    assert list(asked(face.invoke(graph, None, CFG)["__interrupt__"])) == ["?"]
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes", "fine"]


def test_an_error_raised_after_a_swallowed_question_is_raised(face, backend):
    marks = Marks()

    def ask(state):
        with contextlib.suppress(BaseException):
            return {"log": [interrupt("?")]}
        marks("tried")
        if marks.count("tried") == 1:
            raise ValueError("after")
        return None

    graph = chain(ask=ask).compile(backend.make())
    with pytest.raises(ValueError, match="after"):
        face.invoke(graph, {}, CFG)
    assert list(asked(face.invoke(graph, None, CFG)["__interrupt__"])) == ["?"]


def test_siblings_of_a_waiting_node_finish_and_are_kept(face, backend):
    marks = Marks()

    def work(state):
        marks("work")
        return {"log": ["work"]}

    graph = parallel(ask=except_exception, work=work).compile(backend.make())
    assert face.invoke(graph, {}, CFG)["log"] == ["work"]
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes", "work"]
    assert marks.count("work") == 1
