"""Random calls of a user on every backend: the same answers, the same errors, the same histories.

What the answers must be is for the naive models of `test_histories` to say; here is only looked at what holds whatever
they are: nothing that was stored changes, every checkpoint has its parent, and what was put in comes back out.
"""

import itertools
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from durable_graph import END, START, Command
from durable_graph.types import StateUpdate
from tests.backends import BACKENDS
from tests.faces import FACES
from tests.property.agreeing_graphs import BROKEN, FRAGILE, GRAPHS, NODES
from tests.property.agreement import Side, told

PROFILE = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=16,
    stateful_step_count=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NUMBERS = itertools.count(1)

single = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from(
        [
            "\ud800",
            Decimal("1.50"),
            UUID(int=7),
            datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
            datetime(2024, 2, 29, tzinfo=timezone(timedelta(minutes=-90))),
            timedelta(microseconds=-1),
        ]
    ),
)
bags = st.recursive(
    single,
    lambda inside: st.one_of(
        st.lists(inside, max_size=2),
        st.tuples(inside, inside),
        st.frozensets(st.integers(0, 3) | st.text(max_size=1), max_size=2),
        st.dictionaries(st.text(max_size=2) | st.integers(0, 2), inside, max_size=2),
    ),
    max_leaves=4,
)
values = st.fixed_dictionaries(
    {}, optional={"log": st.lists(single, max_size=2), "total": st.integers(0, 3), "bag": bags}
)
ats = st.none() | st.integers(0, 40)
faces = st.sampled_from(FACES)
places = st.integers(0, 7)
durabilities = st.sampled_from(["sync", "async", "exit"])
breakages = st.sampled_from([None, None, None, 0, 1, 2, 3])
breakpoints = st.sampled_from([{}, {}, {"interrupt_before": "*"}, {"interrupt_after": "*"}])


@dataclass(frozen=True)
class Thread:
    name: str
    kind: str

    @property
    def namespaces(self):
        return ["", "outer"] if self.kind == "nesting" else [""]

    @property
    def nodes(self):
        """What an edit may be made as."""
        return [None, *NODES[self.kind], START, END, "__input__", "__copy__", "nobody"]


