"""SIGKILL inside the second of three tool calls: what is done stays done, and the history stays valid.

By hand, the three calls are recorded steps of one task. An agent makes a task of each (a Send for each call), which is
recorded as the task it is.
"""

import asyncio
import operator
import os
import signal
import time
from functools import partial
from typing import Annotated, TypedDict

import pytest

from durable_graph import END, START, Command, StateGraph
from durable_graph.agents import create_agent
from durable_graph.messages import AIMessage, HumanMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import ToolNode, ToolRuntime, tool, tools_condition
from durable_graph.testing.ledger import Ledger, write_to
from durable_graph.testing.processes import ForkServer
from tests.backends import open_url

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

LIFE = f"{__name__}:life" if __name__.startswith("tests.") else "tests.crash.test_tools_killed:life"
LEDGER = Ledger()


class State(TypedDict):
    messages: Annotated[list, operator.add]


def answer(history):
    """Asks for three calls, and then says that it is done."""
    if isinstance(history[-1], HumanMessage):
        names = ("first", "second", "third")
        return AIMessage("", id="ask", tool_calls=[{"name": n, "args": {}, "id": n} for n in names])
    return AIMessage("done", id="end")


def config(thread):
    return {"configurable": {"thread_id": thread}}


def recorded(database, thread, name):
    """Whether the record of a call is in the database: looked up beside the run."""
    with open_url(database) as saver:
        graph = StateGraph(State).add_node("tools", lambda state: None).add_edge(START, "tools").compile(saver)
        tasks = graph.get_state(config(thread)).tasks
        results = [message for task in tasks for message in (task.result or {}).get("messages", ())]
        return any(name in task.calls for task in tasks) or name in [one.tool_call_id for one in results]


def build(kind, saver, policy, is_recorded=None):
    """`is_recorded` tells whether a call is; without it the calls are made one by one."""
    at_once = is_recorded is not None

    def done(name, runtime):
        LEDGER.append(name, runtime.idempotency_key)
        return f"{name} done"

    @tool
    def first(runtime: ToolRuntime) -> str:
        return done("first", runtime)

    @tool
    def second(runtime: ToolRuntime) -> str:
        text = done("second", runtime)
        if called("second") == 1:
            while at_once and not (is_recorded("first") and called("third")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return text

    @tool
    def third(runtime: ToolRuntime) -> str:
        text = done("third", runtime)
        while at_once and called("second") < 2:
            time.sleep(0.01)  # in flight when the process dies
        return text

    tools = ToolNode([first, second, third], on_unknown=policy)
    if kind == "agent":
        return create_agent(ScriptedChatModel(answer), tools, checkpointer=saver)
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [answer(state["messages"])]})
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(saver)


def called(name):
    return sum(count for (one, _), count in LEDGER.counts().items() if one == name)


def life(folder, database, kind, face, policy, at_once, answer):
    """One process: goes on with the folder's thread. What was asked, or the history."""
    write_to(f"{folder}/ledger")
    with open_url(database) as saver:
        graph = build(kind, saver, policy, partial(recorded, database, folder) if at_once else None)
        mine = config(folder) if at_once else {**config(folder), "max_concurrency": 1}
        given = None
        if graph.get_state(mine).metadata is None:
            given = {"messages": [HumanMessage("go", id="go")]}
        elif answer is not None:
            given = Command(resume=answer)
        found = graph.invoke(given, mine) if face == "sync" else asyncio.run(graph.ainvoke(given, mine))
        if asked := found.get("__interrupt__"):
            return {"asked": asked[0].value, "id": asked[0].id, "count": len(asked)}
        return [[one.type, one.text, getattr(one, "tool_call_id", None)] for one in found["messages"]]


HISTORY = [
    ["human", "go", None],
    ["ai", "", None],
    ["tool", "first done", "first"],
    ["tool", "second done", "second"],
    ["tool", "third done", "third"],
    ["ai", "done", None],
]


class Lives:
    def __init__(self, server, folder, backend, kind, *, face="sync", policy="rerun", at_once=False):
        folder.mkdir(exist_ok=True)
        self.ledger = Ledger(folder / "ledger")
        self._server = server
        self._given = {"folder": str(folder), "database": backend.url(), "kind": kind, "face": face}
        self._given |= {"policy": policy, "at_once": at_once}

    def live(self, answer=None):
        ended = self._server.call(LIFE, kill_after=50, answer=answer, **self._given)
        assert not ended.error, ended.error
        return ended.value if ended.code == 0 else ended.code

    def keys(self, name):
        return [entry.key for entry in self.ledger.entries() if entry.name == name]


def load():
    """What all children need, loaded before they are forked."""
    from checkpointers import PostgresSaver, SqliteSaver

    for kind in ("by hand", "agent"):
        for saver in (SqliteSaver("never made.db"), PostgresSaver("dbname=never_opened")):
            build(kind, saver, "rerun")


@pytest.fixture(scope="module")
def server():
    with ForkServer() as server:
        server.here(LIFE.replace(":life", ":load"))
        yield server


def check(lives, *, thirds=1):
    assert lives.live() == -signal.SIGKILL
    assert lives.live() == HISTORY
    assert len(lives.keys("first")) == 1
    assert len(lives.keys("second")) == 2
    assert len(lives.keys("third")) == thirds
    assert len({key for name in ("first", "second", "third") for key in lives.keys(name)}) == 3


BOTH = pytest.mark.parametrize("kind", ["by hand", "agent"])
FACES = pytest.mark.parametrize("face", ["sync", "async"])
BACKENDS = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
MORE = pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)


@BOTH
@FACES
@BACKENDS
def test_one_by_one_the_first_is_not_repeated_the_second_has_the_same_key_the_third_runs_once(
    server, tmp_path, backend, kind, face
):
    for number in range(3):
        check(Lives(server, tmp_path / str(number), backend, kind, face=face))


@BOTH
@BACKENDS
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_fifty_times(server, tmp_path, backend, kind):
    for number in range(50):
        check(Lives(server, tmp_path / str(number), backend, kind, face=("sync", "async")[number % 2]))


@BOTH
@FACES
@MORE
def test_at_once_the_first_is_not_repeated_and_those_in_flight_have_the_same_keys(
    server, tmp_path, backend, kind, face
):
    for number in range(3):
        check(Lives(server, tmp_path / str(number), backend, kind, face=face, at_once=True), thirds=2)


@BOTH
@FACES
@MORE
@pytest.mark.parametrize(
    ("answer", "said", "seconds"), [("rerun", "second done", 2), ({"result": "it was booked"}, "it was booked", 1)]
)
def test_a_human_is_asked_about_the_call_whose_outcome_nobody_knows(
    server, tmp_path, backend, kind, face, answer, said, seconds
):
    lives = Lives(server, tmp_path / "one", backend, kind, face=face, policy="ask")
    assert lives.live() == -signal.SIGKILL
    asked = lives.live()
    assert asked["count"] == 1
    assert asked["asked"]["step"] == "second"
    assert asked["asked"]["idempotency_key"] == lives.keys("second")[0]
    assert lives.live(answer) == [[kind, said if key == "second" else text, key] for kind, text, key in HISTORY]
    assert [len(lives.keys(name)) for name in ("first", "second", "third")] == [1, seconds, 1]
