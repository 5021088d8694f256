"""`from module import names`, written anew for several modules, with its layout and comments."""

from __future__ import annotations

import re
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from durable_graph.cli.imports.source_text import SourceText

__all__ = ["Clause", "rewrite_from_import"]

_WIDTH = 88
"""What formatters allow by default; a program that has longer lines keeps its own measure."""

_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|pyright:|pylint:|mypy:|ruff:|isort:|fmt:)")


class Clause(NamedTuple):
    """A part of what a name's import becomes: `from module import text`, or `import text` where module is None."""

    module: str | None
    text: str


@dataclass(slots=True)
class _Comments:
    """Of one imported name: comment lines above it, and the comment behind it."""

    above: list[str] = field(default_factory=list[str])
    behind: str | None = None


@dataclass(slots=True)
class _Layout:
    """How the statement was written. `joint` is what goes between the statements that it becomes."""

    indent: str
    item_indent: str
    joint: str
    width: int
    newline: str
    comments: list[_Comments]
    opening: str | None = None
    closing: list[str] = field(default_factory=list[str])
    tail: str | None = None


def rewrite_from_import(source: SourceText, node: ast.ImportFrom, clauses: Sequence[Sequence[Clause]]) -> None:
    """Note the changes that make `node` import `clauses`, which are given for each of its names.

    As long as all names come from one module, only words are replaced. Otherwise the statement becomes several.
    """
    modules = {clause.module for parts in clauses for clause in parts}
    if len(modules) == 1 and None not in modules and all(len(parts) == 1 for parts in clauses):
        _replace_words(source, node, [parts[0] for parts in clauses])
    else:
        start, end = source.span(node)
        layout = _layout(source, node)
        source.replace(start, end, layout.joint.join(_statements(clauses, layout)))


def _replace_words(source: SourceText, node: ast.ImportFrom, clauses: Sequence[Clause]) -> None:
    start, end = source.span(node)
    first = last = 0
    for _, text, token_start, token_end in source.tokens(start, end):
        if text == "import":
            break
        if text != "from" and not text.isspace():
            first, last = first or token_start, token_end
    source.replace(first, last, clauses[0].module or "")
    for alias, clause in zip(node.names, clauses, strict=True):
        if " ".join(source.of(alias).split()) != clause.text:
            source.replace(*source.span(alias), clause.text)


def _layout(source: SourceText, node: ast.ImportFrom) -> _Layout:
    start, end = source.span(node)
    before, after = source.before_on_line(start), source.after_on_line(end)
    indent = before[: len(before) - len(before.lstrip())]
    alone = not before.strip() and not after.partition("#")[0].strip(" \t\f;")
    first = source.before_on_line(source.span(node.names[0])[0])
    written = source.text[start:end].splitlines()
    layout = _Layout(
        indent=indent,
        item_indent=first if first and not first.strip() else indent + "    ",
        joint=source.newline + indent if alone else "; ",
        width=max(_WIDTH, *(len(line) for line in written)),
        newline=source.newline,
        comments=[_Comments() for _ in node.names],
    )
    if alone and (comment := _DIRECTIVE.search(after)):
        layout.tail = after[comment.start() :]
    _read_comments(source, node, layout)
    return layout


def _read_comments(source: SourceText, node: ast.ImportFrom, layout: _Layout) -> None:
    """Find out which name each comment inside the parentheses belongs to."""
    start, end = source.span(node)
    spans = [source.span(alias) for alias in node.names]
    for kind, text, at, _ in source.tokens(start, end):
        if kind != tokenize.COMMENT:
            continue
        line = source.line_of(at)
        same_line = [index for index, (_, stop) in enumerate(spans) if stop <= at and source.line_of(stop) == line]
        following = [index for index, (begin, _) in enumerate(spans) if begin > at]
        if same_line:
            layout.comments[same_line[-1]].behind = text
        elif source.before_on_line(at).strip():
            layout.opening = text
        elif following:
            layout.comments[following[0]].above.append(text)
        else:
            layout.closing.append(text)


def _statements(clauses: Sequence[Sequence[Clause]], layout: _Layout) -> list[str]:
    """One statement for each module, in the order in which the modules come up."""
    groups: dict[str | None, list[tuple[int, str]]] = {}
    for index, parts in enumerate(clauses):
        for module, text in parts:
            groups.setdefault(module, []).append((index, text))
    plain = [f"import {text}" for text in dict.fromkeys(text for _, text in groups.pop(None, []))]
    last = len(clauses) - 1
    written: list[str] = []
    for module, entries in groups.items():
        opening = layout.opening if not written or _is_directive(layout.opening) else None
        closing = layout.closing if any(index == last for index, _ in entries) else []
        written.append(_from_import(f"from {module} import", entries, layout, opening, closing))
    written += plain
    if layout.tail is not None:  # what silences a tool goes with each of them; the last keeps the one it has
        written[:-1] = [f"{statement}  {layout.tail}" for statement in written[:-1]]
    return written


def _is_directive(comment: str | None) -> bool:
    return comment is not None and _DIRECTIVE.match(comment) is not None


def _from_import(
    head: str, entries: Sequence[tuple[int, str]], layout: _Layout, opening: str | None, closing: Sequence[str]
) -> str:
    """`head` and the names, on one line where they fit and nothing is to be said about them."""
    comments = [layout.comments[index] for index, _ in entries]
    line = f"{head} {', '.join(text for _, text in entries)}"
    quiet = opening is None and not closing and not any(one.above or one.behind for one in comments)
    if quiet and len(layout.indent + line) <= layout.width:
        return line
    lines = [f"{head} (" + (f"  {opening}" if opening else "")]
    for (_, text), comment in zip(entries, comments, strict=True):
        lines += [layout.item_indent + above for above in comment.above]
        lines.append(f"{layout.item_indent}{text}," + (f"  {comment.behind}" if comment.behind else ""))
    lines += [layout.item_indent + comment for comment in closing]
    return layout.newline.join([*lines, layout.indent + ")"])
