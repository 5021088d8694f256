"""Calls of a LangGraph program work here: what may be passed under which name, and in which place."""

import inspect
import tomllib
from pathlib import Path

import pytest

from durable_graph.cli.imports.names import shipped
from tests.compatibility.moving import find

HERE = Path(__file__).parent
LANGGRAPH = tomllib.loads((HERE / "langgraph_names.toml").read_text("utf-8"))["parameters"]
TABLE = tomllib.loads((HERE / "parameters.toml").read_text("utf-8"))
PENDING = TABLE.pop("pending")


def our_path(path):
    """Where a callable of LangGraph's is here, as the table of names has it."""
    module, _, name = path.partition(":")
    first, *members = name.split(".")
    ours = shipped().look_up(module, first)
    return f"{ours.module}:{'.'.join([ours.name, *members])}"


def parameters(call):
    """(names, names that may be passed by place) without `self`."""
    listed = [each for each in inspect.signature(call).parameters.values() if each.name != "self"]
    named = [each.name for each in listed if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    placed = [each.name for each in listed if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return named, placed


def by_place(theirs):
    return theirs[: theirs.index("*")] if "*" in theirs else theirs


EXISTING = {
    path: our_path(path)
    for path in LANGGRAPH
    if not isinstance(TABLE.get(path, {}).get("left_out"), str) and our_path(path) not in PENDING["callables"]
}


@pytest.mark.parametrize("path", EXISTING)
def test_a_call_accepts_what_langgraphs_accepts(path):
    said = TABLE.get(path, {})
    left_out, renamed = said.get("left_out", {}), said.get("renamed", {})
    pending = PENDING["parameters"].get(EXISTING[path], [])
    theirs = [name for name in LANGGRAPH[path] if name != "*"]
    assert {*left_out, *renamed, *pending} <= set(theirs)

    call = find(EXISTING[path])
    assert call is not None, f"{EXISTING[path]} is not there"
    named, _ = parameters(call)
    expected = {renamed.get(name, name) for name in theirs if name not in left_out and name not in pending}
    assert sorted(expected - {*named}) == []
    assert sorted({*left_out, *renamed} & {*named}) == [], "what is left out or renamed is there"
    assert sorted({*pending} & {*named}) == [], f"take it out of [pending] in parameters.toml: {EXISTING[path]}"


@pytest.mark.parametrize("path", EXISTING)
def test_what_is_passed_without_a_name_arrives_in_the_same_place(path):
    said = TABLE.get(path, {})
    if "by_keyword" in said:
        assert said["by_keyword"].endswith(".")
        return
    _, placed = parameters(find(EXISTING[path]))
    missing = {*said.get("left_out", {}), *PENDING["parameters"].get(EXISTING[path], [])}
    for place, name in enumerate(by_place(LANGGRAPH[path])):
        if name in missing:
            break  # what would follow cannot be passed by place
        assert placed[place] == said.get("renamed", {}).get(name, name)


@pytest.mark.parametrize("path", [path for path in LANGGRAPH if path not in EXISTING])
def test_a_call_that_is_left_out_or_pending_is_not_there(path):
    ours = our_path(path)
    if ours in PENDING["callables"]:
        assert find(ours) is None, f"{ours} is there: take it out of [pending] in parameters.toml"
    else:
        reason = TABLE[path]["left_out"]
        assert reason.endswith(".")
        assert find(ours) is None or reason.startswith("Only the engine makes it")


def test_the_table_says_nothing_about_what_is_not_listed():
    assert TABLE.keys() <= LANGGRAPH.keys()
    ours = {our_path(path) for path in LANGGRAPH}
    assert {*PENDING["callables"], *PENDING["parameters"]} <= ours
    for said in TABLE.values():
        assert said.keys() <= {"left_out", "renamed", "by_keyword"}
        reasons = said.get("left_out", {})
        assert all(reason.endswith(".") for reason in ([reasons] if isinstance(reasons, str) else reasons.values()))


def test_a_missing_parameter_would_be_seen():
    def call(a, *, b): ...

    assert parameters(call) == (["a", "b"], ["a"])
    assert by_place(["a", "*", "b"]) == ["a"]
