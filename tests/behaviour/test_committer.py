"""The one committer of a store serves everybody, whatever happened to one of them."""

import asyncio
import threading

import pytest

from checkpointers import SqliteSaver
from durable_graph.errors import StorageError
from tests.behaviour.small_graphs import chain, thread


def says(word):
    return lambda _: {"log": [word]}


def graph(saver):
    return chain(a=says("a"), b=says("b"), c=says("c")).compile(checkpointer=saver)


class Odd(SqliteSaver):
    """Answers too little while `odd`."""

    odd = False

    def commit(self, items):
        outcomes = super().commit(items)
        return outcomes[:-1] if self.odd else outcomes


@pytest.mark.timeout(30)
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_backend_that_answers_too_little_is_an_error_and_the_store_goes_on(face, tmp_path, durability):
    with Odd(tmp_path / "runs.db") as saver:
        saver.odd = True
        with pytest.raises((ValueError, IndexError)):
            face.invoke(graph(saver), {"log": []}, thread(), durability=durability)
        saver.odd = False
        assert face.invoke(graph(saver), None, thread(), durability=durability)["log"] == ["a", "b", "c"]


@pytest.mark.timeout(30)
def test_an_os_thread_that_could_not_be_started_is_an_error_and_the_store_goes_on(face, tmp_path, monkeypatch):
    start = threading.Thread.start
    refused = []

    def first_fails(self):
        if self.name == "durable_graph-committer" and not refused:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    with SqliteSaver(tmp_path / "runs.db") as saver:
        monkeypatch.setattr(threading.Thread, "start", first_fails)
        with pytest.raises(RuntimeError, match="can't start"):
            face.invoke(graph(saver), {"log": []}, thread(), durability="async")
        assert face.invoke(graph(saver), None, thread(), durability="async")["log"] == ["a", "b", "c"]
    assert refused


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_nothing_is_written_through_a_checkpointer_whose_file_is_gone(face, tmp_path, durability):
    """The committer of a file outlives a run; it must not write where an older checkpointer still has a file open."""
    folder = tmp_path / "data"
    folder.mkdir()
    old = SqliteSaver(folder / "runs.db")
    face.invoke(graph(old), {"log": []}, thread("old"), durability="async")
    for path in folder.iterdir():
        path.unlink()
    with SqliteSaver(folder / "runs.db") as saver:
        face.invoke(graph(saver), {"log": []}, thread("new"), durability=durability)
    old.close()
    folder.rename(tmp_path / "moved")
    with SqliteSaver(tmp_path / "moved" / "runs.db") as saver:
        assert face.get_state(graph(saver), thread("new")).values["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_whose_file_is_deleted_ends_with_an_error_and_later_runs_use_a_new_file(face, tmp_path, durability):
    file = tmp_path / "runs.db"

    def deletes(_):
        for path in tmp_path.iterdir():
            path.unlink()
        return {"log": ["deleted"]}

    with SqliteSaver(file) as saver:
        face.invoke(graph(saver), {"log": []}, thread("before"))
        broken = chain(a=says("a"), b=deletes, c=says("c")).compile(checkpointer=saver)
        with pytest.raises(StorageError, match="deleted, moved or replaced"):
            face.invoke(broken, {"log": []}, thread("broken"), durability=durability)
        assert face.get_state(graph(saver), thread("before")).values == {}
        face.invoke(graph(saver), {"log": []}, thread("after"), durability=durability)
    file.rename(tmp_path / "other.db")
    with SqliteSaver(tmp_path / "other.db") as other:
        assert face.get_state(graph(other), thread("after")).values["log"] == ["a", "b", "c"]


class Small(SqliteSaver):
    """Refuses large rows, as SQLite does from 1 GB on."""

    def commit(self, items):
        if any(len(row.data) > 1000 for item in items for row in item.rows):
            raise StorageError("a row is larger than SQLite allows")
        return super().commit(items)


def test_a_row_that_is_too_large_fails_its_own_run_and_no_other_of_the_group(tmp_path):
    with Small(tmp_path / "runs.db") as saver:
        large = chain(a=lambda _: {"log": ["x" * 5000]}).compile(checkpointer=saver)
        fine = chain(a=says("fine")).compile(checkpointer=saver)

        async def both():
            return await asyncio.gather(
                *(
                    one.ainvoke({}, thread(f"{one is large}-{number}"), durability="async")
                    for number in range(20)
                    for one in (large, fine)
                ),
                return_exceptions=True,
            )

        results = asyncio.run(both())
    assert [type(result) for result in results] == [StorageError, dict] * 20
