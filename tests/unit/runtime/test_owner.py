"""Who holds a thread, and whether that owner certainly lives no more."""

import os
import subprocess
import sys

import pytest

from durable_graph.runtime import owner

SAY_OWNER = """
import sys, time
from durable_graph.runtime import owner
print(owner.claim_name(), flush=True)
sys.stdin.read()
"""


def changed(name, at, value):
    parts = name.split(":")
    parts[at] = value
    return ":".join(parts)


@pytest.fixture
def other():
    """Another process that holds something, and its owner's name."""
    with subprocess.Popen(
        [sys.executable, "-c", SAY_OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        yield child, child.stdout.readline().strip()
        child.kill()


@pytest.fixture
def mine():
    name = owner.claim_name()
    yield name
    owner.forget(name)


def test_a_run_of_this_process_lives_until_it_is_over(mine):
    assert not owner.is_dead(mine, one_host=True)
    owner.forget(mine)
    assert owner.is_dead(mine, one_host=True)


def test_two_runs_of_one_process_are_two_owners(mine):
    another = owner.claim_name()
    assert another != mine
    owner.forget(another)
    assert not owner.is_dead(mine, one_host=True)


def test_another_process_lives_until_it_is_killed(other):
    child, name = other
    assert not owner.is_dead(name, one_host=True)
    child.kill()
    child.wait()
    assert owner.is_dead(name, one_host=True)


def test_a_killed_child_that_nobody_reaped_is_dead(other):
    child, name = other
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, and still answers to signal 0
    os.kill(child.pid, 0)
    assert owner.is_dead(name, one_host=True)


def test_a_pid_that_is_used_again_is_another_process(other):
    _, name = other
    assert owner.is_dead(changed(name, 3, "1"), one_host=True)


def test_an_owner_from_before_a_restart_is_dead_where_all_are_on_one_machine(mine):
    before = changed(mine, 0, "00000000-0000-0000-0000-000000000000")
    assert owner.is_dead(before, one_host=True)
    assert not owner.is_dead(before, one_host=False)


def test_nobody_can_tell_from_here_whether_another_container_lives(mine):
    assert not owner.is_dead(changed(mine, 1, "1"), one_host=True)


@pytest.mark.parametrize("odd", ["", "a:b:c:d:e", "somebody", "1:2:3"])
def test_an_owner_we_cannot_read_is_taken_for_alive(odd):
    assert not owner.is_dead(odd, one_host=True)


def test_a_child_of_a_fork_holds_nothing_of_its_parents(mine):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if not owner.is_dead(mine, one_host=True) and owner.claim_name() != mine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_owner_is_described_by_its_process(mine):
    assert owner.describe_owner(mine) == f"process {os.getpid()}"
    assert "another machine or container" in owner.describe_owner(changed(mine, 1, "1"))
    assert owner.describe_owner("somebody") == "'somebody'"
