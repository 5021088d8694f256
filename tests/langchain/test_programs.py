"""LangGraph programs that use LangChain, rewritten and run here: see tests/compatibility/test_programs.py."""

import pytest

from tests.compatibility.moving import PROGRAMS, exists, moved, needs, printed


@pytest.mark.parametrize("name", [name for name in PROGRAMS if needs(name)])
def test_a_rewritten_program_prints_what_it_printed(name, tmp_path):
    assert all(exists(need) for need in needs(name))
    run = moved(name, tmp_path)
    assert (run.stdout, run.stderr) == (printed(name), "")
