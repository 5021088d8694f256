"""What every public name of LangGraph is here: the table is complete, and what it says is true.

names.toml is a link: the table ships with the package, since `python -m durable_graph imports` reads it too.
"""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

from durable_graph.cli.imports import names as shipped_names
from durable_graph.cli.imports.rewriting import rewrite

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "names.toml").read_text("utf-8"))
LISTING = tomllib.loads((HERE / "langgraph_names.toml").read_text("utf-8"))

SETTINGS = {"langgraph", "packages", "pending", "same_as"}
MODULES = {module: names for module, names in TABLE.items() if module not in SETTINGS}
ENTRIES = [(module, name, entry) for module, names in MODULES.items() for name, entry in names.items()]
OURS = sorted({entry["ours"] for *_, entry in ENTRIES if "ours" in entry})


def importable(path):
    module, _, name = path.partition(":")
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # something else is missing: that is no name of ours
        return False


def entry_of(module, name):
    """The table's word on a name; None where it has none."""
    found = MODULES.get(module, {}).get(name)
    return entry_of(TABLE["same_as"][module], name) if found is None and module in TABLE["same_as"] else found


def test_there_is_one_table():
    shipped = Path(shipped_names.__file__).with_name("names.toml")
    assert (HERE / "names.toml").resolve() == shipped.resolve()
    assert TABLE["langgraph"] == LISTING["versions"]["langgraph"]


@pytest.mark.parametrize("module", LISTING["names"])
def test_every_public_name_of_langgraph_is_in_the_table(module):
    assert [name for name in LISTING["names"][module] if entry_of(module, name) is None] == []


def test_the_table_has_no_name_that_langgraph_does_not_have():
    assert [(module, name) for module, name, _ in ENTRIES if name not in LISTING["names"].get(module, ())] == []
    assert {*TABLE["same_as"], *TABLE["same_as"].values()} <= LISTING["names"].keys()
    repeated = [
        (module, name)
        for module, name, entry in ENTRIES
        if module in TABLE["same_as"] and entry_of(TABLE["same_as"][module], name) == entry
    ]
    assert repeated == []


def test_each_name_has_one_meaning():
    for module, name, entry in ENTRIES:
        kinds = entry.keys() & {"ours", "left_out"}
        assert len(kinds) == 1, (module, name)
        assert entry.keys() - kinds <= ({"note"} if "ours" in kinds else set()), (module, name)


@pytest.mark.parametrize("path", OURS)
def test_what_is_ours_can_be_imported(path):
    if path in TABLE["pending"]["names"]:
        assert not importable(path), f"{path} is there: take it out of [pending] in names.toml"
    else:
        assert importable(path)


def test_only_names_of_the_table_are_pending():
    assert sorted(set(TABLE["pending"]["names"])) == TABLE["pending"]["names"]
    assert set(TABLE["pending"]["names"]) <= set(OURS)


def test_a_name_that_is_not_there_would_be_seen():
    assert importable("durable_graph:StateGraph")
    assert not importable("durable_graph:NoSuchName")
    assert not importable("durable_graph.no_such_module:Name")


def sentences():
    for module, name, entry in ENTRIES:
        if "left_out" in entry:
            yield f"{module}.{name}", entry["left_out"]
        if "note" in entry:
            yield f"{module}.{name}", entry["note"]
    yield from TABLE["packages"].items()


def test_what_is_left_out_has_a_reason_that_says_what_to_do():
    for what, reason in sentences():
        words = reason.split()
        assert reason[0].isupper() or "(" in words[0] or "=" in words[0], (what, reason)
        assert reason.endswith("."), (what, reason)
        assert " ".join(words) == reason, (what, reason)
        assert len(reason) <= 140, (what, reason)


# --- the command follows the table ------------------------------------------------------------------------------------


def imported(text):
    """{local name: (module, name)} of the from-imports of a program."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("layout", ["from {} import {}\n", "from {} import (\n    {},\n)\n"])
@pytest.mark.parametrize("module", LISTING["names"])
def test_each_name_is_imported_from_where_the_table_says(module, layout):
    names = LISTING["names"][module]
    wanted = {}
    for name in names:
        home, _, ours = entry_of(module, name).get("ours", f"{module}:{name}").partition(":")
        wanted[name] = (home, ours)
    result = rewrite(layout.format(module, ", ".join(names)), shipped_names.shipped())
    assert imported(result.text) == wanted
    stays = {finding.what.rpartition(".")[2] for finding in result.findings if finding.stays}
    assert stays == {name for name in names if "ours" not in entry_of(module, name)}


def ours_of(module):
    return [name for name in LISTING["names"][module] if "ours" in entry_of(module, name)]


@pytest.mark.parametrize("module", [module for module in LISTING["names"] if ours_of(module)])
def test_each_name_that_is_written_with_dots_is_what_the_table_says(module):
    names = ours_of(module)
    uses = "".join(f"{module}.{name}\n" for name in names)
    result = rewrite(f"import {module}\n{uses}", shipped_names.shipped())
    wanted = [entry_of(module, name)["ours"].replace(":", ".") for name in names]
    assert result.text.splitlines()[1:] == wanted
    first = result.text.splitlines()[0].removeprefix("import ")
    assert {*first.split(", ")} == {path.rpartition(".")[0] for path in wanted}
