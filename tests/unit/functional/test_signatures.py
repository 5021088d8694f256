"""What a function says about itself."""

import functools
from dataclasses import dataclass

import pytest

from durable_graph.errors import InvalidGraphError
from durable_graph.functional.signatures import hints_of, refuse_generators, register_hints
from durable_graph.persistence.codec import CODEC


class Callable:
    def __call__(self, n: int) -> str:
        return str(n)


def typed(n: int, more: bytes = b"") -> str:
    return str(n)


@pytest.mark.parametrize(
    ("function", "hints"),
    [
        (typed, {"n": int, "more": bytes, "return": str}),
        (functools.partial(typed, more=b"a"), {"n": int, "more": bytes, "return": str}),
        (Callable(), {"n": int, "return": str}),
        (Callable().__call__, {"n": int, "return": str}),
        (lambda n: n, {}),
        (len, {}),
    ],
    ids=["function", "partial", "object", "method", "lambda", "builtin"],
)
def test_hints_are_found_in_whatever_can_be_called(function, hints):
    assert hints_of(function) == hints


def test_hints_that_cannot_be_resolved_yet_are_none():
    def later(n: "NotThere") -> int:  # noqa: F821 - that is the point
        return n

    assert hints_of(later) is None
    assert not register_hints(later)


def test_classes_in_hints_can_be_stored():
    @dataclass
    class Receipt:
        number: int

    def charge() -> list[Receipt]:
        return []

    assert register_hints(charge)
    assert CODEC.decode(CODEC.encode([Receipt(1)])) == [Receipt(1)]


def test_generators_are_refused_by_name():
    def generator():
        yield

    with pytest.raises(InvalidGraphError, match="task 'mine' is a generator function"):
        refuse_generators(generator, "task", "mine")
    refuse_generators(typed, "task", "typed")
