"""LangGraph programs, rewritten by the command and run on durable_graph: they print what they print on LangGraph.

The programs in programs/ are ours, written as LangGraph's users write theirs. What a program prints, its docstring
says; LangGraph 1.2.24 printed the same.
"""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.sources import ROOT

PROGRAMS = {path.stem: path for path in sorted(Path(__file__).with_name("programs").glob("*.py"))}
LEFT = {"chat_agent"}
"""Programs that need what is not here."""


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def printed(path):
    """What the program's docstring says that it prints."""
    return textwrap.dedent(docstring(path).partition("Prints:\n\n")[2]).strip("\n") + "\n"


def lacking(path):
    """What the program needs and the packages do not have yet."""
    needs = re.findall(r"^Needs: (.*)$", docstring(path), re.MULTILINE)
    return [need for need in " ".join(needs).split() if not _exists(need)]


def _exists(path):
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for member in name.split("."):
        found = getattr(found, member, None)
    return found is not None


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "durable_graph", "imports", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in LEFT])
def test_a_rewritten_program_prints_what_it_printed(name, tmp_path):
    program = Path(shutil.copy(PROGRAMS[name], tmp_path))
    rewritten = command(program, "--write")
    assert rewritten.returncode == 0, rewritten.stderr

    text = program.read_text("utf-8")
    assert not re.search(r"^\s*(?:import|from) langgraph", text, re.MULTILINE)
    again = command(program)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "nothing to do: no program imports LangGraph\n")

    run = subprocess.run(
        [sys.executable, "-W", "error", program.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if lacking(program):
        assert run.returncode != 0, f"{name} has all that it needs: take its Needs out"
    else:
        assert (run.stdout, run.stderr) == (printed(program), "")


def test_all_programs_of_a_folder_are_rewritten_at_once(tmp_path):
    folder = Path(shutil.copytree(PROGRAMS["chain"].parent, tmp_path / "programs"))
    assert command(folder, "--write").returncode == 1
    left = command(folder)
    assert left.stdout == ""
    lines = left.stderr.splitlines()
    assert {line.partition(":")[0] for line in lines[:-1]} == {str(folder / f"{name}.py") for name in LEFT}
    for path in folder.glob("*.py"):
        compile(path.read_text("utf-8"), path.name, "exec")


def test_what_an_agent_needs_is_listed_name_by_name(tmp_path):
    program = Path(shutil.copy(PROGRAMS["chat_agent"], tmp_path))
    run = command(program, "--write")
    assert run.returncode == 1
    lines = program.read_text("utf-8").splitlines()
    assert "from durable_graph import END, START, StateGraph" in lines
    assert "from langgraph.graph import MessagesState" in lines
    assert "from langgraph.prebuilt import ToolNode, tools_condition" in lines
    assert "from langchain_core.messages import HumanMessage" in lines

    for name in ("graph.MessagesState", "prebuilt.ToolNode", "prebuilt.tools_condition"):
        module, _, imported = f"langgraph.{name}".rpartition(".")
        (line,) = [number for number, text in enumerate(lines, 1) if f"from {module} " in text and imported in text]
        assert f"{program}:{line}: langgraph.{name} stays. " in run.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_what_it_prints(name):
    assert ("Prints:" in docstring(PROGRAMS[name])) == (name not in LEFT)
