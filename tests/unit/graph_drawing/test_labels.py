"""Text in drawings: safe to show, wrapped, measured."""

import enum

import pytest

from durable_graph.graph.drawing.labels import clean, columns, shown, wrapped
from tests.unit.graph_drawing.pictures import HARD_NAMES


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain text", "plain text"),
        ("a\nb\tc\x00", r"a\nb\tc\x00"),
        ("lone \ud800", r"lone \ud800"),
        ("turn\u202eed", r"turn\u202eed"),
        ("\u2028", r"\u2028"),
        ("👩‍💻 naïve 日本", "👩‍💻 naïve 日本"),
    ],
)
def test_what_draws_nothing_or_reorders_text_becomes_visible(text, visible):
    assert clean(text) == visible


@pytest.mark.parametrize(("text", "wide"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0), ("👩", 2)])
def test_width_is_counted_in_columns_of_a_terminal(text, wide):
    assert columns(text) == wide


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("two words here", ["two words", "here"]),
        ("snake_case_name", ["snake_", "case_name"]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("日本語日本語", ["日本語日本", "語"]),
        ("exactly_10", ["exactly_10"]),
    ],
)
def test_lines_break_where_words_do(text, lines):
    assert wrapped(text, 10) == lines


@pytest.mark.parametrize("name", range(len(HARD_NAMES)))
def test_wrapping_loses_nothing_but_spaces_at_ends_of_lines(name):
    text = clean(HARD_NAMES[name])
    lines = wrapped(text, 16)
    assert all(columns(line) <= 16 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


class Color(enum.Enum):
    RED = 1


class Loud:
    def __str__(self):
        raise AssertionError("drawing must not run this")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("yes", "yes"),
        (True, "True"),
        (None, "None"),
        (3, "3"),
        (("a", 1), "a, 1"),
        (Color.RED, "RED"),
        (Loud(), "Loud"),
    ],
    ids=["str", "bool", "none", "int", "tuple", "enum", "object"],
)
def test_an_answer_is_shown_without_running_its_code(answer, label):
    assert shown(answer) == label
