"""Two hundred threads of version 1 of a graph meet version 2: the doctor tells what becomes of each, and is right."""

import shutil
import subprocess
import sys

import pytest

from checkpointers import SqliteSaver
from durable_graph import Checkpointer, Command
from durable_graph.cli import main
from tests.compatibility import make_threads, orders_v1, orders_v2
from tests.compatibility.make_threads import FILE, KINDS, threads
from tests.compatibility.orders_v2 import HELPS, Order, OrderModel
from tests.sources import ROOT

STATES = {
    "finished": "finished",
    "asked": "waits for an answer",
    "asked inside": "waits for an answer",
    "stopped": "stopped at a breakpoint",
    "killed joining": "cut short",
    "killed inside": "cut short",
    "killed packing": "cut short",
    "failed": "failed",
}
GOES_ON_AT = {
    "asked": "approve",
    "asked inside": "payment",
    "stopped": "notify",
    "killed joining": "stock",
    "killed inside": "payment",
    "killed packing": "pack",
    "failed": "stock",
}
"""Where threads of each kind stand, by the names of version 1. All of them have other names in version 2, or none."""

HAS = "'box', 'check', 'checkout', 'dispatch', 'inventory', 'receive', 'review', 'ship'"


@pytest.fixture
def store(tmp_path):
    """The committed threads, in a copy."""
    shutil.copy(FILE, tmp_path / "threads.db")
    with SqliteSaver(tmp_path / "threads.db", synchronous="NORMAL") as store:
        yield store


def examine(face, graph):
    """The reports by thread, and whether all is well."""
    diagnosis = face.call(graph, "doctor")
    assert [report.thread for report in diagnosis.threads] == [name for name, _, _ in threads()]
    assert diagnosis.ok == (not diagnosis.failing)
    return {report.thread: report for report in diagnosis.threads}


def gone(node, has=HAS):
    cure = "give the node that takes its place in node_aliases"
    return f"it goes on at node '{node}', which the graph lacks (it has {has}); {cure}"


def needs(node, *keys):
    them = "it" if len(keys) == 1 else "them"
    names = ", ".join(map(repr, keys))
    cure = f"give {them} in migrate_state"
    return f"node {node!r} needs {names}, and no run of another version had a value for {them}; {cure}"


# --- what was stored -------------------------------------------------------------------------------------------------


def test_the_committed_threads_are_two_hundred_in_every_state_a_deploy_can_meet(store):
    assert FILE.stat().st_size < 1_500_000
    assert sum(KINDS.values()) == 200
    diagnosis = orders_v1.orders(orders_v1.Order, store).doctor()
    assert diagnosis.ok, str(diagnosis)
    seen = [(report.thread, report.state, report.version, report.notes) for report in diagnosis.threads]
    assert seen == [(name, STATES[kind], "1", ()) for name, kind, _ in threads()]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_script_makes_the_same_threads(tmp_path, store):
    make_threads.make(tmp_path / "again.db")
    with SqliteSaver(tmp_path / "again.db") as again:
        assert _told(again) == _told(store)


def _told(store):
    graph = orders_v1.orders(orders_v1.Order, store)
    found = []
    for info in store.threads():
        snapshot = graph.get_state({"configurable": {"thread_id": info.key}}, subgraphs=True)
        inside = [task.state.values for task in snapshot.tasks if hasattr(task.state, "values")]
        asked = [one.value for one in snapshot.interrupts]
        found.append((info.key, info.status, info.owner, snapshot.values, snapshot.next, asked, inside))
    return found


# --- what the doctor says --------------------------------------------------------------------------------------------


def test_without_help_each_thread_that_is_not_over_is_named_with_the_node_it_waits_on(face, store):
    reports = examine(face, orders_v2.orders(Order, store, helps=(), inside=()))
    for name, kind, _ in threads():
        report = reports[name]
        assert (report.state, report.version) == (STATES[kind], "1")
        assert report.problems == (() if kind == "finished" else (gone(GOES_ON_AT[kind]),))
        assert report.notes == ("the state no longer has 'amount'; what is stored there is not read",)


