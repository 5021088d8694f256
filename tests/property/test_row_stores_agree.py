"""Random claims, commits, signs of life and reads of several owners: each backend does what a naive model of the row
log says, and so all of them do the same.
"""

import asyncio
import itertools
from contextlib import ExitStack, closing

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from durable_graph.errors import InternalError
from durable_graph.records import MAIN, Beat, Claim, ClaimRequest, CommitItem, Row, RowRange
from tests.backends import BACKENDS
from tests.property.row_model import RefusedError, RowModel, lane

PROFILE = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=30,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
NAMES = ("a", "A", "a ", "a\0", "\ud800")
NAMESPACES = ("", "", "a", "a|b", "a\0", "\udfff")
NOBODY = Claim(0, 7)
REFUSED = "refused"
EXAMPLES = itertools.count(1)

rows = st.builds(
    Row,
    lane=st.integers(1, 3),
    part=st.sampled_from([MAIN, MAIN, 1, 2]),
    seq=st.integers(1, 9) | st.just(2**53 + 1),
    kind=st.integers(0, 2),
    data=st.sampled_from([b"", b"\0", b"one", b"other", b"long" * 300]),
)
lanes = st.builds(
    lane,
    st.integers(1, 3),
    st.sampled_from(NAMESPACES),
    st.tuples(st.integers(0, 2), st.integers(0, 3)),
)
some_lanes = st.lists(lanes, min_size=1, max_size=2, unique_by=lambda info: info.lane).map(tuple)
some_rows = st.lists(rows, min_size=1, max_size=3, unique_by=lambda row: row[:3]).map(tuple)
brought = st.tuples(st.just(()) | some_lanes, rows.map(lambda row: (row,)) | some_rows | st.just(()))
statuses = st.sampled_from([None, None, None, "done", "waiting"])
names = st.sampled_from(NAMES)
owners = st.sampled_from(["ada", "bea", "cyd"])
leases = st.sampled_from([50_000, 400_000, 3_000_000])
places = st.integers(0, 30)
asynchronous = st.booleans()


class Store:
    """A checkpointer that lives over all examples. numbers: of the example's threads here, by those of the model.

    before, newest: the highest number when the example began, and now.
    """

    def __init__(self, checkpointer):
        self.checkpointer = checkpointer
        self.numbers = {}
        self.before = 0

    def begin(self):
        self.before, self.numbers = self.newest, {}

    @property
    def newest(self):
        return max(self.numbers.values(), default=self.before)

    def here(self, claim):
        """The claim with this store's number; NOBODY's is one that no thread has."""
        return claim._replace(no=self.numbers.get(claim.no, 2**50))

    def told(self, info):
        """A thread with the model's number; how it is held is looked at apart."""
        known = {here: no for no, here in self.numbers.items()}
        return info._replace(no=known[info.no], lease=None)

    def call(self, verb, *given, awaited=False, **options):
        if awaited:
            return asyncio.run(getattr(self.checkpointer, f"a{verb}")(*given, **options))
        return getattr(self.checkpointer, verb)(*given, **options)


