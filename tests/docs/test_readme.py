"""What the documents say is there, and what the README shows is true.

In the README's Python blocks `expression  # → result` states a result; the comment may also stand on the line below.
"""

import ast
import asyncio
import doctest
import importlib
import importlib.metadata
import inspect
import re
import sys
import textwrap
import tomllib
import types
from dataclasses import dataclass

import pytest

import durable_graph
import durable_graph.agents.middleware
from checkpointers.fencing import LEASE_SECONDS
from checkpointers.sql.postgres_target import SCHEMA
from durable_graph import END, START, StateGraph, errors
from durable_graph.cli import COMMANDS, main
from durable_graph.runtime.config import DEFAULT_RECURSION_LIMIT
from durable_graph.runtime.hold import BEHIND, BEHIND_SECONDS
from durable_graph.types import OnBusy, StreamMode
from tests.sources import PACKAGES, ROOT, files, modules, place, python, tree

README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = ("README.md", "ARCHITECTURE.md")

BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
RESULT = re.compile(r"#\s*→\s*(?P<wanted>.+)$")


def blocks(language):
    return [found["text"] for found in BLOCK.finditer(README) if found["language"] == language]


# --- the README's Python ----------------------------------------------------------------------------------------------


def stated(lines, statement):
    """The result that is stated behind a statement or on the line below it; None where there is none."""
    for line in (lines[statement.end_lineno - 1], *lines[statement.end_lineno : statement.end_lineno + 1]):
        found = RESULT.search(line)
        if found and (line is lines[statement.end_lineno - 1] or line.startswith("#")):
            return found["wanted"]
    return None


def run_block(text, names):
    """Execute a block; (source, wanted, got) of each result that it states."""
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        source = ast.get_source_segment(text, statement)
        wanted = stated(lines, statement)
        if isinstance(statement, ast.Expr):
            value = eval(source, names)  # noqa: S307 - our own README
            if wanted is not None:
                yield source, wanted, repr(value)
        else:
            assert wanted is None, f"a result is stated for what has none: {source}"
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)  # noqa: S102 - our own README


def agrees(wanted, got):
    return doctest.OutputChecker().check_output(wanted + "\n", got + "\n", doctest.ELLIPSIS)


def test_every_python_block_of_the_readme_runs_and_gives_what_it_states(tmp_path, monkeypatch):
    module = types.ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)  # hints of its classes are resolved there
    monkeypatch.chdir(tmp_path)
    results = [result for text in blocks("python") for result in run_block(text, vars(module))]
    module.graph.checkpointer.close()

    assert [(source, wanted, got) for source, wanted, got in results if not agrees(wanted, got)] == []
    assert len(results) == README.count("# →") >= 7
    assert (tmp_path / "runs.db").is_file()


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("1 + 1  # → 2", True),
        ("1 + 1\n# → 2", True),
        ("[1, 2, 3]  # → [1, ...]", True),
        ("1 + 1  # → 3", False),
        ("1 + 1\n# → 22", False),
    ],
)
def test_a_wrong_result_would_be_seen(text, held):
    assert [agrees(wanted, got) for _, wanted, got in run_block(text, {})] == [held]


def test_a_graph_of_the_readme_goes_on_after_it_died(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "readme", module := types.ModuleType("readme"))
    monkeypatch.chdir(tmp_path)
    first = blocks("python")[0]
    dying = first.replace('    return {"log": [f"charged', '    raise SystemExit\n    return {"log": [f"charged')
    assert dying != first
    with pytest.raises(SystemExit):
        list(run_block(dying, vars(module)))
    assert module.graph.get_state(module.config).next == ("charge",)

    again = first.replace('graph.invoke({"order": "A17"}, config)', "graph.invoke(None, config)")
    assert again != first
    assert [agrees(wanted, got) for _, wanted, got in run_block(again, vars(module))] == [True]
    module.graph.checkpointer.close()