def test_with_new_names_alone_each_thread_is_named_with_the_keys_it_lacks(face, store):
    reports = examine(face, orders_v2.orders(Order, store, helps=["node_aliases"], inside=()))
    lacks = "currency", "total"
    expected = {
        "finished": (),
        "asked": (needs("review", *lacks),),
        "asked inside": (
            needs("checkout", *lacks),
            f"in 'payment': {gone('confirm', repr('authorise') + ', ' + repr('book') + ', ' + repr('open'))}",
        ),
        "stopped": (needs("dispatch", *lacks),),
        "killed joining": (needs("inventory", *lacks),),
        "killed inside": (needs("checkout", *lacks), f"in 'payment': {needs('book', *lacks)}"),
        "killed packing": (),  # what is left to run gets the input of a Send
        "failed": (needs("inventory", *lacks),),
    }
    assert {name: reports[name].problems for name, _, _ in threads()} == {
        name: expected[kind] for name, kind, _ in threads()
    }


def test_a_new_required_key_is_named_when_all_names_are_known(face, store):
    names = HELPS[:2]
    reports = examine(face, orders_v2.orders(Order, store, helps=names, inside=names))
    assert reports["asked 07"].problems == (needs("review", "currency"),)
    assert reports["killed inside 07"].problems == (
        needs("checkout", "currency"),
        f"in 'payment': {needs('book', 'currency')}",
    )


def test_a_model_also_refuses_what_is_stored(face, store):
    reports = examine(face, orders_v2.orders(OrderModel, store, helps=HELPS[:2]))
    for name, kind, number in threads():
        held = "high" if number % 3 == 0 else "low"
        refused, *others = reports[name].problems
        assert refused.startswith("Key 'priority' of OrderModel cannot hold this str: ")
        assert refused.endswith(f" (key 'priority' holds {held!r})")
        if kind in {"finished", "killed packing"}:
            assert not others
        else:
            (why,) = others
            assert why.startswith(f"node {orders_v2.RENAMED[GOES_ON_AT[kind]]!r} would not get its input: ")
            assert "'currency'" in why


@pytest.mark.parametrize("schema", [Order, OrderModel])
def test_with_aliases_and_a_migration_every_thread_goes_on_to_the_right_end(face, store, schema):
    graph = orders_v2.orders(schema, store)
    reports = examine(face, graph)
    assert not any(report.problems or report.notes for report in reports.values())
    for name, kind, number in threads():
        assert finish(face, graph, name) == expected_end(name, kind, number), name
    assert {report.state for report in examine(face, graph).values()} == {"finished"}


def finish(face, graph, name):
    """The state of a thread once nothing of it is left to do."""
    config = {"configurable": {"thread_id": name}}
    for _ in range(5):
        snapshot = face.get_state(graph, config)
        if not snapshot.next:
            break
        answers = {one.id: "ok" if "pay" in one.value else "yes" for one in snapshot.interrupts}
        face.invoke(graph, Command(resume=answers) if answers else None, config)
    values = snapshot.values
    return values if isinstance(values, dict) else values.model_dump()


def expected_end(name, kind, number):
    """Where a thread ends: what version 1 did stays, version 2 does the rest."""
    order, cents = f"order of {name}", 100 * number
    total = cents / 100
    quoted = 2 if kind in {"killed joining", "failed"} else 1
    opened = total if kind in {"asked", "killed joining", "failed"} else cents
    booked = "booked" if kind in {"finished", "stopped", "killed packing"} else "booked EUR"
    notified = ["notified"] if kind in {"finished", "killed packing"} else []
    packed = [f"packed {order}, item {item}" for item in range(orders_v1.ITEMS)]
    trail = ["received", "checked", "stocked", f"approved yes by quote of version {quoted}", *notified, *packed]
    return {
        "order": order,
        "total": total,
        "currency": "EUR",
        "priority": int(number % 3 == 0),
        "paid": f"opened {opened} confirmed ok {booked}",
        "trail": [*trail, "shipped"],
    }


