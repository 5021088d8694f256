"""Backends that break one promise about the queue each, as those in broken.py: what is wrong is in `Rows`."""

import sys
import time

from durable_graph.persistence.run_rows import RunFilter
from tests.conformance.broken import OnDisk, Sound, breaks


class Passing:
    """The rows as they are, with a place for faults."""

    def __init__(self, rows, checkpointer):
        self.inner = rows
        self.checkpointer = checkpointer

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Queued(Sound):
    """The sound one, with a queue."""

    offers = frozenset({"survives_fork", "runs"})
    Rows = Passing

    def __init__(self, folder=None):
        super().__init__(folder)
        self.seen = {}

    def with_runs(self, work, *, reads=False):
        return self.inner.with_runs(lambda rows: work(self.Rows(rows, self)), reads=reads)


# --- transactions ----------------------------------------------------------------------------------------------------


@breaks("a_transaction_of_the_queue_is_kept_as_a_whole")
class AnswersNothing(Queued):
    def with_runs(self, work, *, reads=False):
        answer = super().with_runs(work, reads=reads)
        return None if answer == "answer" else answer


@breaks("a_transaction_that_fails_keeps_nothing")
class KeepsHalf(Queued):
    def with_runs(self, work, *, reads=False):
        def ends_well(rows):
            try:
                return work(rows), None
            except Exception as error:  # noqa: BLE001 - raised again below, once all is kept
                return None, error

        answer, error = super().with_runs(ends_well, reads=reads)
        if error is not None:
            raise error
        return answer


class LastWins:
    """Work on a counter may meet other work on it between its look and its change, and the last one wins."""

    def overwriting(self, work):
        rows = Counter()
        rows.row = self.with_runs(lambda known: known.find("counter"), reads=True)
        work(rows)
        time.sleep(0.002)
        return self.with_runs(lambda known: known.change(rows.new, "queued"))


class Counter:
    """What the work on a counter sees, and what it changed."""

    def hold(self, *names):
        pass

    def find(self, id):
        return self.row

    def change(self, row, was):
        self.new = row
        return True


def counts(work):
    return work.__qualname__.startswith("adding_one")


@breaks("who_holds_a_name_is_alone")
class Together(LastWins, Queued):
    def with_runs(self, work, *, reads=False):
        return self.overwriting(work) if counts(work) else super().with_runs(work, reads=reads)


@breaks("of_many_processes_each_holds_a_name_alone")
class AloneInItsProcess(LastWins, OnDisk):
    def with_runs(self, work, *, reads=False):
        in_a_child = "pytest" not in sys.modules
        return self.overwriting(work) if counts(work) and in_a_child else super().with_runs(work, reads=reads)


@breaks("of_many_processes_none_gets_a_run_of_another")
class TakesWhatAnotherHas(OnDisk):
    def with_runs(self, work, *, reads=False):
        answer = super().with_runs(work, reads=reads)
        if isinstance(answer, list) and answer and getattr(answer[0], "owner", None) == "process 1":
            return [*answer, super().with_runs(lambda rows: rows.find("0"))]
        return answer


@breaks("no_event_of_another_process_is_missed")
class ForgetsWhatOthersEmit(OnDisk):
    def with_runs(self, work, *, reads=False):
        answer = super().with_runs(work, reads=reads)
        if work.__qualname__.startswith("emitting") and "pytest" not in sys.modules:
            super().with_runs(unwake)
        return answer


def unwake(rows):
    for row in rows.search(RunFilter(status="waiting"), 100):
        rows.change(row._replace(due=None), "waiting")


# --- runs ------------------------------------------------------------------------------------------------------------


@breaks("a_run_is_kept_as_it_was_submitted")
class ForgetsReports(Queued):
    class Rows(Passing):
        def add(self, row):
            return self.inner.add(row._replace(report=row.report or None))


@breaks("a_run_whose_id_is_taken_is_not_kept")
class KeepsTheNewest(Queued):
    class Rows(Passing):
        def add(self, row):
            known = self.inner.find(row.id)
            if known is None or row.request != b"new":
                return self.inner.add(row)
            self.inner.change(known._replace(request=row.request), known.status)
            return False


@breaks("any_text_names_runs_threads_graphs_events_and_schedules")
class CutsAtNul(Queued):
    class Rows(Passing):
        def open_runs(self, thread):
            return self.inner.open_runs(thread.partition("\0")[0])


@breaks("runs_are_numbered_in_the_order_they_were_submitted")
class OrdersByRank(Queued):
    class Rows(Passing):
        def open_runs(self, thread):
            return sorted(self.inner.open_runs(thread), key=lambda row: row.due or 0)


@breaks("how_the_run_before_ended_is_known")
class LooksAtItselfToo(Queued):
    class Rows(Passing):
        def ended_before(self, thread, no):
            return self.inner.ended_before(thread, no + 1)


@breaks("a_search_gives_the_newest_first")
class ForgetsTheStatus(Queued):
    class Rows(Passing):
        def search(self, wanted, limit):
            return self.inner.search(wanted._replace(status=None), limit)


@breaks("a_change_of_a_run_is_kept")
class KeepsAnswers(Queued):
    class Rows(Passing):
        def change(self, row, was):
            answers = self.inner.search(RunFilter(), 1)[0].answers
            return self.inner.change(row._replace(answers=row.answers or answers), was)


