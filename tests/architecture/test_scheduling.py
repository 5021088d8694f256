"""The scheduler of the tests themselves: each test goes to one worker, once, and some files go as a whole."""

from types import SimpleNamespace

import pytest

from tests.scheduling import TOGETHER, Scheduling
from tests.sources import ROOT

WHOLE = min(TOGETHER)


class Node:
    """A worker that does as it is told."""

    shutting_down = False

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.left = []
        self.ran = []

    def send_runtest_some(self, places):
        self.left += places

    def shutdown(self):
        self.shutting_down = True


def scheduled(tests):
    """What each of two workers ran."""
    options = SimpleNamespace(tx=["2*popen"], loadscopereorder=True)
    config = SimpleNamespace(option=options, getvalue=lambda name: getattr(options, name))
    scheduling, nodes = Scheduling(config), [Node("a"), Node("b")]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    while any(node.left for node in nodes):
        for node in nodes:
            if node.left:
                place = node.left.pop(0)
                node.ran.append(tests[place])
                scheduling.mark_test_complete(node, place)
    assert scheduling.tests_finished
    assert not scheduling.has_pending
    return [node.ran for node in nodes]


@pytest.mark.parametrize("count", [1, 2, 5, 50, 1000])
def test_each_test_runs_once_and_no_worker_has_much_more_than_another(count):
    tests = [f"tests/test_a.py::test_{number}[x::y]" for number in range(count)]
    first, second = scheduled(tests)
    assert sorted(first + second) == sorted(tests)
    assert abs(len(first) - len(second)) <= 2


def test_a_file_whose_tests_share_what_takes_long_goes_to_one_worker():
    tests = [f"{file}::test_{number}" for number in range(30) for file in ("tests/test_a.py", WHOLE)]
    first, second = scheduled(tests)
    assert sorted(first + second) == sorted(tests)
    assert sorted(sum(test.startswith(WHOLE) for test in ran) for ran in (first, second)) == [0, 30]


def test_files_that_go_together_exist():
    assert [file for file in TOGETHER if not (ROOT / file).is_file()] == []
