"""What every line of the core keeps to, beside its imports."""

import ast

from tests.sources import place, python, tree


def _yields_in_finally(node):
    """Lines of `yield`, `yield from` and `await` inside a `finally` block, nested functions left out."""
    for part in ast.walk(node):
        if isinstance(part, ast.Try | ast.TryStar):
            todo = list(part.finalbody)
            while todo:
                inner = todo.pop()
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                    continue
                if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
                    yield inner.lineno
                todo += ast.iter_child_nodes(inner)


def test_no_effect_stands_in_a_finally_block():
    # A script that is closed early could not do it: cleaning up is the driver's.
    assert [place(path, line) for path in python("durable_graph/core") for line in _yields_in_finally(tree(path))] == []


def test_an_effect_in_a_finally_block_would_be_seen():
    script = "def script():\n try:\n  yield 1\n finally:\n  if busy:\n   yield from Flush()\n"
    assert list(_yields_in_finally(ast.parse(script))) == [6]


def test_no_branch_is_excused_from_coverage_where_decisions_are_taken():
    paths = python("durable_graph/core", "durable_graph/channels", "durable_graph/records.py")
    assert [str(path) for path in paths if "pragma: no " in path.read_text("utf-8")] == []
