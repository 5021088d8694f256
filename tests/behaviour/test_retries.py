"""When a failed attempt is tried again. Delays are tiny, or read off the policy without waiting for them."""

import asyncio
import threading

import pytest

from durable_graph import START, RetryPolicy, Send, StateGraph, get_runtime
from durable_graph.core.retrying import delay_before_retry
from durable_graph.errors import InvalidUpdateError
from tests.behaviour.making import both, says, until
from tests.behaviour.small_graphs import Log, Marks, chain, thread

QUICK = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)


class Flaky:
    """A node that fails with each of `errors` in turn, then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.attempts = []

    def __call__(self, state):
        self.attempts.append(get_runtime().execution_info.node_attempt)
        if self.errors:
            raise self.errors.pop(0)
        return {"log": [f"attempt {len(self.attempts)}"]}


def graph(node, policy, **compile_arguments):
    return StateGraph(Log).add_node("a", node, retry_policy=policy).add_edge(START, "a").compile(**compile_arguments)


def test_a_node_without_policy_is_tried_once(face):
    node = Flaky(ConnectionError("down"))
    with pytest.raises(ConnectionError):
        face.invoke(chain(a=node).compile(), {"log": []})
    assert node.attempts == [1]


@pytest.mark.parametrize("make", [0, 1], ids=["sync", "async"])
def test_a_failing_node_is_tried_again_until_it_succeeds(face, make):
    node = Flaky(ValueError("1"), ValueError("2"))
    assert face.invoke(graph(both(node)[make], QUICK), {"log": []}) == {"log": ["attempt 3"]}
    assert node.attempts == [1, 2, 3]


def test_the_last_attempts_error_comes_with_a_note_of_how_often_it_was_tried(face):
    node = Flaky(*(ValueError(str(n)) for n in range(5)))
    with pytest.raises(ValueError, match="2") as caught:
        face.invoke(graph(node, QUICK), {"log": []})
    assert node.attempts == [1, 2, 3]
    assert "attempt 3" in "\n".join(caught.value.__notes__)


def test_an_error_that_the_policy_does_not_name_is_not_tried_again(face):
    node = Flaky(KeyError("other"))
    with pytest.raises(KeyError):
        face.invoke(graph(node, QUICK), {"log": []})
    assert node.attempts == [1]


@pytest.mark.parametrize(
    "retry_on",
    [OSError, [KeyError, OSError], (OSError,), lambda error: "down" in str(error)],
    ids=["class", "list", "tuple", "function"],
)
def test_what_is_retried_is_a_class_several_or_a_function(face, retry_on):
    policy = QUICK._replace(retry_on=retry_on)
    assert face.invoke(graph(Flaky(OSError("down")), policy), {"log": []}) == {"log": ["attempt 2"]}
    with pytest.raises(ZeroDivisionError):
        face.invoke(graph(Flaky(ZeroDivisionError("up")), policy), {"log": []})


def test_of_several_policies_the_first_that_matches_decides(face):
    policies = [QUICK._replace(retry_on=KeyError, max_attempts=1), QUICK._replace(retry_on=Exception, max_attempts=5)]
    with pytest.raises(KeyError):
        face.invoke(graph(Flaky(KeyError("x")), policies), {"log": []})
    node = Flaky(*(OSError("x") for _ in range(4)))
    assert face.invoke(graph(node, policies), {"log": []}) == {"log": ["attempt 5"]}


def test_a_retry_waits_longer_each_time_up_to_the_longest_interval():
    policy = RetryPolicy(initial_interval=0.5, backoff_factor=2.0, max_interval=3.0, max_attempts=6, jitter=False)
    waits = [delay_before_retry([policy], ConnectionError(), attempt) for attempt in range(1, 7)]
    assert waits == [(0.5, False), (1.0, False), (2.0, False), (3.0, False), (3.0, False), None]
    assert delay_before_retry([policy._replace(jitter=True)], ConnectionError(), 1) == (0.5, True)


def test_only_the_failing_send_is_tried_again(face):
    marks, failed = Marks(), []

    def worker(arg):
        marks(arg)
        if arg == 1 and not failed:
            failed.append(1)
            text = "once"
            raise ValueError(text)
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("worker", worker, retry_policy=QUICK)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(3)], ["worker"])
    assert face.invoke(builder.compile(), {"log": []}) == {"log": [0, 1, 2]}
    assert [marks.count(n) for n in range(3)] == [1, 2, 1]


def test_a_failing_router_is_tried_again_with_its_node(face):
    routes = Flaky(ValueError("once"))
    builder = StateGraph(Log).add_node("a", says("a"), retry_policy=QUICK).add_node("b", says("b")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: routes(state) and "b", ["b"])
    assert face.invoke(builder.compile(), {"log": []}) == {"log": ["a", "b"]}
    assert routes.attempts == [1, 2]


def test_what_a_failed_attempt_wrote_to_the_custom_stream_was_shown_and_its_update_was_not(face):
    failed = []

    def node(state, writer, runtime):
        writer({"attempt": runtime.execution_info.node_attempt})
        if not failed:
            failed.append(1)
            text = "once"
            raise ValueError(text)
        return {"log": ["done"]}

    parts = face.stream(graph(node, QUICK), {"log": []}, stream_mode=["custom", "updates"])
    assert parts == [
        ("custom", {"attempt": 1}),
        ("custom", {"attempt": 2}),
        ("updates", {"a": {"log": ["done"]}}),
    ]


def test_a_run_that_gave_up_starts_to_count_anew_when_it_is_resumed(face, backend):
    node = Flaky(*(ValueError(str(n)) for n in range(4)))
    compiled = graph(node, QUICK, checkpointer=backend.make())
    with pytest.raises(ValueError, match="2"):
        face.invoke(compiled, {"log": []}, thread())
    assert face.invoke(compiled, None, thread()) == {"log": ["attempt 5"]}
    assert node.attempts == [1, 2, 3, 1, 2]


def test_a_sibling_that_waits_for_its_next_attempt_is_not_waited_for_when_another_one_fails(face, backend):
    """Its delay is a thousand seconds."""
    node, slow = (
        Flaky(KeyError("first")),
        QUICK._replace(initial_interval=1000.0, max_interval=1000.0, retry_on=KeyError),
    )

    def bad(state):
        while not node.attempts:
            threading.Event().wait(0.001)
        threading.Event().wait(0.02)  # until the driver knows of the other's failure
        text = "bad"
        raise ValueError(text)

    builder = StateGraph(Log).add_node("waits", node, retry_policy=slow).add_node("bad", bad)
    builder.add_edge(START, "waits").add_edge(START, "bad")
    compiled = builder.compile(checkpointer=backend.make())
    with pytest.raises(ValueError, match="bad"):
        face.invoke(compiled, {"log": []}, thread())
    assert face.get_state(compiled, thread()).next == ("bad", "waits")


def test_a_cancelled_retry_does_not_wait_for_its_delay():
    node = Flaky(ValueError("1"))
    slow = graph(node, QUICK._replace(initial_interval=1000.0))

    async def main():
        running = asyncio.ensure_future(slow.ainvoke({"log": []}))
        await until(lambda: node.attempts)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert node.attempts == [1]


# --- what the default policy tries again --------------------------------------------------------------------------


class HttpError(Exception):
    """As the errors of requests and httpx look."""

    def __init__(self, status):
        super().__init__(status)
        self.response = type("Response", (), {"status_code": status})()


class AioError(Exception):
    """As the errors of aiohttp look."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


TransportError = type("ConnectTimeout", (OSError,), {"__module__": "requests.exceptions"})


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (TransportError(), True),
        (HttpError(500), True),
        (HttpError(503), True),
        (AioError(502), True),
        (HttpError(404), False),
        (HttpError(429), False),
        (AioError(400), False),
        (OSError(), False),
        (FileNotFoundError(), False),
        (ValueError(), False),
        (TypeError(), False),
        (KeyError(), False),
        (RuntimeError(), False),
        (ZeroDivisionError(), False),
        (ImportError(), False),
        (NameError(), False),
        (StopIteration(), False),
        (InvalidUpdateError("x"), False),
        (type("OwnError", (Exception,), {})(), True),
    ],
    ids=repr,
)
def test_the_default_list_of_what_is_tried_again(error, again):
    assert (delay_before_retry([RetryPolicy()], error, 1) is not None) is again


def test_a_refused_update_is_not_tried_again_whatever_the_default_says(face):
    marks = Marks()

    def node(state):
        marks("a")
        return {"unknown": 1}

    with pytest.raises(InvalidUpdateError):
        face.invoke(graph(node, RetryPolicy(initial_interval=0.001)), {"log": []})
    assert marks.count("a") == 1
