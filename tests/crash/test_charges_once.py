"""A node that charges, asks and ships charges once and ships once, under fifty SIGKILLs."""

import os
import random
import signal
import sys
from collections import Counter

import pytest

from durable_graph.testing import Ledger
from durable_graph.testing.processes import ForkServer
from tests.crash import charging

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

KILLS = 50
MOST_LIVES = 400

BOTH = pytest.mark.parametrize(
    ("backend", "face"),
    [
        ("sqlite", "sync"),
        ("sqlite", "async"),
        ("postgres", "sync"),
        pytest.param("postgres", "async", marks=pytest.mark.slow),
    ],
    indirect=["backend"],
)
MORE = pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)


class Order:
    """One order, in one process after the other."""

    def __init__(self, server, folder, backend, face, number):
        self.ledger = Ledger(folder / f"ledger {number}.jsonl")
        self._server = server
        self._face = face
        self._database = backend.url()
        self._thread = f"order {number}"
        self._store = backend.reopen()
        self._looking = charging.graph(face, self._store)
        self._recorded = set()
        self._made = Counter()
        self.kills = 0
        self.lives = 0

    def live(self, *, dies_at=None, kill_after=None):
        """One life. What was durable when it began must not have happened again in it."""
        assert self.lives < MOST_LIVES
        ended = self._server.call(
            "tests.crash.charging:live",
            kill_after=kill_after or 60.0,
            face=self._face,
            database=self._database,
            thread=self._thread,
            ledger=str(self.ledger.path),
            dies_at=dies_at,
        )
        assert ended.code in (0, -signal.SIGKILL), ended.error
        self.lives += 1
        self.kills += ended.code == -signal.SIGKILL
        made = Counter(entry.name for entry in self.ledger.entries())
        for name in self._recorded:
            assert made[name] == self._made[name], f"{name} was done again after its result was durable"
        self._recorded |= charging.recorded(self._store, self._thread)
        self._made = made
        return ended

    @property
    def over(self):
        """Whether the order is done."""
        snapshot = self._looking.get_state(charging.config(self._thread))
        return snapshot.metadata is not None and not snapshot.next

    def check(self):
        """Each effect has one key over all lives, and the state is that of an order that nothing disturbed."""
        keys = {name: {entry.key for entry in self.ledger.entries() if entry.name == name} for name in self._made}
        assert {name: len(found) for name, found in keys.items()} == {"charge": 1, "ship": 1}
        assert keys["charge"].isdisjoint(keys["ship"])
        assert self._looking.get_state(charging.config(self._thread)).values["log"] == charging.DONE
        return keys["charge"]

    def finish(self):
        """Live until the order is done; nobody kills any more."""
        while not self.over:
            self.live()
        self._store.close()
        return self.check()


@pytest.fixture
def server():
    with ForkServer() as server:
        server.here("tests.crash.charging:load")
        yield server


def tell(face, how, orders):
    kills, lives = (sum(getattr(order, name) for order in orders) for name in ("kills", "lives"))
    made = Counter(entry.name for order in orders for entry in order.ledger.entries())
    sys.stdout.write(
        f"{face}, killed {how}: {len(orders)} orders, {lives} lives, {kills} SIGKILLs; calls {dict(made)}\n"
    )


@BOTH
def test_one_order_is_charged_and_shipped_once_under_fifty_kills(server, tmp_path, backend, face):
    order = Order(server, tmp_path, backend, face, 1)
    while order.kills < KILLS:
        assert not order.over
        # A life looks at the thread twice, claims it (moments 1 to 6), and has its effect (7). Only every twelfth lives
        # until that is recorded (9).
        order.live(dies_at=9 if order.lives % 12 == 11 else 1 + order.lives * 3 % 7)
    made = Counter(entry.name for entry in order.ledger.entries())
    assert made["charge"] > 1
    assert made["ship"] > 1
    _ = order.finish()
    tell(face, "again and again", [order])
    assert order.kills == KILLS


@MORE
@pytest.mark.parametrize("face", ["sync", "async"])
def test_orders_are_charged_and_shipped_once_wherever_they_are_killed(server, tmp_path, backend, face):
    whole = Order(server, tmp_path, backend, face, 0)
    moments = [whole.live().value, whole.live().value]  # until it asks, and after the answer
    assert whole.finish()
    orders, keys = [], set()
    for first in range(1, sum(moments) + 1):
        order = Order(server, tmp_path, backend, face, first)
        if first > moments[0]:
            order.live()
        order.live(dies_at=first if first <= moments[0] else first - moments[0])
        assert order.kills == 1
        for moment in (1 + first % 9, 1 + first % 4):
            if not order.over:
                order.live(dies_at=moment)
        keys |= order.finish()
        orders.append(order)
    tell(face, "at every moment", orders)
    assert sum(order.kills for order in orders) >= KILLS
    assert len(keys) == len(orders)


@MORE
@pytest.mark.parametrize("face", ["sync", "async"])
def test_orders_are_charged_and_shipped_once_whenever_they_are_killed(server, tmp_path, backend, face):
    seed = random.randrange(1 << 32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    whole = Order(server, tmp_path, backend, face, 0)
    seconds = whole.live().seconds
    assert whole.finish()
    orders, keys = [], set()
    while sum(order.kills for order in orders) < KILLS:
        order = Order(server, tmp_path, backend, face, len(orders) + 1)
        for _ in range(6):
            if not order.over:
                order.live(kill_after=chance.uniform(0.001, seconds))
        keys |= order.finish()
        orders.append(order)
    tell(face, "at random", orders)
    assert len(keys) == len(orders)
