"""What the packages offer, and what importing them costs."""

import importlib
import subprocess
import sys

import pytest

import durable_graph
from tests.sources import modules

# A script that imports durable_graph and never runs a graph pays for none of these (pydantic alone: 80 ms).
HEAVY = {
    "aiosqlite",
    "alembic",
    "asyncio",
    "concurrent.futures",
    "langchain_core",
    "msgpack",
    "pydantic",
    "sqlalchemy",
    "sqlite3",
    "checkpointers",
}


@pytest.mark.parametrize("name", list(modules()))
def test_every_exported_name_exists(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert len(set(exported)) == len(exported)
    assert [export for export in exported if not hasattr(module, export)] == []


def test_the_public_names_are_there_before_they_are_loaded():
    assert durable_graph.__all__
    assert set(durable_graph.__all__) <= set(dir(durable_graph))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        durable_graph.no_such_name  # noqa: B018 - reading it is the test


def loaded_by(statement):
    """The heavy modules that a script loads which begins with this statement."""
    command = (
        f"import sys; before = set(sys.modules); {statement}; print(*sorted((set(sys.modules) - before) & {HEAVY!r}))"
    )
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import durable_graph") == set()


def test_writing_a_graph_down_loads_nothing_that_runs_it():
    assert loaded_by("from durable_graph import StateGraph") <= {"msgpack"}
