"""`wrap_tool_call`: what may stand around a call."""

import pytest

from durable_graph import Command, interrupt
from durable_graph.messages import ToolMessage
from durable_graph.prebuilt import ToolNode, tool
from tests.behaviour.test_tool_node import CONFIG, Log, answers, around, asks, fails, run


@pytest.fixture
def log():
    return Log()


def test_a_wrapper_may_edit_retry_and_leave_out_calls(face, backend, log):
    failing = [True, True]

    def shaky(x):
        if failing and failing.pop():
            raise ConnectionError
        return f"got {x}"

    def wrap(request, execute):
        if request.tool_call["args"]["x"] == 0:
            return ToolMessage("not needed", tool_call_id=request.tool_call["id"])
        call = {**request.tool_call, "args": {"x": request.tool_call["args"]["x"] + 10}}
        for _ in range(2):
            try:
                return execute(request.override(tool_call=call))
            except ConnectionError:
                continue
        return execute(request.override(tool_call=call))

    graph = around(ToolNode([log.tool("mail", shaky)], wrap_tool_call=wrap), backend.make())
    found = face.invoke(graph, asks(("mail", "1", {"x": 1}), ("mail", "2", {"x": 0})), CONFIG)
    assert answers(found) == [("1", "success", "got 11"), ("2", "success", "not needed")]
    assert [x for _, x, _ in log] == [11, 11, 11]
    assert len({key for *_, key in log}) == 1


def test_an_answer_that_a_wrapper_kept_answers_the_new_call(face, backend, log):
    kept = {}

    def cached(request, execute):
        x = request.tool_call["args"]["x"]
        if x not in kept:
            kept[x] = execute(request)
        return kept[x]

    saver = backend.make()
    graph = around(ToolNode([log.tool("mail")], wrap_tool_call=cached), saver)
    face.invoke(graph, asks(("mail", "1", {"x": 1})), CONFIG)
    found = face.invoke(graph, asks(("mail", "2", {"x": 1})), CONFIG)
    results = [one for one in found["messages"] if one.type == "tool"]
    assert [(one.tool_call_id, one.content) for one in results] == [("1", "got 1"), ("2", "got 1")]
    assert len(log) == 1


def test_a_wrapper_that_asks_after_a_call_does_not_repeat_it(face, backend, log):
    def wrap(request, execute):
        answer = execute(request)
        return answer.model_copy(update={"content": f"{answer.content}, {interrupt('fine?')}"})

    graph = around(ToolNode([log.tool("mail")], wrap_tool_call=wrap), backend.make())
    face.invoke(graph, asks(("mail", "1", {"x": 1})), CONFIG)
    assert answers(face.invoke(graph, Command(resume="fine"), CONFIG)) == [("1", "success", "got 1, fine")]
    assert len(log) == 1


def test_an_async_wrapper_serves_both_faces_when_it_is_alone(face, log):
    async def wrap(request, execute):
        answer = await execute(request)
        return f"wrapped {answer.content}"

    node = ToolNode([log.tool("mail")], awrap_tool_call=wrap)
    found = face.invoke(around(node), asks(("mail", "1", {"x": 1}), ("mail", "2", {"x": 2})))
    assert [text for _, _, text in answers(found)] == ["wrapped got 1", "wrapped got 2"]


def test_a_wrapper_sees_calls_of_unknown_tools_and_may_bring_one(face):
    extra = tool("extra", lambda: "brought")

    def wrap(request, execute):
        return execute(request.override(tool=extra) if request.tool is None else request)

    assert run(face, fails, calls=(("extra", "1", {}),), wrap_tool_call=wrap) == [("1", "success", "brought")]
    request = {}
    run(face, calls=(("nope", "1", {}),), wrap_tool_call=lambda r, e: request.setdefault("x", e(r)))
    assert "not a valid tool" in request["x"].content