# --- from a shell ----------------------------------------------------------------------------------------------------


def shell(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "durable_graph", "doctor", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.fixture
def copy(tmp_path):
    return shutil.copy(FILE, tmp_path / "threads.db")


def test_the_command_names_each_thread_that_would_not_go_on(copy):
    ended = shell("tests.compatibility.orders_v2:alone", "--checkpointer", f"sqlite:///{copy}")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith(f"FAIL 'asked 00' (waits for an answer, version '1')\n     {gone('approve')}\n")
    assert all((f"FAIL {name!r} (" in ended.stdout) == (kind != "finished") for name, kind, _ in threads())
    assert ended.stdout.endswith(
        "note on 200 threads ('finished 00', 'finished 01', 'finished 02' and 197 more): the state no longer has "
        "'amount'; what is stored there is not read\n200 threads of graph 'orders': 150 would not go on.\n"
    )


def test_the_command_says_that_all_is_well(copy):
    ended = shell("tests.compatibility.orders_v2:helped", "--checkpointer", copy)
    assert (ended.returncode, ended.stdout) == (0, "200 threads of graph 'orders': all would go on.\n")
    assert ended.stderr == ""


class Unlisted(SqliteSaver):
    """A checkpointer that cannot list its threads."""

    threads = Checkpointer.threads


def unlisted():
    return orders_v2.orders(Order, Unlisted(FILE))


def broken():
    raise ZeroDivisionError("no graph today")


def builder():
    return orders_v2.helped().builder


HERE = "tests.compatibility.test_doctor"
GRAPH = "tests.compatibility.orders_v2:alone"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["orders"], "'orders' names no graph"),
        ([":orders"], "':orders' names no graph"),
        (["nowhere.at.all:graph"], "module 'nowhere.at.all' cannot be imported: ModuleNotFoundError"),
        ([f"{HERE}:nothing"], f"module '{HERE}' has no 'nothing'"),
        ([f"{HERE}:HERE"], "which is no graph"),
        ([f"{HERE}:threads"], "which is no graph"),
        ([f"{HERE}:broken"], "raised ZeroDivisionError('no graph today')"),
        ([GRAPH], "has no checkpointer whose threads could be looked at"),
        ([GRAPH, "--checkpointer", "no such file.db"], "there is no file 'no such file.db'"),
        ([GRAPH, "--checkpointer", "sqlite:///no such file.db"], "there is no file 'no such file.db'"),
        ([GRAPH, "--checkpointer", "sqlite:///:memory:"], "there is no file ':memory:'"),
        ([GRAPH, "--checkpointer", "sqlight:///runs.db"], "No checkpointer is installed for 'sqlight'"),
        ([GRAPH, "--checkpointer", __file__], "is not a database"),
        ([f"{HERE}:unlisted"], "Unlisted cannot list its threads"),
    ],
    ids=lambda value: value[-1][-24:] if isinstance(value, list) else "",
)
def test_wrong_use_of_the_command_is_told_and_nothing_is_made(arguments, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *arguments]) == 2
    told = capsys.readouterr()
    assert text in told.err
    assert told.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["tests.compatibility.orders_v2:helped", f"{HERE}:builder"])
def test_a_graph_is_named_in_every_form(name, copy, capsys):
    assert main(["doctor", name, "--checkpointer", str(copy)]) == (0 if name.endswith("helped") else 1)
    assert "200 threads of graph" in capsys.readouterr().out


def test_the_command_explains_itself(capsys):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--help"])
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert "Exit code: 0 all threads would go on; 1 some would not; 2 wrong use" in told
