"""However an import is laid out, the rewritten program imports the same names, and no comment is lost."""

import ast
import collections
import io
import random
import tokenize
import tomllib
from pathlib import Path

import pytest

from durable_graph.cli.imports.names import Ours, shipped
from durable_graph.cli.imports.rewriting import rewrite

LISTING = tomllib.loads(Path(__file__).with_name("langgraph_names.toml").read_text("utf-8"))["names"]
PROGRAMS = 60


class Author:
    """Writes programs; `wanted` is what they must import after the rewriting."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.wanted = []

    def comment(self, chance=0.5):
        self.count += 1
        return f"  # remark {self.count}" if self.random.random() < chance else ""

    def names(self):
        module = self.random.choice(list(LISTING))
        listed = []
        for name in self.random.sample(LISTING[module], min(len(LISTING[module]), self.random.randint(1, 5))):
            self.count += 1
            alias = self.random.choice([None, None, f"x{self.count}"])
            meaning = shipped().look_up(module, name)
            home = (meaning.module, meaning.name) if isinstance(meaning, Ours) else (module, name)
            self.wanted.append((alias or name, *home))
            listed.append(f"{name} as {alias}" if alias else name)
        return module, listed

    def statement(self, newline):
        module, names = self.names()
        indent = self.random.choice(["", "    ", "\t"])
        layout = self.random.choice([self.one_line, self.parenthesised, self.one_per_line, self.with_backslashes])
        text = layout(module, names, indent, newline)
        return f"if True:{newline}{indent}{text}" if indent else text

    def one_line(self, module, names, indent, newline):
        before = self.random.choice(["", "", "x = 'é'; "])
        behind = self.random.choice(["", ";", " ; y = '#'", "; y = 1"])
        return f"{before}from {module} import {', '.join(names)}{behind}{self.comment()}"

    def parenthesised(self, module, names, indent, newline):
        return f"from {module} import ({', '.join(names)}{self.random.choice(['', ','])}){self.comment()}"

    def one_per_line(self, module, names, indent, newline):
        lines = [f"from {module} import ({self.comment()}"]
        for name in names:
            lines += [indent + above for above in (self.comment(0.3),) if above]
            lines += [""] if self.random.random() < 0.2 else []
            lines.append(f"{indent}    {name}{self.random.choice([',', ' ,'])}{self.comment()}")
        lines += [indent + end for end in (self.comment(0.3),) if end]
        return newline.join([*lines, f"{indent}){self.comment()}"])

    def with_backslashes(self, module, names, indent, newline):
        joint = f", \\{newline}   "
        return f"from {module} \\{newline} import \\{newline}  {joint.join(names)}"

    def program(self):
        newline = self.random.choice(["\n", "\r\n"])
        statements = [self.statement(newline) for _ in range(self.random.randint(1, 4))]
        return newline.join(["", *statements, ""][: self.random.choice([-1, None])])


def imported(text):
    return sorted(
        (alias.asname or alias.name, node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return collections.Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("seed", range(10))
def test_any_layout_keeps_names_comments_and_line_ends(seed):
    for number in range(PROGRAMS):
        author = Author(f"{seed}/{number}")
        text = author.program()
        result = rewrite(text, shipped())
        assert imported(result.text) == sorted(author.wanted), text
        assert comments(result.text) == comments(text), text
        assert ("\r" in text) == ("\n" not in result.text.replace("\r\n", "")), text
        again = rewrite(result.text, shipped())
        assert (again.text, again.moved) == (result.text, 0), text
        stays = [finding for finding in result.findings_after if finding.stays]
        assert stays == again.findings, text
