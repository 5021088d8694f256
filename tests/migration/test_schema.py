"""The schema is written down in several places; these tests hold them together."""

import re
import sqlite3

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from checkpointers import SqliteSaver
from checkpointers.sql import migrate, statements, store_statements, tables


def engine(path):
    return sa.create_engine(f"sqlite:///{path}")


def created_by_the_library(path):
    SqliteSaver(path).setup()


def created_by_sqlalchemy(path):
    made = engine(path)
    tables.METADATA.create_all(made)
    made.dispose()


def created_by_alembic(path, revision="head"):
    config = Config()
    config.set_main_option("script_location", migrate.revisions())
    made = engine(path)
    with made.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    made.dispose()


def described(path):
    """All that SQLite knows of our tables, however it is spelled."""
    connection = sqlite3.connect(path)
    names = [
        row[0]
        for row in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        )
    ]
    shapes = {
        name: (
            connection.execute(f"PRAGMA table_xinfo({name})").fetchall(),
            sorted(
                (index, unique, origin, partial, tuple(connection.execute(f"PRAGMA index_xinfo({index})")))
                for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({name})")
            ),
        )
        for name in names
    }
    texts = {
        name: re.sub(r"\s+", " ", text).replace("( ", "(").replace(" )", ")").replace('"', "").replace(" ,", ",")
        for name, text in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if not name.startswith("sqlite_")
    }
    connection.close()
    return shapes, texts


@pytest.mark.parametrize("other", [created_by_sqlalchemy, created_by_alembic])
def test_a_fresh_database_is_what_sqlalchemy_and_alembic_make(tmp_path, other):
    created_by_the_library(tmp_path / "library.db")
    other(tmp_path / "other.db")
    shapes, texts = described(tmp_path / "library.db")
    assert (shapes, texts) == described(tmp_path / "other.db")
    assert set(shapes) == set(tables.METADATA.tables)
    assert "AUTOINCREMENT" in texts["thread"]
    assert texts["record_base"].endswith("WHERE part = 0 AND kind = 1")
    assert "AUTOINCREMENT" in texts["run"]
    assert texts["run_open"].endswith("WHERE ended IS NULL")
    assert texts["item_expires"].endswith("WHERE expires IS NOT NULL")
    assert texts["cache_expires"].endswith("WHERE expires IS NOT NULL")


def test_the_library_and_alembic_write_the_same_version(tmp_path):
    for name, create in (("library.db", created_by_the_library), ("alembic.db", created_by_alembic)):
        create(tmp_path / name)
        connection = sqlite3.connect(tmp_path / name)
        assert connection.execute("SELECT version_num FROM durable_graph_version").fetchall() == [(migrate.HEAD,)]
        connection.close()


def test_the_known_columns_are_those_of_the_tables():
    assert {name: frozenset(table.c.keys()) for name, table in tables.METADATA.tables.items()} == statements.TABLES


def test_head_is_the_newest_revision_and_revisions_are_numbered_in_order():
    scripts = ScriptDirectory(migrate.revisions())
    assert scripts.get_heads() == [migrate.HEAD]
    revisions = [script.revision for script in scripts.walk_revisions()][::-1]
    assert revisions == [f"{number:04}" for number in range(1, len(revisions) + 1)]


def fixed_statements():
    return [name for name in statements.__all__ if name not in {"CREATE", "TABLES"}]


@pytest.mark.parametrize("name", fixed_statements())
def test_each_fixed_statement_fits_the_tables(tmp_path, name):
    created_by_sqlalchemy(tmp_path / "tables.db")
    connection = sqlite3.connect(tmp_path / "tables.db")
    text = getattr(statements, name)
    connection.execute("EXPLAIN " + text, ("[]",) * text.count("?")).fetchall()
    known = {column for table in tables.METADATA.tables.values() for column in table.c.keys()} | set(statements.TABLES)  # noqa: SIM118 - keys() of a column collection, which iterates otherwise
    words = set(re.findall(r"\b[a-z_]+\b", text)) - {
        "coalesce",
        "max",
        "excluded",
        "json_each",
        "json_extract",
        "wanted",
        "value",
        "record_base",
    }
    assert words <= known
    connection.close()


@pytest.mark.parametrize(("name", "table"), [("APPEND", tables.record), ("NEW_LANE", tables.lane)])
def test_each_insert_fills_every_column_in_order(name, table):
    columns = re.search(r"INSERT INTO (\w+) \(([^)]*)\)", getattr(statements, name))
    assert columns.group(1) == table.name
    assert columns.group(2).split(", ") == list(table.c.keys())


@pytest.mark.parametrize("name", ["APPEND", "NEW_LANE", "RELEASE", "TAKE_OVER", "CREATE_THREAD"])
def test_no_writing_statement_is_of_a_kind_that_hides_its_outcome(name):
    text = getattr(statements, name).upper()
    assert text.startswith(("INSERT", "UPDATE"))
    assert "RETURNING" not in text
    assert "EPOCH" in text


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("ROWS_FROM_BASE", (1, 1, 1, 1, 9), "record_base"),
        ("ROWS_FROM_BASE", (1, 1, 1, 1, 9), "sqlite_autoindex_record_1 (thread=? AND lane=? AND part=? AND seq>?)"),
        ("LANES", (1,), "sqlite_autoindex_record_1 (thread=? AND lane=? AND part=?)"),
        ("RANGES", ("[]", 1), "sqlite_autoindex_record_1 (thread=? AND lane=? AND part=? AND seq>? AND seq<?)"),
        ("TAKE_OVER", (1, "", "", b"", 1, 1, 1), "(thread=? AND lane=? AND part=? AND seq>?)"),
        ("FIND_THREAD", (b"",), "sqlite_autoindex_thread_1 (key=?)"),
        ("THREADS", (1, 9), "SEARCH thread USING INTEGER PRIMARY KEY (rowid>?)"),
    ],
)
def test_reading_never_scans_a_table(tmp_path, name, values, index):
    created_by_sqlalchemy(tmp_path / "tables.db")
    connection = sqlite3.connect(tmp_path / "tables.db")
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + getattr(statements, name), values)]
    connection.close()
    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan if "wanted" not in step), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def whole_store_statements():
    texts = store_statements.SQLITE
    found = texts._asdict()
    del found["contains"], found["ends_with"]
    return found | {
        "scan": texts.scanning(2),
        "namespaces": texts.listing(tail=True),
        "sweep": store_statements.SWEEP,
        "sweep_vectors": store_statements.SWEEP_VECTORS,
    }


@pytest.mark.parametrize("name", sorted(whole_store_statements()))
def test_no_statement_of_a_store_scans_or_sorts_a_table(tmp_path, name):
    created_by_sqlalchemy(tmp_path / "tables.db")
    connection = sqlite3.connect(tmp_path / "tables.db")
    text = whole_store_statements()[name]
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + text, (b"",) * text.count("?"))]
    connection.close()
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize(("name", "table"), [("put", tables.item), ("put_vector", tables.vector)])
def test_each_insert_of_a_store_fills_every_column_in_order(name, table):
    columns = re.search(r"INSERT INTO (\w+) \(([^)]*)\)", getattr(store_statements.SQLITE, name))
    assert columns.group(1) == table.name
    assert columns.group(2).split(", ") == list(table.c.keys())


@pytest.mark.parametrize("name", ["find", "scan"])
def test_what_a_store_reads_is_every_column_in_order(name):
    columns = re.search(r"SELECT (.*) FROM item", getattr(store_statements.SQLITE, name))
    assert columns.group(1).split(", ") == list(tables.item.c.keys())
