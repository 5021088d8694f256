"""What is true of every file: size, words, reasons beside exceptions, nothing of one machine."""

import ast
import io
import re
import tokenize

import pytest

from tests.sources import PACKAGES, ROOT, files, place, python, tree

MOST_LINES = 500

# One word per idea (ARCHITECTURE.md). Left: what nobody calls it here. Right: what it is called.
WORDS = {"pregel": "run", "superstep": "step", "conversation": "thread", "saver": "checkpointer"}
PUBLIC_NAMES = {
    "InMemorySaver",
    "MemorySaver",
    "SqliteSaver",
    "AsyncSqliteSaver",
    "PostgresSaver",
    "AsyncPostgresSaver",
}
VAGUE_MODULES = {"common", "helpers", "misc", "util", "utils"}

EXCEPTION = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore|fmt:\s*off)(?P<rest>.*)")
CODES = re.compile(r"^(?::\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*|\[[\w\s,-]+\])")

# Registry hosts and links in a requirements file; folders of the machine this was written on.
FOREIGN = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|index-[u]rl|find-[l]inks"
    r"|(?<![\w.~/}$])/(?:work|root)/[\w.]"
)


def test_no_module_is_longer_than_500_lines():
    sizes = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in python()}
    assert {path: size for path, size in sizes.items() if size > MOST_LINES} == {}


def test_modules_are_nouns():
    parts = {part for path in python(*PACKAGES) for part in path.relative_to(ROOT).with_suffix("").parts}
    assert parts & VAGUE_MODULES == set()


def _identifiers(path):
    for node in ast.walk(tree(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield node.lineno, name


def _words(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_one_word_per_idea():
    found = {
        (place(path, line), name)
        for path in python(*PACKAGES)
        for line, name in _identifiers(path)
        if name not in PUBLIC_NAMES and _words(name) & WORDS.keys()
    }
    assert found == set()


@pytest.mark.parametrize("name", ["PregelLoop", "superstep_index", "conversationId"])
def test_a_second_word_would_be_seen(name):
    assert _words(name) & WORDS.keys()


def _unexplained(text):
    """Lines whose comment silences a tool without saying why."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (silenced := EXCEPTION.search(token.string)):
            reason = CODES.sub("", silenced["rest"], count=1)
            if len(re.findall(r"[A-Za-z]{2,}", reason)) < 2:
                yield token.start[0]


def test_whatever_silences_a_tool_says_why():
    assert [place(path, line) for path in python() for line in _unexplained(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("comment", "explained"),
    [
        ("noqa: BLE001", False),
        ("noqa", False),
        ("type: ignore[misc]", False),
        ("noqa: BLE001, S110 - user code may raise anything", True),
        ("type: ignore[misc]  # the stub is wrong", True),
        ("pyright: ignore[reportPrivateUsage]  # same package", True),
    ],
)
def test_a_missing_reason_would_be_seen(comment, explained):
    assert list(_unexplained(f"x = 1  # {comment}\n")) == ([] if explained else [1])


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    found = []
    for path in files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            (place(path, number), line) for number, line in enumerate(text.splitlines(), 1) if FOREIGN.search(line)
        ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["see /{}/main".format("work"), "--{}-url https://a".format("index"), "{}.org/simple".format("pypi")],
)
def test_a_foreign_name_would_be_seen(line):
    assert FOREIGN.search(line)
