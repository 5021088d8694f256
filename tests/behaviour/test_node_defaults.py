"""What holds for all nodes (`set_node_defaults`), retries that can be seen, and what is tried again by default."""

import threading
import time
import urllib.error

import pytest

from durable_graph import START, Command, RetryPolicy, Send, StateGraph, get_runtime, interrupt
from durable_graph.core.retrying import default_retry_on, delay_before_retry
from durable_graph.errors import (
    GraphDrained,
    GraphInterrupt,
    InvalidUpdateError,
    LostLease,
    NodeTimeoutError,
    ParentCommand,
)
from durable_graph.types import TimeoutPolicy
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, thread

CFG = thread()
QUICK = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)


class Flaky:
    """A node that fails a number of times with ValueError."""

    def __init__(self, times, error=ValueError):
        self.times, self.error, self.runs = times, error, 0

    def __call__(self, state):
        self.runs += 1
        if self.runs <= self.times:
            raise self.error(self.runs)
        return {"log": [f"run {self.runs}"]}


def two(a, b, **defaults):
    builder = StateGraph(Log).add_node("a", a).set_node_defaults(**defaults).add_node("b", b)
    return builder.add_edge(START, "a").add_edge("a", "b")


# --- defaults --------------------------------------------------------------------------------------------------------


def test_retries_hold_for_nodes_added_before_and_after(face):
    graph = two(Flaky(1), Flaky(2), retry_policy=QUICK).compile()
    assert face.invoke(graph, {})["log"] == ["run 2", "run 3"]


def test_of_a_sequence_the_first_policy_that_matches_decides(face):
    never = RetryPolicy(max_attempts=1, retry_on=KeyError)
    graph = two(Flaky(1), Flaky(1, KeyError), retry_policy=[never, QUICK._replace(retry_on=Exception)]).compile()
    with pytest.raises(KeyError):
        face.invoke(graph, {})


def test_a_nodes_own_policy_wins(face):
    own = Flaky(1)
    builder = two(says("a"), says("b"), retry_policy=QUICK)
    builder.add_node("own", own, retry_policy=QUICK._replace(retry_on=KeyError)).add_edge("b", "own")
    with pytest.raises(ValueError, match="1"):
        face.invoke(builder.compile(), {})
    assert own.runs == 1


def test_an_empty_policy_is_never(face):
    own = Flaky(1)
    builder = two(says("a"), says("b"), retry_policy=QUICK)
    builder.add_node("own", own, retry_policy=[]).add_edge("b", "own")
    with pytest.raises(ValueError, match="1"):
        face.invoke(builder.compile(), {})
    assert own.runs == 1


def test_a_second_call_adds_to_the_first(face):
    builder = two(Flaky(1), Flaky(3), retry_policy=QUICK)
    builder.set_node_defaults(error_handler=lambda state, error: {"log": [f"handled {error.node}"]})
    assert face.invoke(builder.compile(), {})["log"] == ["run 2", "handled b"]


def test_a_default_timeout_holds_for_all_nodes_but_those_with_their_own(face):
    out = threading.Event()

    def slow(state):
        out.wait(0.3)
        return {"log": ["slow"]}

    builder = two(says("a"), slow, timeout=0.05)
    try:
        with pytest.raises(NodeTimeoutError, match="'b'"):
            face.invoke(builder.compile(), {})
        own = StateGraph(Log).add_node("a", slow, timeout=30).set_node_defaults(timeout=0.05).add_edge(START, "a")
        assert face.invoke(own.compile(), {})["log"] == ["slow"]
    finally:
        out.set()


def test_a_send_has_the_time_that_it_brings(face):
    out = threading.Event()

    def work(arg):
        out.wait(arg)
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("work", work).set_node_defaults(timeout=0.05)
    builder.add_conditional_edges(START, lambda state: [Send("work", 0.2, timeout=TimeoutPolicy(30))], ["work"])
    assert face.invoke(builder.compile(), {})["log"] == [0.2]


def test_defaults_are_not_inherited_by_graphs_inside(face):
    node = Flaky(1)
    inner = StateGraph(Log).add_node("in", node).add_edge(START, "in").compile()
    builder = StateGraph(Log).add_node("outer", inner).add_edge(START, "outer")
    builder.set_node_defaults(retry_policy=QUICK._replace(retry_on=KeyError))
    with pytest.raises(ValueError, match="1"):
        face.invoke(builder.compile(), {})
    assert node.runs == 1


