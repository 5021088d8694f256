"""`python -m durable_graph imports`: what becomes of the imports of a LangGraph program."""

import os
import subprocess
import sys
import textwrap

import pytest

from durable_graph.cli import COMMANDS, main
from durable_graph.cli.imports.names import shipped
from durable_graph.cli.imports.rewriting import rewrite
from tests.sources import ROOT


def rewritten(text):
    """(new text, [(line, what stays)])"""
    result = rewrite(textwrap.dedent(text), shipped())
    assert rewrite(result.text, shipped()).text == result.text, "a second time changes nothing"
    return result.text, [(finding.line, finding.what) for finding in result.findings if finding.stays]


CASES = {
    "one module": (
        "from langgraph.graph import END, START, StateGraph\n",
        "from durable_graph import END, START, StateGraph\n",
    ),
    "an alias stays": (
        "from langgraph.graph import StateGraph as Graph, END as END\n",
        "from durable_graph import StateGraph as Graph, END as END\n",
    ),
    "another name here": (
        "from langgraph.types import PregelTask, PregelTask as Task\n",
        "from durable_graph import StateTask as PregelTask, StateTask as Task\n",
    ),
    "several modules": (
        "from langgraph.types import Command, Durability, Send\n",
        "from durable_graph import Command, Send\nfrom durable_graph.types import Durability\n",
    ),
    "checkpointers": (
        "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver\n",
        "from checkpointers import AsyncSqliteSaver\n",
    ),
    "formatting and comments": (
        "from langgraph.graph import (  # what it needs\n    # the ends\n    END,  START, # both\n    StateGraph\n)\n",
        "from durable_graph import (  # what it needs\n    # the ends\n    END,  START, # both\n    StateGraph\n)\n",
    ),
    "comments go with their names": (
        (
            "from langgraph.types import (\n"
            "    # answers\n    Command,  # resume\n    Durability,  # when\n    # asks\n    interrupt,\n    # end\n)\n"
        ),
        (
            "from durable_graph import (\n"
            "    # answers\n    Command,  # resume\n    # asks\n    interrupt,\n    # end\n)\n"
            "from durable_graph.types import (\n    Durability,  # when\n)\n"
        ),
    ),
    "what silences a tool goes with each": (
        "from langgraph.types import Durability, Send  # noqa: F401 - passed on\n",
        (
            "from durable_graph.types import Durability  # noqa: F401 - passed on\n"
            "from durable_graph import Send  # noqa: F401 - passed on\n"
        ),
    ),
    "lines that go on": (
        "from langgraph.types import Command, \\\n    Send\n",
        "from durable_graph import Command, \\\n    Send\n",
    ),
    "a line that others share": (
        "if True: x = 1; from langgraph.types import Send, Durability; y = 2\n",
        "if True: x = 1; from durable_graph import Send; from durable_graph.types import Durability; y = 2\n",
    ),
    "inside of blocks": (
        (
            "if TYPE_CHECKING:\n\tfrom langgraph.types import Send, Durability\n\n"
            "def f():\n\tfrom langgraph.func import task\n"
        ),
        (
            "if TYPE_CHECKING:\n\tfrom durable_graph import Send\n\tfrom durable_graph.types import Durability\n\n"
            "def f():\n\tfrom durable_graph import task\n"
        ),
    ),
    "line ends of Windows": (
        "import os\r\nfrom langgraph.types import Send, Durability\r\nx = 1",
        "import os\r\nfrom durable_graph import Send\r\nfrom durable_graph.types import Durability\r\nx = 1",
    ),
    "names with dots": (
        "import os, langgraph.graph, sys\n\n'é', langgraph.graph.StateGraph(x)  # é\nlanggraph.graph.state.END\n",
        "import os, durable_graph, sys\n\n'é', durable_graph.StateGraph(x)  # é\ndurable_graph.END\n",
    ),
    "a module under another name": (
        "import langgraph.types as t\n\nt.Send, t.Durability, t.PregelTask\n",
        "import durable_graph as t, durable_graph.types\n\nt.Send, durable_graph.types.Durability, t.StateTask\n",
    ),
    "a module from its package": (
        "from langgraph import types, graph as g\n\nx: types.Durability = g.START\n",
        "from durable_graph import types\nimport durable_graph as g\n\nx: types.Durability = g.START\n",
    ),
    "names inside f-strings": (
        'import langgraph.graph\n\nprint(f"é {langgraph.graph.END!r:>{10}}")\n',
        'import durable_graph\n\nprint(f"é {durable_graph.END!r:>{10}}")\n',
    ),
    "a module that only others use": (
        "import langgraph.checkpoint.sqlite\nimport langgraph.channels as channels\n",
        "import checkpointers\nimport durable_graph.channels as channels\n",
    ),
    "agents of LangChain": (
        (
            "from langchain.agents import create_agent\nfrom langchain.agents.middleware.types import ModelResponse\n"
            "from langgraph.prebuilt.chat_agent_executor import create_react_agent\n"
        ),
        (
            "from durable_graph.agents import create_agent\nfrom durable_graph.agents.middleware import ModelResponse\n"
            "from durable_graph.prebuilt import create_react_agent\n"
        ),
    ),
    "one module of LangChain of two": (
        "import langchain.agents, langchain.chat_models\n\nlangchain.agents.create_agent, langchain.chat_models.x\n",
        (
            "import durable_graph.agents, langchain.chat_models\n\n"
            "durable_graph.agents.create_agent, langchain.chat_models.x\n"
        ),
    ),
    "nothing of LangGraph's": (
        '"""As in langgraph.graph."""\nfrom langchain import chat_models\nfrom .langgraph import x\nimport lang\n',
        '"""As in langgraph.graph."""\nfrom langchain import chat_models\nfrom .langgraph import x\nimport lang\n',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_import_becomes_ours_and_all_else_stays_as_it_was(case):
    before, after = CASES[case]
    assert rewritten(before) == (after, [])


LEFT = {
    "one name of many": (
        "from langgraph.graph import END, MessageGraph, START\n",
        "from durable_graph import END, START\nfrom langgraph.graph import MessageGraph\n",
        [(1, "langgraph.graph.MessageGraph")],
    ),
    "a star": ("from langgraph.graph import *\n", None, [(1, "langgraph.graph.*")]),
    "what is private": (
        "from langgraph.pregel._loop import PregelLoop\nimport langgraph._internal._config\n",
        None,
        [(1, "langgraph.pregel._loop.PregelLoop"), (2, "langgraph._internal._config")],
    ),
    "some uses of a module": (
        "import langgraph.types as t\n\nt.Send, t.All\n",
        "import langgraph.types as t, durable_graph\n\ndurable_graph.Send, t.All\n",
        [(3, "langgraph.types.All")],
    ),
    "a module that is handed on": (
        "import langgraph.graph\n\ninspect(langgraph.graph)\n",
        None,
        [(3, "langgraph.graph")],
    ),
    "a name that means something else too": (
        "from langgraph import graph\n\n\ndef f(graph):\n    return graph.START\n",
        None,
        [(1, "langgraph.graph")],
    ),
    "our name is taken": (
        "import langgraph.checkpoint.memory\n\ncheckpointers = {}\nlanggraph.checkpoint.memory.InMemorySaver\n",
        None,
        [(4, "langgraph.checkpoint.memory.InMemorySaver")],
    ),
    "a text": (
        'mock.patch("langgraph.graph.StateGraph")\nimport_module("langgraph.checkpoint.memory")\ntalk("langgraph.nothing")\n',
        None,
        [(1, "langgraph.graph.StateGraph"), (2, "langgraph.checkpoint.memory")],
    ),
    "some of LangChain's middleware": (
        "from langchain.agents import create_agent\nfrom langchain.agents.middleware import Runtime, PIIMiddleware\n",
        (
            "from durable_graph.agents import create_agent\n"
            "from durable_graph import Runtime\nfrom langchain.agents.middleware import PIIMiddleware\n"
        ),
        [(2, "langchain.agents.middleware.PIIMiddleware")],
    ),
    "other modules of LangChain": (
        (
            "import langchain.agents.middleware, langchain.chat_models\n\n"
            "langchain.agents.middleware.PIIMiddleware, langchain.chat_models.x\n"
        ),
        None,
        [(3, "langchain.agents.middleware.PIIMiddleware")],
    ),
    "a name that an import binds too": (
        "import langgraph.checkpoint.memory\nfrom mine import checkpointers\nlanggraph.checkpoint.memory.MemorySaver\n",
        None,
        [(3, "langgraph.checkpoint.memory.MemorySaver")],
    ),
    "a fallback where LangGraph is missing": (
        "try:\n    import langgraph.graph as g\nexcept ImportError:\n    g = None\n",
        None,
        [(2, "langgraph.graph")],
    ),
    "a package beside LangGraph": (
        "from langgraph_sdk import get_client\nimport langgraph_sdk.client\n",
        None,
        [(1, "langgraph_sdk.get_client"), (2, "langgraph_sdk.client")],
    ),
    "an import without any use or name of ours": ("import langgraph.stream\n", None, [(1, "langgraph.stream")]),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_has_no_counterpart_stays_and_is_named(case):
    before, after, stays = LEFT[case]
    assert rewritten(before) == (after or before, stays)


def test_what_stays_has_the_reason_and_the_cure_of_the_table():
    result = rewrite("from langgraph.graph import MessageGraph\n", shipped())
    assert [finding.why for finding in result.findings] == [shipped().look_up("langgraph.graph", "MessageGraph").reason]


def test_a_difference_worth_knowing_is_a_note():
    result = rewrite("from langgraph.errors import GraphInterrupt\n", shipped())
    assert result.text == "from durable_graph import GraphInterrupt\n"
    (note,) = result.findings
    assert (note.stays, note.why) == (False, "It is no Exception here: `except Exception` lets it pass.")


# --- the command ------------------------------------------------------------------------------------------------------

OLD = "from langgraph.graph import StateGraph\n"
NEW = "from durable_graph import StateGraph\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_changes_nothing_and_prints_a_diff_that_patch_takes(folder, capfd):
    program = folder / "a.py"
    program.write_text(f"x = 1\n{OLD}y = 2", "utf-8")
    assert main(["imports", "a.py"]) == 0
    assert program.read_text("utf-8") == f"x = 1\n{OLD}y = 2"
    out, err = capfd.readouterr()
    assert out == (f"--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n x = 1\n-{OLD}+{NEW} y = 2\n\\ No newline at end of file\n")
    assert err == "1 file would change (--write does it): 1 name moved, 0 left to you\n"


@pytest.mark.parametrize("diff", [False, True])
def test_write_changes_the_file_and_shows_the_diff_only_when_asked(folder, capfd, diff):
    (folder / "a.py").write_text(OLD, "utf-8")
    assert main(["imports", "a.py", "--write", *(["--diff"] if diff else [])]) == 0
    assert (folder / "a.py").read_text("utf-8") == NEW
    out, err = capfd.readouterr()
    assert out.startswith("--- a.py") == diff
    assert bool(out) == diff
    assert err == "1 file changed: 1 name moved, 0 left to you\n"
    assert sorted(path.name for path in folder.iterdir()) == ["a.py"]


def test_encoding_byte_order_mark_mode_and_links_stay(folder):
    latin = f"# -*- coding: latin-1 -*-\n{OLD}name = 'é'\n"
    (folder / "latin.py").write_bytes(latin.encode("latin-1"))
    (folder / "latin.py").chmod(0o750)
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbf" + OLD.encode())
    (folder / "linked.py").symlink_to("latin.py")
    assert main(["imports", "linked.py", "marked.py", "--write"]) == 0
    assert (folder / "latin.py").read_bytes() == latin.replace(OLD, NEW).encode("latin-1")
    assert (folder / "latin.py").stat().st_mode & 0o777 == 0o750
    assert (folder / "linked.py").is_symlink()
    assert (folder / "marked.py").read_bytes() == b"\xef\xbb\xbf" + NEW.encode()


def test_a_folder_is_searched_but_not_what_others_put_there(folder):
    ours = ["a.py", "sub/b.py", "sub/c.pyi"]
    others = [".hidden/a.py", "env/lib/a.py", "sub/__pycache__/a.py", "node_modules/a.py", "notes.txt"]
    for name in [*ours, *others]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(OLD, "utf-8")
    (folder / "env/pyvenv.cfg").touch()
    assert main(["imports", ".", "sub", "a.py", "--write"]) == 0
    assert [name for name in [*ours, *others] if (folder / name).read_text("utf-8") == NEW] == ours


def test_lines_are_those_of_the_program_as_it_is_afterwards(folder, capfd):
    text = "from langgraph.types import Durability, Send\nfrom langgraph.errors import GraphInterrupt\n"
    (folder / "a.py").write_text(text + "from langgraph.types import All\n", "utf-8")
    assert main(["imports", "a.py"]) == 1
    assert [line[:7] for line in capfd.readouterr().err.splitlines()[:-1]] == ["a.py:1:", "a.py:2:", "a.py:3:"]
    assert main(["imports", "a.py", "--write"]) == 1
    assert [line[:7] for line in capfd.readouterr().err.splitlines()[:-1]] == ["a.py:1:", "a.py:3:", "a.py:4:"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.py", b"import langgraph.graph\nprint 1\n", "a.py:2: it stays, since Python "),
        ("a.py", b"# langgraph\nx = '\xff'\n", "a.py:1: it stays, since Python "),
        ("a.py", b"# langgraph\n\n\nx = '\xff'\n", "a.py:1: it stays, since Python "),
        ("a.py", b"# coding: no-such-code\nimport langgraph\n", "a.py:1: it stays, since Python "),
        ("a.py", b"import langgraph\x00\n", "it stays, since Python "),
        ("a.ipynb", b'{"cells": ["import langgraph"]}', "a.ipynb:1: a notebook stays"),
    ],
)
def test_what_cannot_be_read_as_a_program_stays_and_is_named(folder, capfd, name, content, said):
    (folder / name).write_bytes(content)
    (folder / "b.py").write_text(OLD, "utf-8")
    assert main(["imports", ".", "--write"]) == 1
    assert said in capfd.readouterr().err
    assert (folder / name).read_bytes() == content
    assert (folder / "b.py").read_text("utf-8") == NEW


def test_a_program_that_does_not_concern_langgraph_is_not_even_read_as_python(folder, capfd):
    (folder / "old.py").write_text("print 'Python 2'\n", "utf-8")
    assert main(["imports", "."]) == 0
    assert capfd.readouterr().err == "nothing to do: no program imports LangGraph\n"


def test_a_path_that_does_not_exist_is_wrong_use(folder, capfd):
    (folder / "a.py").write_text(OLD, "utf-8")
    assert main(["imports", "a.py", "b.py", "--write"]) == 2
    assert capfd.readouterr().err == "there is no file or folder 'b.py'\n"
    assert (folder / "a.py").read_text("utf-8") == OLD


@pytest.mark.parametrize("arguments", [["imports"], ["imports", "--no-such-option", "."], ["no-such-command"]])
def test_wrong_arguments_end_with_2(arguments, capfd):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m durable_graph" in capfd.readouterr().err


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "durable_graph", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        **options,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_names_every_subcommand(arguments):
    run = python(*arguments)
    assert (run.returncode, run.stderr) == (0, "")
    for name in COMMANDS:
        assert f"    {name} " in run.stdout


def test_the_help_of_a_subcommand_explains_its_exit_codes():
    run = python("imports", "--help")
    assert run.returncode == 0
    assert "Exit code: 0 " in run.stdout


def test_a_reader_that_goes_away_is_no_traceback(folder):
    for number in range(300):
        (folder / f"p{number}.py").write_text(OLD * 100, "utf-8")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "durable_graph", "imports", str(folder)]
    with os.fdopen(write, "wb") as closed:
        run = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "BrokenPipe" not in run.stderr
