"""`Command(graph=Command.PARENT)`: a node of a graph inside a node says something to the graph above."""

import pytest

from checkpointers import InMemorySaver
from durable_graph import END, START, Command, Send, StateGraph
from durable_graph.errors import InvalidUpdateError
from tests.behaviour.inside import DURABILITIES, Part, asking, calling, working
from tests.behaviour.making import both, says
from tests.behaviour.small_graphs import Log, Marks, chain, parallel, thread

CFG = thread()
UP = Command.PARENT


def team(*nodes, inner, destinations=("x", "y"), **more):
    """START -> sub, and nodes that only Commands lead to."""
    builder = StateGraph(Log).add_node("sub", inner, destinations=[*destinations]).add_edge(START, "sub")
    for name in destinations:
        builder.add_node(name, says(name))
    for name, node in more.items():
        builder.add_node(name, node)
    return builder


def saying(*commands):
    """A graph whose node returns these, one or a list."""
    given = commands[0] if len(commands) == 1 else list(commands)
    return chain(c1=says("c1"), up=lambda s: given, never=says("never"))


WAYS = pytest.mark.parametrize("as_node", [True, False], ids=["as a node", "called"])


def put(face, inner, as_node):
    return inner if as_node else calling(face, inner)


@DURABILITIES
@WAYS
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_update_and_goto_reach_the_graph_above(face, backend, durability, as_node, stored):
    inner = saying(Command(graph=UP, update={"log": ["up"], "answer": 1}, goto="x")).compile()
    graph = team(inner=put(face, inner, as_node)).compile(backend.make() if stored else None)
    result = face.invoke(graph, {"log": []}, CFG, durability=durability)
    assert result == {"log": ["up", "x"], "answer": 1}


@WAYS
def test_goto_takes_names_sends_and_lists_of_both(face, backend, as_node):
    def part(state):
        return {"log": [f"part {state['number']}"]}

    goto = ["x", Send("part", {"number": 1}), Send("part", {"number": 2}), "y"]
    inner = saying(Command(graph=UP, goto=goto)).compile()
    builder = team(inner=put(face, inner, as_node), part=part)
    assert face.invoke(builder.compile(backend.make()), {"log": []}, CFG)["log"] == ["x", "y", "part 1", "part 2"]


@WAYS
def test_update_and_sends_are_applied_together(face, backend, as_node):
    """In LangGraph the update was lost."""
    sends = [Send("part", {"number": n}) for n in range(3)]
    inner = saying(Command(graph=UP, update={"log": ["up"]}, goto=sends)).compile()
    builder = team(inner=put(face, inner, as_node), part=lambda s: {"log": [s["number"]]})
    assert face.invoke(builder.compile(backend.make()), {"log": []}, CFG)["log"] == ["up", 0, 1, 2]


@WAYS
def test_several_commands_of_one_node_are_all_applied(face, backend, as_node):
    commands = [Command(graph=UP, update={"log": [n]}, goto=node) for n, node in enumerate("xy")]
    graph = team(inner=put(face, saying(*commands).compile(), as_node)).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == [0, 1, "x", "y"]


def test_an_update_alone_leaves_the_edges_of_the_outer_node_as_they_are(face, backend):
    inner = saying(Command(graph=UP, update={"log": ["up"]})).compile()
    graph = chain(sub=inner, z=says("z")).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up", "z"]


def test_goto_end_of_the_graph_above_is_no_place_to_go_to(face, backend):
    graph = team(inner=saying(Command(graph=UP, update={"log": ["up"]}, goto=END)).compile()).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up"]


def test_what_the_inner_graph_wrote_itself_is_not_given_back(face, backend):
    """It ends with the Command, as if it had returned only that."""
    marks = Marks()
    inner = parallel(Part, up=lambda s: Command(graph=UP, update={"log": ["up"]}), sibling=working(marks, "sibling"))
    graph = chain(sub=inner.compile(), z=says("z")).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up", "z"]
    assert marks.count("sibling") == 1


