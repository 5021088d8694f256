"""How pytest-xdist hands tests to its workers: as its `--dist loadgroup` does, but many at once.

Its mark `xdist_group` has no effect since pytest 9.2, whose node ids xdist 3.8 cannot lengthen: files are named here.
"""

from functools import cached_property

from xdist.scheduler import LoadGroupScheduling

MOST = 20
TOGETHER = {
    "tests/behaviour/test_agent_demo.py",
    "tests/behaviour/test_demo.py",
    "tests/packaging/test_wheel.py",
}
"""Files whose tests look at one thing that takes long to make: one worker gets all of them."""


class Scheduling(LoadGroupScheduling):
    """xdist sends each test by itself, and whenever one ends it counts all that a worker ever had: with 15,000 of them
    that is a minute, in which workers wait. Here several go at once, single ones only in the end, and what is over is
    forgotten.
    """

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file in TOGETHER else nodeid

    def _assign_work_unit(self, node):
        share = len(self.workqueue) // (8 * len(self.assigned_work))
        units = dict(self.workqueue.popitem(last=False) for _ in range(max(1, min(share, MOST))))
        self.assigned_work[node].update(units)
        node.send_runtest_some([self._places[test] for unit in units.values() for test in unit if not unit[test]])

    @cached_property
    def _places(self):
        return {test: place for place, test in enumerate(self.collection)}

    def mark_test_complete(self, node, item_index, duration=0):
        super().mark_test_complete(node, item_index, duration)
        unit = self._split_scope(self.collection[item_index])
        if all(self.assigned_work[node][unit].values()):
            del self.assigned_work[node][unit]