def test_the_imports_for_people_who_move_over_work():
    (text,) = blocks("diff")
    assert {line[0] for line in text.splitlines()} == {"-", "+"}
    names = {}
    exec("\n".join(line[1:] for line in text.splitlines() if line.startswith("+")), names)  # noqa: S102 - our README

    taken = [alias.name for line in text.splitlines() if line[0] == "-" for alias in ast.parse(line[1:]).body[0].names]
    assert set(taken) <= names.keys()


def test_figures_and_names_of_the_readme_are_those_of_the_code():
    assert f"default {DEFAULT_RECURSION_LIMIT:,}" in README
    assert f"is good for {LEASE_SECONDS:.0f} seconds" in README
    assert f"`{SCHEMA}` unless you name another" in README
    assert set(re.findall(r'^\| `"(\w+)"` \|', README, re.MULTILINE)) == set(OnBusy.__args__)
    assert f"at most {BEHIND} checkpoints or {BEHIND_SECONDS * 1000:.0f} ms behind" in README
    (modes,) = re.findall(r"The modes are (.*?); a list", README, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", modes)) == set(StreamMode.__args__)


def test_what_is_not_there_yet_is_not_there():
    missing = README.partition("## Not there yet")[2].partition("\n## ")[0]
    graph = (
        StateGraph(dict).add_node("a", lambda state: {}).add_edge(START, "a").add_edge("a", END).compile("memory://")
    )
    assert "`astream_events`" in missing
    assert not hasattr(graph, "astream_events"), "astream_events exists: take it out of the list"
    assert "to-do lists" in missing
    assert "TodoListMiddleware" not in durable_graph.agents.middleware.__all__
    assert "Deleting threads (`checkpointer.threads()` lists them)" in missing
    assert graph.checkpointer.threads() == []
    assert not hasattr(graph.checkpointer, "delete_thread"), "threads can be deleted: take it out of the list"
    for method in ("draw_mermaid_png", "draw_png"):
        with pytest.raises(errors.UsageError):
            getattr(graph.get_graph(), method)()


SHOWN = [
    *(
        "Recorded steps",
        "Time travel",
        "Graphs inside graphs",
        "Workflows as functions",
        "Nodes that fail or take long",
        "Queued runs and workers",
    ),
    *("Caches and stores", "Pictures", "When the graph changes", "Testing your own graphs"),
]


@pytest.mark.parametrize("section", SHOWN)
def test_a_feature_is_shown_by_a_snippet_that_states_what_it_gives(section):
    (text,) = re.findall(rf"^## {section}.*?\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert [block for block in BLOCK.finditer(text) if block["language"] == "python" and "# →" in block["text"]]


def commands(text):
    """Subcommands of `python -m durable_graph` that a text names."""
    return set(re.findall(r"python -m durable_graph (\w+)", text))


def test_every_command_that_is_named_exists_and_every_one_is_named():
    assert commands(README) == set(COMMANDS)


@pytest.mark.parametrize("command", sorted(commands(README)))
def test_a_command_that_is_named_takes_the_options_that_are_named(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    (named,) = {text for text in re.findall(rf"`python -m durable_graph {command}([^`]*)`", README) if text}
    assert [option for option in re.findall(r"--[\w-]+", named) if option not in told] == []


def test_imports_changes_a_program_as_the_readme_says(tmp_path, capsys):
    (diff,) = blocks("diff")
    before = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[0] == "-")
    program = tmp_path / "program.py"
    program.write_text(before, "utf-8")
    assert main(["imports", str(program)]) == 0
    assert program.read_text("utf-8") == before
    assert "+from checkpointers import" in capsys.readouterr().out
    assert main(["imports", str(program), "--write"]) == 0
    names = {}
    exec(program.read_text("utf-8"), names)  # noqa: S102 - our own README
    assert {"StateGraph", "Command", "InMemorySaver", "SqliteSaver", "AsyncSqliteSaver"} <= names.keys()
    assert "langgraph" not in program.read_text("utf-8")


# --- what the documents name ------------------------------------------------------------------------------------------

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, re.MULTILINE))


