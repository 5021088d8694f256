"""What a user may hand to SqliteSaver, and what is refused."""

import asyncio
import sqlite3
import sys
import threading

import aiosqlite
import pytest

from checkpointers import AsyncSqliteSaver, InMemorySaver, MemorySaver, SqliteSaver
from durable_graph.errors import InvalidConfigError
from durable_graph.testing.conformance.acting import start


def used(saver):
    """Uses the saver; it must work."""
    if saver.load("thread") is None:
        start(saver)
    assert saver.load("thread") is not None
    saver.close()


def test_the_names_people_know_are_the_same_classes():
    assert AsyncSqliteSaver is SqliteSaver
    assert MemorySaver is InMemorySaver


@pytest.mark.parametrize("name", ["runs.db", "my runs%20?#.db", ":memory:", "sqlite:", "é.db"])
def test_a_path_names_the_file_whatever_its_name(tmp_path, name):
    used(SqliteSaver(tmp_path / name))
    used(SqliteSaver(str(tmp_path / name)))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_three_slashes_are_relative_and_four_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative, absolute = SqliteSaver("sqlite:///runs.db"), SqliteSaver(f"sqlite:///{tmp_path}/runs.db")
    assert str(tmp_path).startswith("/")
    assert relative.identity == absolute.identity == ("sqlite", str(tmp_path / "runs.db"))


def test_a_relative_path_stays_where_it_was_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saver = SqliteSaver("runs.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    used(saver)
    assert (tmp_path / "runs.db").is_file()


def test_a_link_names_the_file_it_points_to(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    assert SqliteSaver(tmp_path / "link.db").identity == SqliteSaver(tmp_path / "runs.db").identity


@pytest.mark.parametrize("target", [":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_belongs_to_its_object(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = SqliteSaver(target), SqliteSaver(target)
    start(first)
    assert first.load("thread") is not None
    assert second.load("thread") is None
    assert first.identity != second.identity
    assert list(tmp_path.iterdir()) == []
    first.close()
    second.close()


def test_a_url_brings_options(tmp_path):
    saver = SqliteSaver(f"sqlite:///{tmp_path}/runs.db?synchronous=NORMAL&busy_timeout=0.25")
    assert "synchronous='NORMAL', busy_timeout=0.25" in repr(saver)
    used(saver)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("sqlite://runs.db", "sqlite:///runs.db"),
        ("sqlite:/runs.db", "slash"),
        ("postgresql://host/db", "'postgresql' is not the scheme"),
        ("file:runs.db?mode=memory", "URIs"),
        ("sqlite:///runs.db?timeout=3", "unknown option 'timeout'"),
        ("sqlite:///runs.db?busy_timeout=soon", "busy_timeout='soon'"),
        ("sqlite:///runs.db?synchronous=OFF", "'FULL' or 'NORMAL'"),
        ("", "empty"),
        ("a\0b", "NUL"),
        (17, "not int"),
        (None, "not NoneType"),
    ],
)
def test_anything_else_is_refused_with_the_forms_that_work(target, says):
    with pytest.raises(InvalidConfigError) as caught:
        SqliteSaver(target)
    assert says in str(caught.value)


@pytest.mark.parametrize("options", [{"synchronous": "OFF"}, {"busy_timeout": -1}, {"busy_timeout": float("nan")}])
def test_wrong_options_are_refused(options, tmp_path):
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        SqliteSaver(tmp_path / "runs.db", **options)


def test_a_users_connection_names_its_file_and_stays_theirs(tmp_path):
    connection = sqlite3.connect(tmp_path / "runs.db")
    with SqliteSaver(connection) as saver:
        start(saver)
        results = []
        other = threading.Thread(target=lambda: results.append(saver.load("thread")))
        other.start()
        other.join()
        assert results[0] is not None
    assert connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]
    connection.close()


def test_a_users_connection_of_another_os_thread_is_refused_with_the_cure(tmp_path):
    connection = sqlite3.connect(tmp_path / "runs.db")
    refused = []

    def elsewhere():
        with pytest.raises(InvalidConfigError, match=r"sqlite:///runs\.db"):
            SqliteSaver(connection)
        refused.append(True)

    other = threading.Thread(target=elsewhere)
    other.start()
    other.join()
    connection.close()
    assert refused


def test_a_users_connection_without_a_file_is_refused_with_the_cure():
    connection = sqlite3.connect(":memory:")
    with pytest.raises(InvalidConfigError, match='Pass ":memory:"'):
        SqliteSaver(connection)
    connection.close()
    with pytest.raises(InvalidConfigError, match="closed"):
        SqliteSaver(connection)


def test_a_users_aiosqlite_connection_names_its_file_inside_and_outside_a_loop(tmp_path):
    async def inside():
        async with aiosqlite.connect(tmp_path / "runs.db") as connection:
            saver = SqliteSaver(connection)
            start(saver)
            loaded = await saver.aload("thread")
            helper = await asyncio.to_thread(SqliteSaver, connection)  # no loop in this OS thread
            assert helper.identity == saver.identity
            await connection.execute_fetchall("SELECT 1")  # still theirs, still open
            saver.close()
            return loaded

    assert asyncio.run(inside()).thread.key == "thread"


def test_a_users_aiosqlite_connection_that_is_not_open_is_refused_with_the_cure(tmp_path):
    with pytest.raises(InvalidConfigError, match="Await it first"):
        SqliteSaver(aiosqlite.connect(tmp_path / "runs.db"))


def test_from_conn_string_gives_the_object_to_keep_or_to_enter(tmp_path):
    kept = SqliteSaver.from_conn_string(str(tmp_path / "runs.db"))
    assert isinstance(kept, SqliteSaver)
    with kept as entered:
        assert entered is kept
        used(kept)

    async def enter():
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
            return await saver.aload("thread")

    assert asyncio.run(enter()).thread.key == "thread"


def test_a_name_that_is_not_exported_is_an_attribute_error():
    import checkpointers

    with pytest.raises(AttributeError, match="NoSuchSaver"):
        checkpointers.NoSuchSaver  # noqa: B018 - reading the name is what is tested
    assert set(checkpointers.__all__) <= set(dir(checkpointers))


def test_memory_has_a_url_and_no_names():
    assert isinstance(InMemorySaver.from_conn_string("memory://"), InMemorySaver)
    with pytest.raises(InvalidConfigError, match="no name"):
        InMemorySaver.from_conn_string("memory://shared")


def test_naming_a_file_opens_nothing(tmp_path):
    SqliteSaver(tmp_path / "missing" / "runs.db")
    assert sys.modules["checkpointers.sqlite"]
    assert list(tmp_path.iterdir()) == []