class Users(RuleBasedStateMachine):
    """Each step is done to each side."""

    threads = Bundle("threads")

    def __init__(self, checkpointers):
        super().__init__()
        self.sides = {name: Side(checkpointer) for name, checkpointer in checkpointers.items()}
        self.unfinished = []
        self.asking = []

    @rule(
        target=threads,
        kind=st.sampled_from([*GRAPHS, "asking", "nesting"]),
        ending=st.sampled_from(["", "A", "a", " ", "\0", "\udfff", "%s"]),
        given=st.none() | values,
        durability=durabilities,
        broken=breakages,
        face=faces,
    )
    def begin(self, kind, ending, given, durability, broken, face):
        """A thread, mostly with a run."""
        thread = Thread(f"{next(NUMBERS)} {kind}{ending}", kind)
        if given is not None:
            self.put_in(thread, given, None, durability, broken, face, "reject")
        return thread

    # --- runs ---

    @rule(
        thread=threads,
        given=values,
        at=ats,
        durability=durabilities,
        broken=breakages,
        face=faces,
        on_unfinished=st.sampled_from(["abandon", "finish", "reject"]),
    )
    def put_in(self, thread, given, at, durability, broken, face, on_unfinished):
        options = {"on_unfinished": on_unfinished, "durability": durability}
        self.run(thread, lambda side: given, at, face, broken, bag=given.get("bag", ...), **options)

    @precondition(lambda self: self.unfinished)
    @rule(which=places, durability=durabilities, broken=breakages, stops=breakpoints, face=faces)
    def go_on(self, which, durability, broken, stops, face):
        thread = self.unfinished[which % len(self.unfinished)]
        self.run(thread, lambda side: None, None, face, broken, durability=durability, **stops)

    @rule(thread=threads, at=ats, durability=durabilities, broken=breakages, stops=breakpoints, face=faces)
    def run_again(self, thread, at, durability, broken, stops, face):
        self.run(thread, lambda side: None, at, face, broken, durability=durability, **stops)

    @precondition(lambda self: self.asking)
    @rule(which=places, some=st.integers(1, 7), answer=bags, alone=st.booleans(), durability=durabilities, face=faces)
    def answer(self, which, some, answer, alone, durability, face):
        self.tell(self.asking[which % len(self.asking)], some, answer, None, face, alone=alone, durability=durability)

    @rule(thread=threads, some=st.integers(0, 7), answer=bags, at=ats, face=faces)
    def answer_again(self, thread, some, answer, at, face):
        """What was asked at a checkpoint, on a branch; where nothing was, it is refused."""
        self.tell(thread, some, answer, at, face, alone=False)

    def tell(self, thread, some, answer, at, face, *, alone, **options):
        """One answer for the only question, or those of some by their ids."""

        def given(side):
            asked = side.questions(thread, face, at)
            chosen = [one for number, one in enumerate(asked) if some >> number & 1] or ["intr_" + "0" * 32]
            return Command(resume=answer if alone else dict.fromkeys(chosen, answer))

        self.run(thread, given, at, face, **options)

    @rule(thread=threads, given=values, goto=places, at=ats, face=faces)
    def command(self, thread, given, goto, at, face):
        target = NODES[thread.kind][goto % len(NODES[thread.kind])]
        command = Command(update=given or None, goto=() if target == "work" else target)  # work takes what is sent
        self.run(thread, lambda side: command, at, face)  # an input that waits there may write over what it brings

    def run(self, thread, given, at, face, broken=None, *, bag=..., **options):
        """Invoke. broken: the number of the node that fails."""
        if broken is not None:
            BROKEN.add(FRAGILE[thread.kind][broken % len(FRAGILE[thread.kind])])

        def call(side):
            graph = side.graphs[thread.kind]
            return side.outcome(face.invoke, graph, given(side), side.config(thread, at), **options)

        try:
            self.check(thread, face, call, bag, finishes=options.get("on_unfinished") == "finish")
        finally:
            BROKEN.clear()

    # --- edits ---

    @rule(thread=threads, given=values, name=places, at=ats, face=faces)
    def edit(self, thread, given, name, at, face):
        name = thread.nodes[name % len(thread.nodes)]
        changes = None if name == "__copy__" else given
        # What is put in as "__input__" is in the state once the run begins.
        bag = ... if name in ("__copy__", "__input__") else given.get("bag", ...)

        def call(side):
            graph = side.graphs[thread.kind]
            return side.outcome(face.update_state, graph, side.config(thread, at), changes, as_node=name)

        self.check(thread, face, call, bag)

    @rule(thread=threads, given=st.lists(st.tuples(values, places), min_size=2, max_size=3), at=ats, face=faces)
    def edit_several_times(self, thread, given, at, face):
        steps = [[StateUpdate(found, thread.nodes[name % len(thread.nodes)])] for found, name in given]

        def call(side):
            graph = side.graphs[thread.kind]
            return side.outcome(face.call, graph, "bulk_update_state", side.config(thread, at), steps)

        self.check(thread, face, call)

    # --- reading ---

    @rule(
        thread=threads,
        at=ats,
        before=ats,
        limit=st.none() | st.integers(0, 5),
        wanted=st.sampled_from([None, {"source": "loop"}, {"source": "update"}, {"step": 1}, {"step": True}]),
        other=threads,
        face=faces,
    )
    def read(self, thread, at, before, limit, wanted, other, face):
        """Part of a history, and one checkpoint with the graphs inside; also where the id is that of another thread."""

        def call(side):
            graph, config = side.graphs[thread.kind], side.config(thread, at)
            page = {} if before is None else {"before": side.config(thread, before)}
            history = side.outcome(face.get_state_history, graph, config, limit=limit, filter=wanted, **page)
            strange = {"configurable": {**side.config(other, at)["configurable"], "thread_id": thread.name}}
            asked = (config, strange)
            return [history, *(side.outcome(face.get_state, graph, one, subgraphs=True) for one in asked)]

        self.same(call)

    # --- what must hold ---

    def same(self, call):
        """What the call gives, which is the same on all sides."""
        found = {name: call(side) for name, side in self.sides.items()}
        first, *others = found
        for other in others:
            assert found[other] == found[first], f"{first} and {other} differ"
        return found[first]

    def check(self, thread, face, call, bag=..., *, finishes=False):
        """Do what changes a thread; then everything that it shows is the same, and what it showed is still there.

        bag: what was put in.   finishes: before it refuses anything it goes on with what is unfinished.
        """
        before = self.lasting(thread)
        outcome = self.same(call)
        for side in self.sides.values():
            side.look(thread, face)
        self.same(lambda side: [one.text for one in side.known(thread)])
        self.same(lambda side: side.rows(thread))
        now = self.lasting(thread)
        for old, new in zip(before, now, strict=True):
            assert new[: len(old)] == old
        if finishes and not outcome.startswith("gave"):
            bag = ...
        elif outcome.startswith("refused"):
            assert now == before
        for side in self.sides.values():
            for ns in thread.namespaces:
                is_a_tree(side.histories[thread.name, ns])
            self.check_head(side, thread, face, ... if now == before else bag)

    def lasting(self, thread):
        """Per side and namespace what was shown of each checkpoint, in their order."""
        return [
            [one.lasting for one in side.histories.get((thread.name, ns), [])]
            for side in self.sides.values()
            for ns in thread.namespaces
        ]

    def check_head(self, side, thread, face, bag):
        """The thread stands at its newest checkpoint, nobody holds it, and what was put in is there as it was."""
        live = face.get_state(side.graphs[thread.kind], side.config(thread))
        history = side.histories[thread.name, ""]
        assert live.config["configurable"].get("checkpoint_id") == (history[-1].id if history else None)
        if history:
            assert side.rows(thread)[0][0] is None
        for threads, belongs in ((self.unfinished, live.next), (self.asking, live.interrupts)):
            if thread in threads:
                threads.remove(thread)
            if belongs:
                threads.append(thread)
        if bag is not ...:
            assert told(live.values["bag"]) == told(bag)


def is_a_tree(history):
    """Ids tell the order, each parent is there and older, and a lane has no fork."""
    ids = [one.id for one in history]
    assert ids == sorted(set(ids))
    followed = set()
    for number, one in enumerate(history):
        assert one.parent is None or one.parent in ids[:number]
        if one.parent is not None and one.parent.split(".")[1] == one.lane:
            assert one.parent not in followed
            followed.add(one.parent)


@pytest.fixture(scope="module")
def checkpointers(tmp_path_factory):
    with ExitStack() as opened:
        backends = {name: kind(tmp_path_factory.mktemp(name)) for name, kind in BACKENDS.items()}
        yield {name: opened.enter_context(closing(backend)).make() for name, backend in backends.items()}


@pytest.mark.timeout(240)  # one long test, which other tests share the machine with
def test_every_backend_gives_users_the_same(checkpointers):
    run_state_machine_as_test(lambda: Users(checkpointers), settings=PROFILE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_backend_gives_users_the_same_for_long(checkpointers):
    longer = settings(PROFILE, max_examples=200, stateful_step_count=25)
    run_state_machine_as_test(lambda: Users(checkpointers), settings=longer)