def made(text):
    """Targets of the make commands in a text: in backticks, or at the start of a line."""
    for command in re.findall(r"(?:`|^)make ([^`\n#]+)", text, re.MULTILINE):
        for word in command.split():
            if not re.fullmatch(r"[a-z][a-z-]*", word):
                break
            yield word


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_is_named_exists(document):
    named = list(made((ROOT / document).read_text("utf-8")))
    assert [name for name in named if name not in TARGETS] == []
    assert named or document != "README.md"


def test_make_help_names_every_target_that_people_run():
    text = re.search(r"^define HELP\n(.*?)^endef", MAKEFILE, re.MULTILINE | re.DOTALL)[1]
    helped = set(re.findall(r"^make ([\w-]+)  ", text, re.MULTILINE))
    inner = {"help", "suite", "langchain-here"}  # help itself, and what other targets run
    assert helped == TARGETS - inner


def test_a_target_that_is_missing_would_be_seen():
    assert list(made("`make lint typos` and\nmake nonsense ARGS=x  # text")) == ["lint", "typos", "nonsense"]


PLACE = re.compile(r"(?<![\w./<~-])(?:[\w.-]+/)+[\w.-]*|(?<![\w./-])[\w-]+\.(?:py|md|toml|ini|log|txt)\b")
YOURS = {"path/to/error.log", "path/to/this/folder"}
WORDS = {"I/O"}


def named_places(text):
    """What looks like a path: with a slash, or ending as our files do. URLs are taken out first."""
    text = re.sub(r"\w+:/{2,}\S+|(?<!\w)/\S+", "", text)
    return [found.rstrip(".") for found in PLACE.findall(text) if found not in WORDS and found.rstrip(".") not in YOURS]


def exists(name):
    """A path from the root, or from a package; a file's name alone may be anywhere."""
    tops = (ROOT, *(ROOT / package for package in PACKAGES))
    if any((top / name).exists() or (top / f"{name}.py").is_file() for top in tops):
        return True
    return "/" not in name and any(path.name == name for path in files())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_is_named_exists(document):
    named = named_places((ROOT / document).read_text("utf-8"))
    assert [name for name in named if not exists(name)] == []
    assert len(named) >= 2


def test_a_path_that_is_missing_would_be_seen():
    text = "see `core/gone.py`, nothing.py and tests/unit; not sqlite:///runs.db, not https://a.b/c.md, /dev/shm"
    assert [name for name in named_places(text) if not exists(name)] == ["core/gone.py", "nothing.py"]