def test_compiling_twice_gives_the_same_and_defaults_may_change_between(face):
    builder = two(Flaky(1), Flaky(1), retry_policy=QUICK)
    first = builder.compile()
    builder.set_node_defaults(retry_policy=RetryPolicy(max_attempts=1))
    assert face.invoke(first, {})["log"] == ["run 2", "run 2"]
    assert len(builder.nodes) == 2


# --- attempts that can be seen ---------------------------------------------------------------------------------------


def test_the_tasks_stream_says_which_attempt_starts_and_which_one_ended(face):
    def node(state, writer):
        attempt = get_runtime().execution_info.node_attempt
        writer(f"token of {attempt}")
        if attempt < 3:
            raise ValueError(attempt)
        return {"log": [attempt]}

    graph = StateGraph(Log).add_node("a", node, retry_policy=QUICK).add_edge(START, "a").compile()
    parts = face.stream(graph, {}, stream_mode=["tasks", "custom"])
    shown = [part if mode == "custom" else (part.get("metadata"), "result" in part) for mode, part in parts]
    assert shown == [
        (None, False),
        "token of 1",
        ({"attempt": 2}, False),
        "token of 2",
        ({"attempt": 3}, False),
        "token of 3",
        ({"attempt": 3}, True),
    ]


def test_a_nodes_metadata_stays_beside_the_attempt(face):
    builder = StateGraph(Log).add_node("a", Flaky(1), retry_policy=QUICK, metadata={"team": "x"}).add_edge(START, "a")
    parts = face.stream(builder.compile(), {}, stream_mode="debug")
    found = [part["payload"].get("metadata") for part in parts if part["type"] == "task"]
    assert found == [{"team": "x"}, {"team": "x", "attempt": 2}]


def test_history_says_which_attempt_succeeded(face, backend):
    graph = two(Flaky(2), says("b"), retry_policy=QUICK).compile(backend.make())
    face.invoke(graph, {}, CFG)
    attempts = {task.name: task.attempt for shown in face.get_state_history(graph, CFG) for task in shown.tasks}
    assert (attempts["a"], attempts["b"]) == (3, 1)


@pytest.mark.parametrize("stored", [True, False])
def test_every_attempt_is_told_when_the_first_one_began(face, backend, stored):
    seen = []

    def node(state, runtime):
        info = runtime.execution_info
        seen.append((info.node_attempt, info.node_first_attempt_time))
        if info.node_attempt < 3:
            raise ValueError(info.node_attempt)

    before = time.time()
    graph = StateGraph(Log).add_node("a", node, retry_policy=QUICK).add_edge(START, "a")
    face.invoke(graph.compile(backend.make() if stored else None), {}, CFG)
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    (first,) = {began for _, began in seen}
    assert before <= first <= time.time()


# --- what is never tried again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [GraphInterrupt(), ParentCommand(), GraphDrained(), LostLease("x")], ids=repr)
def test_control_flow_is_not_tried_again_whatever_the_policy_says(stop):
    for wanted in (BaseException, lambda error: True, None):
        assert delay_before_retry([RetryPolicy(retry_on=wanted)], stop, 1) is None


def test_a_question_in_a_node_with_retries_is_asked_once(face, backend):
    marks = Marks()

    def node(state):
        marks("a")
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("a", node, retry_policy=QUICK._replace(retry_on=BaseException))
    graph = builder.add_edge(START, "a").compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert marks.count("a") == 1
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes"]


# --- the default list ------------------------------------------------------------------------------------------------


def kind(module, name, *bases):
    """An exception class as a library has it."""
    return type(name, bases or (Exception,), {"__module__": module})


class Response(dict):
    """As HTTP clients have them; false where the answer is an error, as those of requests are."""

    def __init__(self, status, **more):
        super().__init__(**more)
        self.status_code = status

    def __bool__(self):
        return self.status_code < 400


def answered(cls, status):
    error = cls(f"{status}")
    error.response = Response(status)
    return error


RequestException = kind("requests.exceptions", "RequestException", OSError)
RequestsHTTPError = kind("requests.exceptions", "HTTPError", RequestException)
HttpxHTTPStatusError = kind("httpx", "HTTPStatusError")
HttpxTransportError = kind("httpx", "TransportError")
AioClientError = kind("aiohttp.client_exceptions", "ClientError")
AioResponseError = kind("aiohttp.client_exceptions", "ClientResponseError", AioClientError)
BotoCoreError = kind("botocore.exceptions", "BotoCoreError")
BotoHTTPClientError = kind("botocore.exceptions", "HTTPClientError", BotoCoreError)
BotoClientError = kind("botocore.exceptions", "ClientError")
RpcError = kind("grpc", "RpcError")


def aio(status):
    error = AioResponseError("x")
    error.status = status
    return error


