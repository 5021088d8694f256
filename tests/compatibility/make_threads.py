"""Makes threads_v1.db: 200 threads of version 1 of a graph, in every state in which a deploy can find them.

    python -m tests.compatibility.make_threads [FILE]

Processes that crash are real ones: they are killed with SIGKILL.
"""

import sqlite3
import sys
import traceback
from pathlib import Path

from checkpointers import SqliteSaver
from durable_graph import Command
from durable_graph.testing.processes import ForkServer
from tests.compatibility import orders_v1
from tests.sources import ROOT

FILE = Path(__file__).with_name("threads_v1.db")

KINDS = {
    "finished": 50,
    "asked": 40,
    "asked inside": 30,
    "stopped": 25,
    "killed joining": 15,
    "killed inside": 15,
    "killed packing": 10,
    "failed": 15,
}
"""How many threads there are of each kind."""

DEAD = "00000000-0000-0000-0000-000000000000:0:1:1:00000000"
"""The owner of threads whose process was killed: of a machine that was started anew since."""

_WRITE = "tests.compatibility.make_threads:write_thread"


def threads():
    """(name, kind, number) of every thread; one half of each kind has a TypedDict as state, the other a model."""
    return [(f"{kind} {number:02}", kind, number) for kind, count in KINDS.items() for number in range(count)]


def given(name, number):
    """The input of a thread."""
    return {"order": f"order of {name}", "amount": 100 * number, "priority": "high" if number % 3 == 0 else "low"}


def load():
    """In the fork server: all that its children need, but nothing that is open."""
    whole = traceback.format_exception  # errors are stored with theirs: the paths of this machine are nobody's business
    traceback.format_exception = lambda error: [line.replace(f"{ROOT}/", "") for line in whole(error)]
    for schema in (orders_v1.Order, orders_v1.OrderModel):
        _ = orders_v1.orders(schema, SqliteSaver("never made.db"))


def write_thread(file, name, kind, number):
    """Run one thread to where it is to be found. Of those that are killed nothing comes back."""
    with SqliteSaver(file, synchronous="NORMAL") as checkpointer:
        schema = orders_v1.OrderModel if number % 2 else orders_v1.Order
        graph = orders_v1.orders(schema, checkpointer)
        config = {"configurable": {"thread_id": name}}
        if kind == "killed joining":
            orders_v1.TROUBLE = "kill stock"
        if kind == "failed":
            orders_v1.TROUBLE = "fail stock"
        try:
            graph.invoke(given(name, number), config)
        except ValueError:
            return
        if kind == "asked":
            return
        stop = ["notify"] if kind == "stopped" else None
        graph.invoke(Command(resume="yes"), config, interrupt_before=stop)
        if kind == "asked inside":
            return
        orders_v1.TROUBLE = {"killed inside": "kill book", "killed packing": "kill pack"}.get(kind, "")
        graph.invoke(Command(resume="ok"), config, interrupt_before=stop)


def make(file):
    """Write the database."""
    file.unlink(missing_ok=True)
    with ForkServer() as server:
        server.here("tests.compatibility.make_threads:load")
        for name, kind, number in threads():
            ended = server.call(_WRITE, file=str(file), name=name, kind=kind, number=number)
            assert ended.code == (-9 if kind.startswith("killed") else 0), (name, ended)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE thread SET owner = ? WHERE owner IS NOT NULL", (DEAD,))
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else FILE)