def docstrings(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


FOLDERS = {path.name for package in PACKAGES for path in (ROOT / package).iterdir() if path.is_dir()}
TOPS = {*PACKAGES, *FOLDERS, "examples", "migrations", "tests"}


def test_every_path_and_module_that_a_docstring_names_exists():
    missing = []
    for path in python():
        for line, text in docstrings(path):
            for name in named_places(text):
                ours = name.split("/")[0] in TOPS or name.endswith(".md")
                if ours and not exists(name):
                    missing.append((place(path, line), name))
            dotted = re.findall(r"(?<![\w./])(?:durable_graph|checkpointers)(?:\.\w+)+", text)
            missing += [(place(path, line), name) for name in dotted if not resolves(name)]
    assert missing == []


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# What is no module here: groups of entry points, and packages that are in the wheel only.
ELSEWHERE = {*PROJECT["project"]["entry-points"], *PROJECT["tool"]["setuptools"]["package-dir"]}


def resolves(name):
    """Whether a dotted name leads to a module, or to something in one."""
    if name in ELSEWHERE or name.endswith(".db"):
        return True
    found, *rest = name.split(".")
    value = importlib.import_module(found)
    for part in rest:
        found = f"{found}.{part}"
        try:
            value = importlib.import_module(found) if found in set(modules()) else getattr(value, part)
        except AttributeError:
            return False
    return True


def test_a_module_that_is_missing_would_be_seen():
    assert resolves("durable_graph.core.run.Run")
    assert not resolves("durable_graph.core.gone")
    assert not resolves("durable_graph.register_types")


def test_the_changelog_has_an_entry_for_what_is_not_released():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entry = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert entry
    assert re.search(r"^### (Added|Changed|Deprecated|Removed|Fixed|Security)$", entry[1], re.MULTILINE)
    assert re.search(r"^- \S", entry[1], re.MULTILINE)


# --- docstrings -------------------------------------------------------------------------------------------------------


def test_every_module_says_what_it_is():
    silent = [str(path.relative_to(ROOT)) for path in python() if tree(path).body and not ast.get_docstring(tree(path))]
    assert [path for path in silent if not path.startswith("tests")] == []


@dataclass
class Documented:
    """A public class, function or method, with the docstrings in which its errors may stand."""

    name: str
    value: object
    texts: str


def public():
    for name in durable_graph.__all__:
        value = getattr(durable_graph, name)
        if inspect.isfunction(value):
            yield Documented(name, value, value.__doc__ or "")
        elif inspect.isclass(value):
            own = inspect.cleandoc(value.__dict__.get("__doc__") or "")
            yield Documented(name, value, own)
            for verb, method in vars(value).items():
                if inspect.isfunction(method) and not verb.startswith("_"):
                    texts = f"{method.__doc__}\n{own}" if method.__doc__ else ""
                    yield Documented(f"{name}.{verb}", method, texts)


PUBLIC = {documented.name: documented for documented in public()}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name):
    text = PUBLIC[name].texts
    assert text.strip()
    assert not re.match(r"\w+\((\w+.*)?\)( -> .*)?$", text), "@dataclass and NamedTuple write that by themselves"


def raised(function):
    """Names of the errors that a function's own body raises."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if isinstance(getattr(errors, name, None), type):
                yield name


@pytest.mark.parametrize("name", [name for name, one in PUBLIC.items() if inspect.isfunction(one.value)])
def test_what_a_public_function_raises_is_in_its_docstring(name):
    text = PUBLIC[name].texts
    assert [error for error in raised(PUBLIC[name].value) if not re.search(rf"Raises:.*{error}", text, re.DOTALL)] == []


def test_the_search_finds_what_is_raised():
    assert set(raised(StateGraph.add_edge)) == {"InvalidGraphError"}


def _twice():
    return StateGraph(dict).add_node("a", len).add_node("a", len)


MISTAKES = {
    "StateGraph": lambda: StateGraph(5),
    "StateGraph.add_node": _twice,
    "StateGraph.add_sequence": lambda: StateGraph(dict).add_sequence([]),
    "StateGraph.compile": lambda: StateGraph(dict).compile(),
    "StateGraph.validate": lambda: StateGraph(dict).validate(),
    "get_config": durable_graph.get_config,
    "get_runtime": durable_graph.get_runtime,
    "get_stream_writer": durable_graph.get_stream_writer,
    "interrupt": lambda: durable_graph.interrupt("?"),
    "register_type": lambda: durable_graph.register_type(int, encode=str),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_an_error_that_the_docstring_names(name):
    with pytest.raises(errors.DurableGraphError) as caught:
        MISTAKES[name]()
    assert re.search(rf"Raises:.*{type(caught.value).__name__}", PUBLIC[name].texts, re.DOTALL)


CALLS = {
    "invoke": lambda graph: graph.invoke({}, stream_mode="no such"),
    "stream": lambda graph: list(graph.stream({}, durability="no such")),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke({}, durability="no such")),
    "batch": lambda graph: graph.batch([{}], [{}, {}]),
    "get_state": lambda graph: graph.get_state({"thread_id": "t"}),
    "with_config": lambda graph: graph.with_config(treadid="t"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_one_of_the_errors_that_all_calls_may_raise(name):
    graph = StateGraph(dict).add_node("a", lambda state: {}).add_edge(START, "a").compile()
    with pytest.raises(errors.UsageError):
        CALLS[name](graph)
    assert re.search(r"Errors all calls may raise: `UsageError`.*`StorageError`", PUBLIC["CompiledStateGraph"].texts)
