"""`RunControl`: asked once, from any OS thread."""

import threading

from durable_graph.core.control import RunControl


def test_nobody_asked():
    control = RunControl()
    assert (control.drain_requested, control.drain_reason) == (False, None)


def test_the_usual_reason_is_a_shutdown():
    control = RunControl()
    control.request_drain()
    assert (control.drain_requested, control.drain_reason) == (True, "shutdown")


def test_the_first_reason_stays():
    control = RunControl()
    control.request_drain("deploy")
    control.request_drain("disk full")
    assert control.drain_reason == "deploy"


def test_an_empty_reason_is_one():
    control = RunControl()
    control.request_drain("")
    control.request_drain("later")
    assert (control.drain_requested, control.drain_reason) == (True, "")


def test_of_many_os_threads_one_gives_the_reason():
    control, together = RunControl(), threading.Barrier(8)
    seen = []

    def ask(number):
        together.wait(10)
        control.request_drain(str(number))
        seen.append(control.drain_reason)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