def boto(status):
    error = BotoClientError("x")
    error.response = {"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return error


def rpc(code):
    error = kind("grpc._channel", "_InactiveRpcError", RpcError)("x")
    error.code = lambda: type("StatusCode", (), {"name": code})
    return error


def of_urllib(reason):
    return urllib.error.URLError(reason)


AGAIN = [
    kind("requests.exceptions", "ConnectionError", RequestException)("x"),
    kind("requests.exceptions", "ReadTimeout", RequestException)("x"),
    kind("requests.exceptions", "ChunkedEncodingError", RequestException)("x"),
    answered(RequestsHTTPError, 500),
    answered(RequestsHTTPError, 503),
    answered(HttpxHTTPStatusError, 502),
    kind("httpx", "ConnectTimeout", HttpxTransportError)("x"),
    kind("httpx", "RemoteProtocolError", HttpxTransportError)("x"),
    kind("httpcore", "ReadError")("x"),
    aio(504),
    kind("aiohttp.client_exceptions", "ServerDisconnectedError", AioClientError)("x"),
    kind("aiohttp.client_exceptions", "ClientConnectorError", AioClientError, OSError)("x"),
    kind("urllib3.exceptions", "ProtocolError")("x"),
    boto(500),
    kind("botocore.exceptions", "EndpointConnectionError", BotoHTTPClientError)("x"),
    rpc("UNAVAILABLE"),
    rpc("DEADLINE_EXCEEDED"),
    of_urllib(ConnectionRefusedError()),
    of_urllib(TimeoutError()),
    ConnectionError(),
    ConnectionResetError(),
    TimeoutError(),
    NodeTimeoutError("x"),
]

NOT_AGAIN = [
    answered(RequestsHTTPError, 404),
    answered(RequestsHTTPError, 429),
    answered(HttpxHTTPStatusError, 401),
    aio(400),
    boto(403),
    rpc("INVALID_ARGUMENT"),
    rpc("NOT_FOUND"),
    of_urllib("unknown url type: x"),
    urllib.error.HTTPError("http://x", 404, "x", None, None),
    kind("requests.exceptions", "MissingSchema", RequestException, ValueError)("x"),
    kind("requests.exceptions", "JSONDecodeError", RequestException, ValueError)("x"),
    kind("requests.exceptions", "TooManyRedirects", RequestException)("x"),
    kind("requests.exceptions", "ContentDecodingError", RequestException)("x"),
    kind("httpx", "UnsupportedProtocol", HttpxTransportError)("x"),
    kind("httpx", "InvalidURL")("x"),
    kind("httpx", "DecodingError")("x"),
    kind("httpx", "StreamConsumed", RuntimeError)("x"),
    kind("aiohttp.client_exceptions", "InvalidURL", AioClientError, ValueError)("x"),
    kind("botocore.exceptions", "NoCredentialsError", BotoCoreError)("x"),
    kind("botocore.exceptions", "ParamValidationError", BotoCoreError)("x"),
    ValueError(),
    OSError(),
    InvalidUpdateError("x"),
]


def named(error):
    status = getattr(getattr(error, "response", None), "status_code", "") or getattr(error, "status", "")
    more = getattr(error, "reason", "") or (error.code().name if isinstance(error, RpcError) else "")
    return f"{type(error).__module__}.{type(error).__name__}{status}{more!r}"


@pytest.mark.parametrize("error", AGAIN, ids=named)
def test_trouble_on_the_way_and_failures_of_servers_are_tried_again(error):
    assert default_retry_on(error)


@pytest.mark.parametrize("error", NOT_AGAIN, ids=named)
def test_refusals_and_mistakes_are_not(error):
    assert not default_retry_on(error)


def test_a_status_that_is_none_of_http_decides_nothing():
    error = kind("mine", "JobError")("x")
    error.status = 3
    assert default_retry_on(error)


def test_an_error_whose_attributes_raise_is_judged_by_its_class():
    class OddError(Exception):
        @property
        def response(self):
            text = "the request was not sent"
            raise RuntimeError(text)

    assert default_retry_on(OddError())


@pytest.mark.parametrize("error", [AGAIN[0], NOT_AGAIN[0]], ids=named)
def test_the_default_policy_of_a_node_goes_by_this_list(face, error):
    node = Flaky(1, lambda _: error)
    policy = RetryPolicy(initial_interval=0.001, jitter=False)
    graph = StateGraph(Log).add_node("a", node, retry_policy=policy).add_edge(START, "a").compile()
    if default_retry_on(error):
        assert face.invoke(graph, {})["log"] == ["run 2"]
    else:
        with pytest.raises(type(error)):
            face.invoke(graph, {})
