"""Who may import whom. The floors themselves stand in pyproject.toml, for import-linter."""

import ast
import subprocess
import sys

from tests.sources import PACKAGES, ROOT, imports, place, python, tree

# The engine's core decides; it must not be able to look at a clock, a die, the machine or another OS thread.
IMPURE = {
    "asyncio",
    "concurrent",
    "os",
    "queue",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}


def test_each_floor_imports_only_floors_below():
    command = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_core_reads_no_clock_no_random_number_and_no_environment():
    seen = [(place(path, line), name) for path in python("durable_graph/core") for line, name in imports(path)]
    assert [(where, name) for where, name in seen if name.partition(".")[0] in IMPURE] == []


def test_the_core_converts_times_but_never_asks_for_one():
    asked = [
        place(path, node.lineno)
        for path in python("durable_graph/core")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in {"now", "today", "utcnow"}
    ]
    assert asked == []


def test_migrations_import_nothing_of_ours():
    ours = {*PACKAGES, "migrations", "tests"}
    seen = [(place(path, line), name) for path in python("migrations") for line, name in imports(path)]
    assert [(where, name) for where, name in seen if name.partition(".")[0] in ours] == []