class RowStores(RuleBasedStateMachine):
    """Each step is done to the model and to each store."""

    def __init__(self, stores):
        super().__init__()
        self.stores = stores
        self.model = RowModel()
        self.claims = []
        self.items = []

    @initialize()
    def begin(self):
        self.example = next(EXAMPLES)
        for store in self.stores.values():
            store.begin()

    def key(self, name):
        return f"{self.example} {name}"

    # --- claims ---

    @rule(name=names, owner=owners, first=st.integers(2, 2**40), brought=brought, lease=leases)
    def make(self, name, owner, first, brought, lease):
        """Refused where the thread is there already."""
        self.claim(ClaimRequest(self.key(name), owner, None, first, 1, 0, *brought, lease))

    @precondition(lambda self: self.model.threads)
    @rule(which=places, owner=owners, number=st.integers(1, 3), brought=brought, lease=leases)
    def take_over(self, which, owner, number, brought, lease):
        thread = self.thread(which)
        request = ClaimRequest(thread.key, owner, thread.epoch, thread.epoch + 1, number, thread.last(number), *brought)
        self.claim(behind(request, thread)._replace(lease=lease))

    @rule(
        name=names,
        owner=owners,
        late=st.integers(0, 1),
        number=st.integers(1, 3),
        blind=st.sampled_from([0, 0, 1, 9]),
        brought=brought,
    )
    def take_over_wrongly(self, name, owner, late, number, blind, brought):
        """By an old epoch, without having seen the newest rows, over rows that are there, or a thread that is not."""
        thread = self.model.threads.get(self.key(name))
        epoch, seen = (5, 0) if thread is None else (thread.epoch - late, max(thread.last(number) - blind, 0))
        self.claim(ClaimRequest(self.key(name), owner, epoch, epoch + 1, number, seen, *brought))

    def thread(self, which):
        return [*self.model.threads.values()][which % len(self.model.threads)]

    def claim(self, request):
        wanted = outcome(self.model.claim, request)
        for store in self.stores.values():
            found = outcome(store.call, "claim", request)
            if not isinstance(wanted, Claim):
                assert found == wanted
                continue
            assert isinstance(found, Claim)
            assert found.epoch == wanted.epoch
            if wanted.no not in store.numbers:
                assert found.no > store.newest  # never used before
                store.numbers[wanted.no] = found.no
            assert store.numbers[wanted.no] == found.no
        if isinstance(wanted, Claim):
            self.claims.append(wanted)

    # --- commits ---

    def held(self, place):
        """Mostly the claim that holds a thread; else one of those that ever were, or of a thread that never was."""
        if place < 6 or not self.model.threads:
            ever = [NOBODY, *self.claims]
            return ever[-place % len(ever)]
        thread = self.thread(place)
        return Claim(thread.no, thread.epoch)

    @precondition(lambda self: self.model.threads)
    @rule(place=places, brought=brought, status=statuses)
    def commit(self, place, brought, status):
        self.commit_all([self.item(place, brought, status)])

    @precondition(lambda self: self.model.threads)
    @rule(place=places, brought=brought, status=statuses)
    def commit_anywhere(self, place, brought, status):
        """Also where other rows or lanes are, or the same."""
        self.commit_all([CommitItem(self.held(place), brought[1], brought[0], status)])

    @precondition(lambda self: self.model.threads)
    @rule(given=st.lists(st.tuples(places, brought, statuses), max_size=4), again=st.none() | places)
    def commit_a_group(self, given, again):
        items = []
        for number, one in enumerate(given):
            item = self.item(*one)
            rows = tuple(row._replace(seq=row.seq + 100 * number) for row in item.rows)  # behind those of the group
            items.append(item._replace(rows=rows, new_lanes=item.new_lanes if number == 0 else ()))
        if again is not None and self.items:
            items.insert(again % (len(items) + 1), self.items[again % len(self.items)])
        self.commit_all(items)

    @precondition(lambda self: self.items)
    @rule(place=places)
    def commit_again(self, place):
        self.commit_all([self.items[-1 - place % len(self.items)]])

    def item(self, place, brought, status):
        claim = self.held(place)
        item = CommitItem(claim, brought[1], brought[0], status)
        thread = self.model.held(claim)
        return item if thread is None else behind(item, thread)

    def commit_all(self, items):
        """A group with an item that is refused may be stored in part, and the others may be sent again."""
        wanted = [outcome(self.model.commit, item) for item in items]
        for store in self.stores.values():
            here = [item._replace(claim=store.here(item.claim)) for item in items]
            found = outcome(store.call, "commit", here)
            if REFUSED not in wanted:
                assert found == wanted
                continue
            assert found == REFUSED
            for item, expected in zip(here, wanted, strict=True):
                again = outcome(store.call, "commit", [item])
                assert again in (expected, [expected], ["already mine"] if expected == "written" else None)
        self.items += [item for item, one in zip(items, wanted, strict=True) if one != "stale"]

    # --- signs of life ---

    @rule(found=st.dictionaries(places, st.tuples(st.booleans(), leases), max_size=3))
    def renew(self, found):
        beats = {self.held(place): Beat(self.held(place), *given) for place, given in found.items()}
        if not beats:
            return
        self.model.renew(beats.values())
        for store in self.stores.values():
            if store.checkpointer.lease is not None:
                store.call("renew", [beat._replace(claim=store.here(beat.claim)) for beat in beats.values()])

    # --- reading ---

    @rule(
        name=names,
        ns=st.sampled_from(NAMESPACES),
        number=st.none() | st.integers(0, 4),
        upto=st.none() | st.integers(0, 12),
        awaited=asynchronous,
    )
    def load(self, name, ns, number, upto, awaited):
        self.check_loaded(self.key(name), awaited=awaited, ns=ns, lane=number, upto=upto)

    def check_loaded(self, key, **options):
        awaited = options.pop("awaited", False)
        wanted = self.model.load(key, **options)
        for store in self.stores.values():
            found = store.call("load", key, awaited=awaited, **options)
            if wanted is None:
                assert found is None
                continue
            assert found._replace(thread=store.told(found.thread)) == wanted
            self.check_lease(store, found.thread)

    def check_lease(self, store, info):
        """Kept where the thread is held, and as long as its last sign of life said; no example takes 40 s."""
        if store.checkpointer.lease is None or info.owner is None:
            assert info.lease is None
            return
        good_for = self.model.threads[info.key].lease
        assert good_for - 40_000 < info.lease.left <= good_for
        assert 0 <= info.lease.silent <= info.lease.held
        assert 0 <= info.lease.still <= info.lease.held

    @rule(
        place=places,
        ranges=st.lists(
            st.builds(RowRange, st.integers(1, 3), st.integers(0, 2), st.integers(0, 9), st.integers(0, 2**60)),
            max_size=4,
        ),
        awaited=asynchronous,
    )
    def read(self, place, ranges, awaited):
        claim = self.held(place)
        wanted = self.model.read(claim.no, ranges)
        for store in self.stores.values():
            assert store.call("read", store.here(claim).no, ranges, awaited=awaited) == wanted

    @rule(place=places, limit=st.integers(1, 4), awaited=asynchronous)
    def list(self, place, limit, awaited):
        after = place % (len(self.model.threads) + 1)
        wanted = self.model.list(after, limit)
        for store in self.stores.values():
            found = store.call("threads", store.numbers[after] if after else store.before, limit, awaited=awaited)
            assert [store.told(info) for info in found] == wanted
            for info in found:
                self.check_lease(store, info)

    @invariant()
    def every_thread_is_what_the_model_says(self):
        for key, thread in self.model.threads.items():
            self.check_loaded(key)
            whole = [RowRange(number, part, 0, 2**62) for number in (1, 2, 3) for part in (0, 1, 2)]
            wanted = self.model.read(thread.no, whole)
            for store in self.stores.values():
                assert store.call("read", store.numbers[thread.no], whole) == wanted


def behind(given, thread):
    """A claim or an item whose rows stand behind all that the thread has, and whose lanes are new."""
    newest = thread.newest_seq()
    rows = tuple(row._replace(seq=row.seq % 100 + newest) for row in given.rows)
    return given._replace(rows=rows, new_lanes=tuple(one for one in given.new_lanes if one.lane not in thread.lanes))


def outcome(verb, *given):
    """What is answered, or that it was refused."""
    try:
        return verb(*given)
    except (RefusedError, InternalError):
        return REFUSED


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    with ExitStack() as opened:
        backends = {name: kind(tmp_path_factory.mktemp(name)) for name, kind in BACKENDS.items()}
        yield {name: Store(opened.enter_context(closing(backend)).make()) for name, backend in backends.items()}


@pytest.mark.timeout(240)  # one long test, which other tests share the machine with
def test_every_backend_keeps_rows_as_a_naive_model_does(stores):
    run_state_machine_as_test(lambda: RowStores(stores), settings=PROFILE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_backend_keeps_rows_as_a_naive_model_does_for_long(stores):
    run_state_machine_as_test(
        lambda: RowStores(stores), settings=settings(PROFILE, max_examples=400, stateful_step_count=50)
    )
