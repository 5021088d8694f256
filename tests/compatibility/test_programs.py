"""LangGraph programs, rewritten by the command and run on durable_graph: they print what they print on LangGraph.

What a program prints, its docstring says; LangGraph 1.2.24 (with langchain 1.5.2) printed the same. Programs that need
LangChain are run by tests/langchain too.
"""

import shutil
from pathlib import Path

import pytest

from tests.compatibility.moving import LEFT, PROGRAMS, command, docstring, exists, moved, needs, printed


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in LEFT])
def test_a_rewritten_program_prints_what_it_printed(name, tmp_path):
    run = moved(name, tmp_path)
    if all(exists(need) for need in needs(name)):
        assert (run.stdout, run.stderr) == (printed(name), "")
    else:
        assert run.returncode != 0, f"{name} runs without all that it needs: take its Needs out"


def test_all_programs_of_a_folder_are_rewritten_at_once(tmp_path):
    folder = Path(shutil.copytree(PROGRAMS["chain"].parent, tmp_path / "programs"))
    assert command(folder, "--write").returncode == 1
    left = command(folder)
    assert left.stdout == ""
    lines = left.stderr.splitlines()
    assert {line.partition(":")[0] for line in lines[:-1]} == {str(folder / f"{name}.py") for name in LEFT}
    for path in folder.glob("*.py"):
        compile(path.read_text("utf-8"), path.name, "exec")


def test_what_is_not_here_is_listed_name_by_name(tmp_path):
    program = Path(shutil.copy(PROGRAMS["guarded_agent"], tmp_path))
    run = command(program, "--write")
    assert run.returncode == 1
    lines = program.read_text("utf-8").splitlines()
    assert "from durable_graph.agents import create_agent" in lines
    assert "from durable_graph.agents.middleware import HumanInTheLoopMiddleware" in lines
    assert "from langchain.agents.middleware import PIIMiddleware, TodoListMiddleware" in lines
    assert "from langchain_core.messages import HumanMessage" in lines
    assert "from langgraph.graph.ui import push_ui_message" in lines

    middleware = "langchain.agents.middleware"
    for name in (
        f"{middleware}.PIIMiddleware",
        f"{middleware}.TodoListMiddleware",
        "langgraph.graph.ui.push_ui_message",
    ):
        module, _, imported = name.rpartition(".")
        (line,) = [number for number, text in enumerate(lines, 1) if f"from {module} " in text and imported in text]
        assert f"{program}:{line}: {name} stays. " in run.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_what_it_prints(name):
    assert ("Prints:" in docstring(name)) == (name not in LEFT)
