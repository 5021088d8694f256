"""What people install: the wheel holds both packages and the migrations, and works where it is put."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.sources import PACKAGES, ROOT, files

WRITE = """
    from typing import TypedDict
    from durable_graph import END, START, StateGraph

    class State(TypedDict):
        seen: str

    def build():
        graph = StateGraph(State)
        graph.add_node("first", lambda state: {"seen": state["seen"] + "1"})
        graph.add_node("second", lambda state: {"seen": state["seen"] + "2"})
        graph.add_edge(START, "first")
        graph.add_edge("first", "second")
        graph.add_edge("second", END)
        return graph.compile(checkpointer="sqlite:///x.db")

    thread = {"configurable": {"thread_id": "t"}}
    if __name__ == "__main__":
        print(build().invoke({"seen": "0"}, thread)["seen"])
"""

READ = """
    from program import build, thread
    print(build().get_state(thread).values["seen"])
"""

WHERE = """
    from importlib.resources import files
    print(files("checkpointers._migrations").joinpath("env.py").resolve(strict=True))
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, made from the sdist as a release is, by one worker (tests/scheduling.py)."""
    # From a copy, because setuptools leaves its traces beside the sources.
    source = tmp_path_factory.mktemp("source")
    for path in files(*PACKAGES, "migrations", "pyproject.toml", "README.md", "LICENSE"):
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    # The setuptools of constraints.txt, not whatever came out today.
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"], cwd=source)
    (built,) = (source / "dist").glob("*.whl")
    return built


def run(command, cwd):
    """Run it and return its stdout; a failure shows all that it printed. It sees nothing of this checkout."""
    hidden = ("PYTHON", "COVERAGE", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_both_packages_and_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_every_module_is_in_the_wheel(wheel):
    # A package that pyproject.toml forgets to list is found here.
    expected = {str(path.relative_to(ROOT)) for path in files(*PACKAGES) if path.suffix in {".py", ".typed", ".toml"}}
    for path in files("migrations"):
        if path.suffix in {".py", ".mako"}:
            expected.add(str("checkpointers/_migrations" / path.relative_to(ROOT / "migrations")))
    assert {"checkpointers/_migrations/env.py", "checkpointers/_migrations/script.py.mako"} <= expected
    assert any(name.startswith("checkpointers/_migrations/versions/0001") for name in expected)
    shipped = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert sorted(expected - shipped) == [], "list their packages under [tool.setuptools] in pyproject.toml"
    assert sorted(shipped - expected) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_installed_wheel_runs_and_resumes_a_graph_beside_a_foreign_migrations_folder(wheel, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    run([sys.executable, "-m", "venv", "venv"], cwd=tmp_path)
    run([python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel], cwd=tmp_path)

    project = tmp_path / "project"
    decoy = project / "migrations"
    (decoy / "versions").mkdir(parents=True)
    for name in ("__init__.py", "env.py", "versions/0001_decoy.py"):
        (decoy / name).write_text("raise SystemExit('the migrations of the user ran')\n")
    for name, text in {"program.py": WRITE, "later.py": READ, "where.py": WHERE}.items():
        (project / name).write_text(textwrap.dedent(text))

    assert run([python, "program.py"], cwd=project) == "012\n"
    assert (project / "x.db").is_file()
    assert run([python, "later.py"], cwd=project) == "012\n"
    assert Path(run([python, "where.py"], cwd=project).strip()).is_relative_to(tmp_path / "venv")