def test_commands_of_siblings_are_all_applied(face, backend):
    inner = parallel(
        left=lambda s: Command(graph=UP, update={"log": ["left"]}, goto="x"),
        right=lambda s: Command(graph=UP, update={"log": ["right"]}, goto="y"),
    )
    graph = team(inner=inner.compile()).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["left", "right", "x", "y"]


def test_a_command_beside_a_sibling_that_asks_waits_for_the_answer(face, backend):
    marks = Marks()

    def up(state):
        marks("up")
        return Command(graph=UP, update={"log": ["up"]}, goto="x")

    inner = parallel(up=up, ask=asking(marks, "ask"))
    graph = team(inner=inner.compile()).compile(backend.make())
    assert len(face.invoke(graph, {"log": []}, CFG)["__interrupt__"]) == 1
    assert face.invoke(graph, Command(resume=1), CFG)["log"] == ["up", "x"]
    assert (marks.count("up"), marks.count("ask")) == (1, 1)


def test_commands_of_parallel_tasks_of_the_outer_graph_are_all_applied(face, backend):
    inner = chain(Part, up=lambda s: Command(graph=UP, update={"log": [s["number"]]}, goto="x")).compile()
    builder = StateGraph(Log).add_node("sub", inner, destinations=["x"]).add_node("x", says("x"))
    builder.add_conditional_edges(START, lambda _: [Send("sub", {"number": n}) for n in range(3)], ["sub"])
    assert face.invoke(builder.compile(backend.make()), {"log": []}, CFG)["log"] == [0, 1, 2, "x"]


@DURABILITIES
@pytest.mark.parametrize("target", ["PARENT twice", "by name"])
def test_a_command_reaches_two_levels_up(face, backend, durability, target):
    """By the name of that graph; or the middle graph hands it on."""
    name = "top" if target == "by name" else UP
    bottom = chain(up=lambda s: Command(graph=name, update={"log": ["up"]}, goto="x" if name == "top" else "on"))
    builder = StateGraph(Log).add_node("deep", bottom.compile(), destinations=["on"]).add_edge(START, "deep")
    builder.add_node("on", lambda s: Command(graph=UP, update={"log": ["on"]}, goto="x"))
    graph = team(inner=builder.compile(name="middle")).compile(backend.make(), name="top")
    result = face.invoke(graph, {"log": []}, CFG, durability=durability)
    assert result["log"] == (["up", "x"] if name == "top" else ["on", "x"])


def test_a_command_may_name_the_next_graph_above(face, backend):
    inner = saying(Command(graph="top", update={"log": ["up"]}, goto="x")).compile()
    graph = team(inner=inner).compile(backend.make(), name="top")
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up", "x"]


def test_async_nodes_say_it_as_sync_ones_do(face, backend):
    for node in both(lambda s: Command(graph=UP, update={"log": ["up"]}, goto="x")):
        graph = team(inner=chain(up=node).compile()).compile(backend.make())
        assert face.invoke(graph, {"log": []}, thread(node.__name__))["log"] == ["up", "x"]


def test_a_node_that_calls_a_graph_ends_with_its_command(face, backend):
    """What it wanted to do afterwards, also in `except Exception`, is not done."""
    inner = saying(Command(graph=UP, update={"log": ["up"]}, goto="x")).compile()
    marks = Marks()

    def node(state):
        try:
            inner.invoke({"log": []})
        except Exception:  # noqa: BLE001 - what is tested
            marks("caught")
        marks("went on")
        return {"log": ["never"]}

    graph = team(inner=node).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up", "x"]
    assert marks.seen == []


