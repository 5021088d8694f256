"""A database is made ready by its first use: fresh, older, newer, foreign, or not a database at all."""

import sqlite3
import sys
from pathlib import Path

import pytest

from checkpointers import SqliteSaver
from checkpointers.sql import migrate, tables
from durable_graph.errors import CorruptDataError, DatabaseUnavailableError, NewerDatabaseError
from durable_graph.testing.conformance.acting import start
from tests.conformance.processes import python, result
from tests.migration.conftest import HEAD, NEXT, OLDER
from tests.migration.test_schema import created_by_alembic, created_by_the_library, described


def sql(path, text):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.commit()
        connection.close()


FIRST_USE = """
import sys
from checkpointers import SqliteSaver
from durable_graph.testing.conformance.acting import start
saver = SqliteSaver(sys.argv[1], busy_timeout=30)
print("ready", flush=True)
input()
print(start(saver, key=sys.argv[2]).no)
"""


def started_together(children):
    """What the children print after all of them were ready and were told to go."""
    assert [child.stdout.readline() for child in children] == ["ready\n"] * len(children)
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return [result(child) for child in children]


def test_eight_processes_may_start_at_once_on_a_new_file(tmp_path):
    for attempt in range(3):
        file = tmp_path / f"runs{attempt}.db"
        outputs = started_together([python(FIRST_USE, file, name) for name in range(8)])
        assert sorted(outputs) == [str(number) for number in range(1, 9)], outputs
        assert sql(file, "SELECT count(*) FROM durable_graph_version") == [(1,)]
        assert sql(file, "PRAGMA auto_vacuum") == [(2,)]
        assert sql(file, "PRAGMA journal_mode") == [("wal",)]


RUN = """
import sys, threading
from checkpointers import SqliteSaver
from durable_graph.records import ClaimRequest, CommitItem, LaneInfo, Row, RowRange
saver = SqliteSaver(sys.argv[1])
new = ClaimRequest("t", "me", None, 7, 1, 0, (LaneInfo(1, "", 0, 0, 0),), (Row(1, 0, 1, 1, b""),))
claim = saver.claim(new)
saver.commit([CommitItem(claim, (Row(1, 0, 2, 0, b""),), (), "done")])
assert saver.load("t") and saver.read(claim.no, [RowRange(1, 0, 1, 2)])
assert threading.active_count() == 1, threading.enumerate()
print(sorted({"sqlalchemy", "alembic", "aiosqlite", "pydantic"} & set(sys.modules)))
"""


def test_a_run_on_a_new_file_imports_no_sqlalchemy_and_starts_no_os_thread(tmp_path):
    assert result(python(RUN, tmp_path / "runs.db")) == "[]"


def test_a_foreign_database_is_shared(tmp_path):
    sql(tmp_path / "app.db", "CREATE TABLE customer (name TEXT)")
    sql(tmp_path / "app.db", "INSERT INTO customer VALUES ('Ada')")
    with SqliteSaver(tmp_path / "app.db") as saver:
        start(saver)
    assert sql(tmp_path / "app.db", "SELECT name FROM customer") == [("Ada",)]
    assert sql(tmp_path / "app.db", "SELECT count(*) FROM thread") == [(1,)]


@pytest.mark.parametrize("table", sorted(tables.METADATA.tables))
def test_somebody_elses_tables_of_our_names_are_left_alone(tmp_path, table):
    file = tmp_path / "app.db"
    sql(file, f"CREATE TABLE {table} (version_num TEXT, title TEXT)")
    before = file.read_bytes()
    with pytest.raises(CorruptDataError, match=table) as caught:
        SqliteSaver(file).setup()
    assert str(file) in str(caught.value)
    assert file.read_bytes() == before


def test_a_table_of_ours_that_lost_a_column_is_named(tmp_path):
    SqliteSaver(tmp_path / "runs.db").setup()
    sql(tmp_path / "runs.db", "ALTER TABLE lane DROP COLUMN parent_seq")
    with pytest.raises(CorruptDataError, match="'lane'"):
        SqliteSaver(tmp_path / "runs.db").setup()


def test_a_newer_database_is_refused_by_every_verb_and_left_untouched(tmp_path):
    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        start(saver)
    sql(file, "UPDATE durable_graph_version SET version_num = '9001'")
    sql(file, "DROP TABLE lane")  # a later version may well have done that
    before = file.read_bytes()
    saver = SqliteSaver(file)
    for verb in (saver.setup, lambda: saver.load("thread"), lambda: start(saver, key="new"), lambda: saver.read(1, [])):
        with pytest.raises(NewerDatabaseError, match=rf"9001.*{HEAD}"):
            verb()
    assert file.read_bytes() == before


