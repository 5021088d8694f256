"""LangChain's objects in graphs. Collected where LangChain is installed: `make test` runs this folder in an environment
of its own, because the main one proves that nothing needs LangChain.
"""

from importlib.util import find_spec

import pytest

if find_spec("langchain_core") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def recorder():
    from tests.langchain.recording import Recorder

    return Recorder()


@pytest.fixture(params=["sync handler", "async handler"])
def any_recorder(request):
    """A handler of either kind; each must see the same on either face."""
    from tests.langchain.recording import AsyncRecorder, Recorder

    return Recorder() if request.param == "sync handler" else AsyncRecorder()