def test_a_command_ends_a_node_that_streams_the_graph(face, backend):
    inner = saying(Command(graph=UP, update={"log": ["up"]}, goto="x")).compile()

    def node(state):
        return {"log": [str(one) for one in inner.stream({"log": []})]}

    async def anode(state):
        return {"log": [str(one) async for one in inner.astream({"log": []})]}

    graph = team(inner=node if face.name == "sync" else anode).compile(backend.make())
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["up", "x"]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_the_outermost_graph_has_no_parent(face, backend):
    graph = saying(Command(graph=UP, update={"log": ["up"]})).compile(backend.make())
    with pytest.raises(InvalidUpdateError, match=r"node 'up' returned .*has no parent"):
        face.invoke(graph, {"log": []}, CFG)


def test_an_unknown_graph_is_refused_by_name(face, backend):
    graph = team(inner=saying(Command(graph="nobody", goto="x")).compile()).compile(backend.make(), name="top")
    with pytest.raises(InvalidUpdateError, match=r"no graph above has this name \(there are 'top'\)"):
        face.invoke(graph, {"log": []}, CFG)


@WAYS
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (Command(graph=UP, goto="nowhere"), "'sub' goes to 'nowhere'"),
        (Command(graph=UP, goto=[Send("nowhere", 1)]), "'sub' sends to 'nowhere'"),
        (Command(graph=UP, update={"nothing": 1}), "'sub' wrote to key 'nothing'"),
    ],
    ids=["goto", "send", "update"],
)
def test_what_does_not_fit_the_graph_above_is_refused_there(face, backend, as_node, command, told):
    graph = team(inner=put(face, saying(command).compile(), as_node)).compile(backend.make())
    with pytest.raises(InvalidUpdateError, match=told):
        face.invoke(graph, {"log": []}, CFG)
    assert face.get_state(graph, CFG).next == ("sub",)


def test_a_value_that_cannot_be_stored_is_refused_where_it_comes_from(face, backend):
    inner = saying(Command(graph=UP, update={"log": [object()]})).compile()
    graph = team(inner=inner).compile(backend.make())
    with pytest.raises(TypeError, match="the Command of node 'up' for a graph above cannot be stored"):
        face.invoke(graph, {"log": []}, CFG)


# --- not run again ----------------------------------------------------------------------------------------------------


class DyingSaver(InMemorySaver):
    """A store that is gone at a moment, and back in the next process."""

    def __init__(self):
        super().__init__()
        self.commits_left = None

    def commit(self, items):
        if self.commits_left is not None:
            if not self.commits_left:
                raise DiedError
            self.commits_left -= 1
        return super().commit(items)

    def revive(self):
        """The owner of the thread is dead."""
        self.commits_left = None
        for no in self._by_number:
            self._by_number[no].owner = None


class DiedError(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("levels", [1, 2])
def test_a_node_that_said_something_to_the_graph_above_is_not_run_again_after_a_crash(face, levels):
    seen = set()
    for commits in range(20):
        saver, marks = DyingSaver(), Marks()

        def up(state, marks=marks):
            marks("up")
            return Command(graph="top", update={"log": ["up"]}, goto="x")

        inner = chain(c1=working(marks, "c1"), up=up).compile()
        for _ in range(levels - 1):
            inner = chain(middle=inner).compile()
        graph = team(inner=inner).compile(saver, name="top")
        saver.commits_left = commits
        try:
            face.invoke(graph, {"log": []}, CFG)
        except BaseException as error:
            if "DiedError" not in repr(error):  # it may come in a group
                raise
        else:
            break
        ran = marks.count("up")
        stored = commits and any("Command" in repr(task.routes) for task in pending_inside(saver))
        saver.revive()
        result = face.invoke(graph, None if saver.load("t") else {"log": []}, CFG)
        assert result["log"] == ["up", "x"]
        seen.add((ran, bool(stored)))
        assert marks.count("up") == ran + (not stored), commits
    assert seen >= {(0, False), (1, False), (1, True)}


def pending_inside(saver):
    """What is stored of the tasks of graphs inside."""
    from durable_graph.runtime.session import ask, placed

    found = []
    for lane in saver.load("t").lanes:
        stored = ask(saver, placed("t", lane.lane, None)) if lane.ns else None
        found += list(stored.pending.values()) if stored else []
    return found
