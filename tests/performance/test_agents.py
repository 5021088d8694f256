"""What agents cost that call a tool many times: bytes in proportion to what is said, and calls for each turn.

A turn is one call of the tool: two supersteps. Whoever reads the history gets messages of their own, without paying for
all of them each time. How much a turn costs more for each message before it is counted here.
"""

import itertools

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from tests.performance import graphs
from tests.performance.counting import calls_of, growth, slope, stored_bytes
from tests.performance.libraries import DurableGraph

LINEAR = 1.1
MEGABYTES = 10
TURNS = 100
SHORT = 1000
"""Bytes of a question in the agents whose growth is measured: the less is said, the more all else shows."""

AGENTS = {
    "by hand, dicts": graphs.react_of_dicts,
    "by hand, messages": graphs.react_by_hand,
    "create_react_agent": graphs.react_agent,
    "create_agent": graphs.agent,
}
A_TURN = {"by hand, dicts": 700, "by hand, messages": 1200, "create_react_agent": 1400, "create_agent": 1400}
A_MESSAGE_BEFORE = {"by hand, dicts": 1, "by hand, messages": 1, "create_react_agent": 5, "create_agent": 5}
"""Agents look through the history for calls that nobody answered, and copy nothing: `persistence.reuse`."""


@pytest.fixture
def library():
    return DurableGraph()


@pytest.fixture
def stored(library, tmp_path):
    """A function that runs an agent in a database of its own and tells the database's size."""
    files = (tmp_path / f"{number}.db" for number in itertools.count())

    def measure(agent, turns, size=graphs.QUERY):
        file = next(files)
        with SqliteSaver(file, synchronous="NORMAL") as saver:
            AGENTS[agent](library, size=size, checkpointer=saver).invoke(
                graphs.react_input(turns), graphs.config("thread")
            )
            return stored_bytes(file)

    return measure


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_called_100_tools_takes_at_most_10_megabytes(agent, stored):
    assert stored(agent, TURNS) <= MEGABYTES * 1e6


@pytest.mark.parametrize("agent", AGENTS)
def test_bytes_are_in_proportion_to_the_turns_of_an_agent(agent, stored):
    assert growth(lambda turns: stored(agent, turns, SHORT), (30, 90, 270)) <= LINEAR


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_makes_so_many_calls_and_some_for_each_message_before_it(agent, library):
    graph = AGENTS[agent](library, size=SHORT, checkpointer=InMemorySaver())
    numbers = itertools.count()

    def calls(turns):
        return calls_of(graph.invoke, graphs.react_input(turns), graphs.config(f"thread-{next(numbers)}"))

    early, late = slope(calls, 10, 20), slope(calls, 110, 120)  # 31 messages before, and 231
    message = (late - early) / 200
    assert message <= A_MESSAGE_BEFORE[agent]
    assert early - 31 * message <= A_TURN[agent]
