"""Paths to the texts of a value."""

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.stores.paths import parse_path, texts_at

VALUE = {
    "text": "t",
    "empty": "",
    "none": None,
    "n": 1.5,
    "flag": True,
    "a": {"b": "ab", "c": "ac", "d e": "spaces"},
    "list": [{"c": "0"}, {"c": "1", "d": "x"}, "plain", {"c": None}],
    "é": "accent",
}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("text", ["t"]),
        ("empty", []),
        ("none", []),
        ("missing", []),
        ("n", ["1.5"]),
        ("flag", ["true"]),
        ("a.b", ["ab"]),
        ("a.missing", []),
        ("text.a", []),
        ("a.d e", ["spaces"]),
        ("é", ["accent"]),
        ("a", ['{"b": "ab", "c": "ac", "d e": "spaces"}']),
        ("a.*", ["ab", "ac", "spaces"]),
        ("a[*]", ["ab", "ac", "spaces"]),
        ("a.{c,b, missing}", ["ac", "ab"]),
        ("list[*].c", ["0", "1"]),
        ("list[0].c", ["0"]),
        ("list[-3].{c,d}", ["1", "x"]),
        ("list[2]", ["plain"]),
        ("list[9]", []),
        ("list[-9]", []),
        ("list.c", []),
        ("a[0]", []),
    ],
)
def test_texts_are_found_at(path, texts):
    assert texts_at(VALUE, parse_path(path)) == texts


def test_everything_of_everything_is_every_field():
    assert texts_at({"a": "x", "b": ["y"]}, parse_path("*")) == ["x", '["y"]']


def test_the_whole_value_is_one_text_whatever_the_order_of_its_keys():
    assert texts_at({"b": "é", "a": {1, 2}}, parse_path("$")) == ['{"a": "{1, 2}", "b": "é"}']
    assert texts_at({"a": 1, "b": 2}, ()) == texts_at({"b": 2, "a": 1}, ())


def test_what_json_cannot_say_is_shown_as_python_does():
    assert texts_at({"a": {(1, 2): 3, "x": 4}}, parse_path("a")) == ["{(1, 2): 3, 'x': 4}"]


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "[0]", "a[", "a[x]", "a[0]b", "a{b}", "a.{}", "*a", 7])
def test_a_wrong_path_is_an_error_that_shows_right_ones(path):
    with pytest.raises(InvalidConfigError, match=r"(?s)no path.*a\[\*\]\.c"):
        parse_path(path)
