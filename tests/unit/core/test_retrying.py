"""Which errors are worth another attempt, and when it comes."""

import pytest

from durable_graph.core.retrying import default_retry_on, delay_before_retry
from durable_graph.errors import InvalidUpdateError
from durable_graph.types import RetryPolicy


class Answer:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def http_error(module="app", base=Exception, **fields):
    error = type("HTTPError", (base,), {"__module__": module})("no")
    error.__dict__.update(fields)
    return error


class OwnError(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError(),
        ConnectionResetError(),
        TimeoutError(),
        OwnError(),
        http_error(response=Answer(status_code=503)),
        http_error(response=Answer(status=500)),
        http_error(status_code=502),
        http_error(base=ValueError, status=599),
        http_error("httpx", OSError),
        http_error("requests.exceptions", OSError, response=None),
    ],
)
def test_trouble_on_the_way_is_worth_another_attempt(error):
    assert default_retry_on(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        TypeError(),
        ZeroDivisionError(),
        ImportError(),
        KeyError(),
        NameError(),
        SyntaxError(),
        RuntimeError(),
        ReferenceError(),
        StopIteration(),
        StopAsyncIteration(),
        FileNotFoundError(),
        InvalidUpdateError("no"),
        KeyboardInterrupt(),
        http_error("httpx", response=Answer(status_code=404)),
        http_error("aiohttp.client", status=400),
    ],
)
def test_mistakes_are_not_tried_again(error):
    assert not default_retry_on(error)


def test_a_status_that_is_no_number_says_nothing():
    assert default_retry_on(http_error(status="503"))
    assert default_retry_on(http_error(status=True))


def test_the_wait_grows_by_the_factor_up_to_the_longest():
    policy = RetryPolicy(initial_interval=2.0, backoff_factor=3.0, max_interval=10.0, max_attempts=9, jitter=False)
    waits = [delay_before_retry([policy], ConnectionError(), attempt) for attempt in (1, 2, 3, 8)]
    assert waits == [(2.0, False), (6.0, False), (10.0, False), (10.0, False)]


def test_the_last_attempt_is_the_last():
    policy = RetryPolicy(initial_interval=1.0, max_attempts=2)
    assert delay_before_retry([policy], ConnectionError(), 1) == (1.0, True)
    assert delay_before_retry([policy], ConnectionError(), 2) is None


def test_the_first_policy_that_matches_decides():
    never = RetryPolicy(retry_on=KeyError, max_attempts=1)
    always = RetryPolicy(7.0, retry_on=(LookupError, ValueError))
    assert delay_before_retry([never, always], KeyError(), 1) is None
    assert delay_before_retry([never, always], IndexError(), 1) == (7.0, True)
    assert delay_before_retry([never, always], TypeError(), 1) is None
    assert delay_before_retry([], ConnectionError(), 1) is None


@pytest.mark.parametrize("retry_on", [KeyError, [ValueError, KeyError], lambda error: error.args == ("x",)])
def test_retry_on_is_a_class_several_or_a_function(retry_on):
    policy = RetryPolicy(retry_on=retry_on)
    assert delay_before_retry([policy], KeyError("x"), 1) == (0.5, True)
    assert delay_before_retry([policy], OSError("y"), 1) is None
