"""Fixtures for every test.

face      sync | async: calls a graph through one face or the other; streams come back as lists
schema    a new schema of the tests' Postgres server, for tests of that backend alone
backend   memory | sqlite | postgres: `make()` gives a checkpointer, `reopen()` another one over the same data
"""

import gc
import itertools
import secrets

import pytest

from tests import postgres_server
from tests.backends import BACKENDS
from tests.faces import FACES

ENDED = itertools.count(1)


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request):
    return request.param


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.close()


def lasts():
    """What is here now lasts to the end: no test that looks for garbage has to look through it (half a second)."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    lasts()


def pytest_runtest_logfinish():
    if next(ENDED) % 200 == 0:  # modules that tests imported, pytest's reports
        lasts()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") == "loadgroup":
        from tests.scheduling import Scheduling

        return Scheduling(config, log)
    return None


@pytest.fixture
def schema():
    name = f"test_{secrets.token_hex(6)}"
    yield name
    postgres_server.drop(name)
