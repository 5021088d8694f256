"""The project's own files, for tests that read them. No git needed: what is not ours is left out by name."""

import ast
import os
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("durable_graph", "checkpointers")

_NOT_OURS = (
    ".bench-venv",
    ".demo",
    ".git",
    ".venv",
    ".hypothesis",
    ".import_linter",
    ".mypy",
    ".pytest",
    ".ruff",
    "__pycache__",
    "build",
    "dist",
    "htmlcov",
)


def files(*tops, suffix=""):
    """Paths of the project's files below the given folders (default: all), in a fixed order."""
    found = []
    for top in tops or (".",):
        for folder, folders, names in os.walk(ROOT / top):
            folders[:] = sorted(
                name for name in folders if not name.startswith(_NOT_OURS) and not name.endswith(".egg-info")
            )
            found += [Path(folder, name) for name in sorted(names) if name.endswith(suffix)]
        if (ROOT / top).is_file():
            found.append(ROOT / top)
    return found


def python(*tops):
    """Python files below the given folders. None is an error: the rule would hold nothing."""
    found = files(*tops, suffix=".py")
    assert found, f"no Python file below {tops}"
    return found


@cache
def tree(path):
    """The file's syntax tree."""
    return ast.parse(path.read_bytes(), filename=str(path))


def imports(path):
    """(line, absolute name) of all that the file imports, at any depth, `TYPE_CHECKING` included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(path, node.lineno)}: relative import"
            yield node.lineno, node.module


def place(path, line):
    """`file:line`, as editors like it."""
    return f"{path.relative_to(ROOT)}:{line}"


def modules():
    """Dotted names of the modules of both packages, except `__main__`."""
    for path in python(*PACKAGES):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
