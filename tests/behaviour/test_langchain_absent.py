"""Without LangChain loaded, nothing of it is imported or even looked for. What it adds is tested in tests/langchain."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        assert not name.startswith(("langchain", "langsmith")), f"looked for {name}"

sys.meta_path.insert(0, Watch())

from checkpointers import InMemorySaver
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, parallel, thread

class Invokable:
    def invoke(self, state, config=None):
        return {"log": [config["metadata"]["langgraph_node"]]}

config = {**thread(), "callbacks": [], "tags": ["t"], "run_name": "n", "recursion_limit": 25}
graph = chain(a=Invokable(), b=says("b")).compile(checkpointer=InMemorySaver())
assert graph.invoke({"log": []}, config)["log"] == ["a", "b"]
assert asyncio.run(graph.ainvoke({"log": []}, config))["log"] == ["a", "b"] * 2
assert list(parallel(c=says("c"), d=says("d")).compile().stream({"log": []}))
graph.get_state(config)
assert not [name for name in sys.modules if name.startswith(("langchain", "langsmith", "durable_graph.langchain"))]
"""


def test_without_langchain_loaded_nothing_of_it_is_imported_or_looked_for():
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