def test_a_version_table_without_a_version_is_corrupt(tmp_path):
    SqliteSaver(tmp_path / "runs.db").setup()
    sql(tmp_path / "runs.db", "DELETE FROM durable_graph_version")
    with pytest.raises(CorruptDataError, match="0 versions"):
        SqliteSaver(tmp_path / "runs.db").setup()


def test_an_older_database_is_upgraded_by_its_first_use(tmp_path, later_version):
    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        claim = start(saver)
    later_version()
    with SqliteSaver(file) as saver:
        assert saver.load("thread").thread.epoch == claim.epoch
        start(saver, key="new")
    assert sql(file, "SELECT version_num FROM durable_graph_version") == [(NEXT,)]
    assert sql(file, "SELECT expires FROM thread") == [(None,), (None,)]


@pytest.mark.parametrize("revision", OLDER)
def test_a_database_of_an_older_version_gets_the_tables_that_came_since(tmp_path, revision):
    file = tmp_path / "runs.db"
    created_by_alembic(file, revision)
    key = "INSERT INTO thread (key, epoch, owner, status) VALUES (CAST('t' AS BLOB), 7, NULL, 'done')"
    sql(file, key)
    with SqliteSaver(file) as saver:
        assert saver.load("t").thread.epoch == 7
    created_by_the_library(tmp_path / "fresh.db")
    assert described(file) == described(tmp_path / "fresh.db")
    assert sql(file, "SELECT version_num FROM durable_graph_version") == [(HEAD,)]


def test_a_users_own_table_in_the_way_of_the_upgrade_is_left_alone(tmp_path):
    file = tmp_path / "app.db"
    created_by_alembic(file, "0001")
    sql(file, "CREATE TABLE item (name TEXT)")
    with pytest.raises(CorruptDataError, match="item"):
        SqliteSaver(file).setup()
    assert sql(file, "SELECT version_num FROM durable_graph_version") == [("0001",)]
    assert sql(file, "SELECT name FROM pragma_table_info('item')") == [("name",)]


def test_an_upgrade_that_fails_leaves_nothing_behind(tmp_path, later_version):
    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        start(saver)
    before = sql(file, "SELECT name, sql FROM sqlite_master")
    later_version(more='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(CorruptDataError, match="nowhere"):
        SqliteSaver(file).setup()
    assert sql(file, "SELECT name, sql FROM sqlite_master") == before
    later_version()
    with SqliteSaver(file) as saver:
        assert saver.load("thread") is not None


def test_a_revision_that_never_was_ours_is_corrupt(tmp_path):
    SqliteSaver(tmp_path / "runs.db").setup()
    sql(tmp_path / "runs.db", "UPDATE durable_graph_version SET version_num = '0000'")
    with pytest.raises(CorruptDataError, match="0000"):
        SqliteSaver(tmp_path / "runs.db").setup()


UPGRADE_TOGETHER = """
import sys
from checkpointers import SqliteSaver
from checkpointers.sql import migrate
migrate.HEAD = sys.argv[3]
migrate.revisions = lambda: sys.argv[2]
import alembic.command
print("ready", flush=True)
input()
print(SqliteSaver(sys.argv[1], busy_timeout=30).load("thread").thread.key)
"""


def test_processes_that_start_together_upgrade_once(tmp_path, later_version):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        start(saver)
    later_version()
    children = [python(UPGRADE_TOGETHER, tmp_path / "runs.db", migrate.revisions(), NEXT) for _ in range(4)]
    assert started_together(children) == ["thread"] * 4


def test_without_installed_migrations_the_error_says_how_to_install_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "checkpointers._migrations", None)  # what an import that fails leaves behind
    with pytest.raises(DatabaseUnavailableError, match=r"pip install -e \."):
        migrate.revisions()


def test_a_folder_named_migrations_of_the_users_project_is_not_picked_up(tmp_path):
    trap = tmp_path / "migrations"
    trap.mkdir()
    for name in ("__init__.py", "env.py"):
        (trap / name).write_text("raise SystemExit('picked up')")
    code = "from checkpointers.sql import migrate; import alembic.command, alembic.config; print(migrate.revisions())"
    found = result(python(code, cwd=tmp_path))
    assert not found.startswith(str(tmp_path))
    assert (Path(found) / "versions" / "0001_initial.py").is_file()
    assert (Path(found) / "versions" / "0002_stores_and_caches.py").is_file()
