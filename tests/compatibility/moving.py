"""The programs in programs/, written as LangGraph's users write theirs: rewritten by the command, and run."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.sources import ROOT

PROGRAMS = {path.stem: path for path in sorted(Path(__file__).with_name("programs").glob("*.py"))}
LEFT = {"guarded_agent"}
"""Programs that need what is not here."""


def docstring(name):
    return ast.get_docstring(ast.parse(PROGRAMS[name].read_text("utf-8"))) or ""


def printed(name):
    """What the program's docstring says that it prints."""
    return textwrap.dedent(docstring(name).partition("Prints:\n\n")[2]).strip("\n") + "\n"


def needs(name):
    """What the program needs that is not always there: "module:Name"."""
    return " ".join(re.findall(r"^Needs: (.*)$", docstring(name), re.MULTILINE)).split()


def find(path):
    """What "module:Name" names; None where there is none."""
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    for member in name.split("."):
        found = getattr(found, member, None)
    return found


def exists(path):
    return find(path) is not None


def command(*arguments):
    """`python -m durable_graph imports`."""
    return subprocess.run(
        [sys.executable, "-m", "durable_graph", "imports", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def moved(name, folder):
    """Rewrite a copy of the program, which leaves nothing of LangGraph in it, and run it."""
    program = Path(shutil.copy(PROGRAMS[name], folder))
    rewritten = command(program, "--write")
    assert rewritten.returncode == 0, rewritten.stderr

    text = program.read_text("utf-8")
    assert not re.search(r"^\s*(?:import|from) (?:langgraph|langchain\.agents)", text, re.MULTILINE)
    again = command(program)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "nothing to do: no program imports LangGraph\n")

    return subprocess.run(
        [sys.executable, "-W", "error", program.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