@breaks("a_change_of_a_run_that_is_another_by_now_is_refused")
class AcceptsLateChanges(Queued):
    class Rows(Passing):
        def change(self, row, was):
            known = self.inner.find(row.id)
            late = known.attempt > row.attempt and row.no == known.no and row.owner == "worker"
            return self.inner.change(row._replace(attempt=known.attempt) if late else row, was)


# --- taking ----------------------------------------------------------------------------------------------------------


@breaks("a_run_that_is_taken_is_its_takers")
class TellsTheNewStatus(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            given = self.inner.take(taking, clock)
            return [row._replace(status="running") for row in given] if taking.owner == "me" else given


@breaks("runs_are_taken_by_rank_then_time_then_order")
class TheNewestFirst(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            given = self.inner.take(taking, clock)
            return sorted(given, key=lambda row: (row.rank, row.due, -row.no))


@breaks("a_run_is_not_taken_before_its_time")
class TakesWhatWaits(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            for row in self.inner.search(RunFilter(status="queued"), 100):
                if row.id == "never":
                    self.inner.change(row._replace(due=1), "queued")
            return self.inner.take(taking, clock)


@breaks("runs_of_other_graphs_are_left_alone")
class TakesOfAllGraphsWhereNoneIsAsked(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            graphs = taking.graphs or [row.graph for row in self.inner.search(RunFilter(), 100)]
            return self.inner.take(taking._replace(graphs=graphs), clock)


@breaks("a_run_comes_after_all_before_it_in_its_thread")
class PassesWhatWaits(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            given = self.inner.take(taking, clock)
            first, *rest = self.inner.open_runs("thread") or [None]
            if first and first.status == "waiting" and first.due is None and taking.graphs == ("graph",):
                given += rest[:1]
            return given


@breaks("a_run_whose_worker_is_gone_is_given_again")
class KeepsTheDead(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            return self.inner.take(taking._replace(dead=()), clock)


@breaks("no_run_is_given_to_two")
class GivesTwice(Queued):
    class Rows(Passing):
        def take(self, taking, clock):
            given = self.inner.take(taking, clock)
            again = not given and taking.owner.startswith("taker") and not self.checkpointer.seen
            if again:
                self.checkpointer.seen["given again"] = taking.owner
            return [self.inner.find("0")] if again else given


@breaks("a_sign_of_life_is_of_a_run_that_is_still_ones_own")
class AnybodyBeats(Queued):
    class Rows(Passing):
        def beat(self, runs, clock, lease):
            known = {row.no: row.attempt for row in self.inner.search(RunFilter(status="running"), 100)}
            return self.inner.beat([(no, known.get(no, attempt)) for no, attempt in runs], clock, lease)


@breaks("runs_that_shall_stop_are_known_by_their_owner")
class StopsThoseOfOthers(Queued):
    class Rows(Passing):
        def stopped(self, owner):
            return [row.no for row in self.inner.search(RunFilter(status="running"), 100) if row.stop]


@breaks("what_is_pending_is_counted")
class CountsWhatIsBehind(Queued):
    class Rows(Passing):
        def pending(self, graphs, clock):
            behind = [row for row in self.inner.open_runs("thread of runs")[1:] if row.graph in graphs]
            return self.inner.pending(graphs, clock) + len(behind)


@breaks("a_run_whose_thread_moved_on_is_woken")
class WakesUnderTheOwner(Queued):
    class Rows(Passing):
        def wake_moved(self, clock):
            held = [row for row in self.inner.search(RunFilter(status="waiting"), 100) if row.id == "held"]
            return self.inner.wake_moved(clock) + sum(self.inner.change(row._replace(due=1), "waiting") for row in held)


# --- events and schedules --------------------------------------------------------------------------------------------


@breaks("the_first_of_an_event_counts")
class TheLastCounts(Queued):
    class Rows(Passing):
        def emit(self, event, data, at):
            self.checkpointer.seen[event] = data
            return self.inner.emit(event, data, at)

        def event(self, event):
            return self.inner.event(event) and self.checkpointer.seen[event]


@breaks("an_event_wakes_who_waits_for_it")
class WaitsForWhatItWaitedFor(Queued):
    class Rows(Passing):
        def await_events(self, no, events):
            waited = self.checkpointer.seen.setdefault(no, set())
            waited |= set(events)
            self.inner.await_events(no, waited)


@breaks("an_event_that_is_waited_for_twice_is_one")
class CountsTwice(Queued):
    class Rows(Passing):
        def await_events(self, no, events):
            assert len(events) == len({*events}), "UNIQUE constraint failed"
            self.inner.await_events(no, events)


@breaks("no_event_is_missed_by_a_run_that_begins_to_wait")
class ForgetsWhatHappened(Queued):
    class Rows(Passing):
        def event(self, event):
            return None if event[0].isdigit() else self.inner.event(event)


@breaks("schedules_are_kept_by_name")
class KeepsTheOldRequest(Queued):
    class Rows(Passing):
        def put_schedule(self, row):
            known = [one for one in self.inner.schedules() if one.name == row.name]
            self.inner.put_schedule(row._replace(request=known[0].request) if known else row)


@breaks("a_schedule_is_advanced_by_one_of_two")
class AdvancesForEverybody(Queued):
    class Rows(Passing):
        def advance_schedule(self, row, due):
            known = {one.name: one for one in self.inner.schedules()}.get(row.name, row)
            return self.inner.advance_schedule(known if known[:4] == row[:4] else row, due)
