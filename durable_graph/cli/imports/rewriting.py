"""From a program's text to the text with our imports, and to what cannot be rewritten.

    from langgraph.graph import END, StateGraph          from durable_graph import END, StateGraph
    from langgraph.types import PregelTask as Task       from durable_graph import StateTask as Task
    import langgraph.types as t                          import durable_graph as t
    langgraph.graph.StateGraph(State)                    durable_graph.StateGraph(State)

A name keeps the name by which the program calls it, so nothing else of the program changes. What has no counterpart
stays as it is, in an import of its own, and is a finding. The program is read with `ast` and changed as text.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from durable_graph.cli.imports.from_imports import Clause, rewrite_from_import
from durable_graph.cli.imports.module_names import Binding, ModuleName, Scene
from durable_graph.cli.imports.names import Absent, Names, Ours
from durable_graph.cli.imports.source_text import SourceText
from durable_graph.errors import InternalError

__all__ = ["Finding", "Rewriting", "rewrite"]

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")


class Finding(NamedTuple):
    """What a person should look at. `stays`: LangGraph is still used there, and the program is not moved over yet."""

    line: int
    what: str
    why: str
    stays: bool


class Rewriting(NamedTuple):
    """What became of a program.

    text: the new text.   moved: how many names come from us now.   findings: what to look at, in the order of lines.
    findings_after: the same with the lines of the new text.
    """

    text: str
    moved: int
    findings: list[Finding]
    findings_after: list[Finding]


def rewrite(text: str, names: Names) -> Rewriting:
    """Rewrite the imports of one program.

    Raises:
        SyntaxError: the text is no Python program of this Python's version.
    """
    rewriter = _Rewriter(text, names)
    rewriter.read()
    rewriter.change()
    changed = rewriter.source.changed()
    try:
        after = _Rewriter(changed, names)
    except SyntaxError as error:
        raise InternalError(f"the rewritten program would not be valid: {error}") from error
    after.read()
    findings = sorted(set(rewriter.findings))
    notes = [note._replace(line=rewriter.source.line_after(note.line)) for note in findings if not note.stays]
    return Rewriting(changed, rewriter.moved, findings, sorted({*notes, *after.findings}))


class _Rewriter:
    """One program while it is rewritten: first it is read, then changed."""

    def __init__(self, text: str, names: Names) -> None:
        self.source = SourceText(text)
        self.findings: list[Finding] = []
        self.moved = 0
        self._names = names
        self._tree = ast.parse(text)
        self._scene = Scene(self._tree, self.source, names)
        self._froms: list[ast.ImportFrom] = []
        self._imports: list[ast.Import] = []
        self._module_names: dict[tuple[str, str], ModuleName] = {}
        self._clauses: dict[ast.alias, list[Clause]] = {}

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Find the imports and what they bind; then the uses of names that mean modules."""
        for node in ast.walk(self._tree):
            match node:
                case ast.ImportFrom(level=0, module=str(module)):
                    self._froms.append(node)
                    for alias in node.names:
                        self._read_from(module, alias)
                case ast.Import():
                    self._imports.append(node)
                    for alias in node.names:
                        self._read_import(alias)
                case ast.Constant(value=str(value)) if _DOTTED.fullmatch(value):
                    self._read_text(node.lineno, value)
                case _:
                    pass
        for name in self._module_names.values():
            self._read_uses(name)

    def _read_from(self, module: str, alias: ast.alias) -> None:
        path = f"{module}.{alias.name}"
        if package := self._names.package(module):
            self._stays(alias.lineno, path, package)
        elif self._names.concerns(path) and alias.name == "*":
            why = "A star does not say what the program uses: name what it needs."
            self._stays(alias.lineno, path, Absent(why))
        elif self._names.look_up(module, alias.name) is None and self._names.is_module(path):
            self._bind(alias.asname or alias.name, path, Binding(path, alias), renamed=True)
        elif self._names.concerns(module):
            meaning = self._names.meaning(module, alias.name)
            if isinstance(meaning, Ours):
                self._moves(alias.lineno, path, meaning)
                renamed = alias.asname or (alias.name if alias.name != meaning.name else None)
                text = f"{meaning.name} as {renamed}" if renamed else meaning.name
                self._clauses[alias] = [Clause(meaning.module, text)]
            else:
                self._stays(alias.lineno, path, meaning)

    def _read_import(self, alias: ast.alias) -> None:
        root = alias.name.partition(".")[0]
        if package := self._names.package(alias.name):
            self._stays(alias.lineno, alias.name, package)
        elif self._names.concerns(alias.name) and not self._names.is_module(alias.name):
            self._stays(alias.lineno, alias.name, self._names.unknown)
        elif self._names.concerns(alias.name) and alias.asname is not None:
            self._bind(alias.asname, alias.name, Binding(alias.name, alias), renamed=True)
        elif self._names.concerns(alias.name):
            self._bind(root, root, Binding(alias.name, alias), renamed=False)

    def _bind(self, name: str, stands_for: str, binding: Binding, *, renamed: bool) -> None:
        found = self._module_names.setdefault((name, stands_for), ModuleName(name, stands_for, renamed))
        found.bindings.append(binding)

    def _read_text(self, line: int, path: str) -> None:
        """A text that is exactly the path of something, as `mock.patch` and `import_module` take it."""
        module, name = _split(path)
        if not self._names.concerns(path):
            return
        meaning = self._names.look_up(module, name) if self._names.is_module(module) else None
        home = self._names.home_of(path) if self._names.is_module(path) else None
        if isinstance(meaning, Absent):
            self._stays(line, path, meaning)
        elif meaning is not None or home is not None:
            instead = meaning.path if meaning is not None else home
            self._stays(line, path, Absent(f'What a text names is not rewritten: write "{instead}".'))

    def _read_uses(self, name: ModuleName) -> None:
        name.taken = self._scene.bound_elsewhere(name)
        if name.taken is None:
            name.uses += self._scene.uses(name)
            for use, absent in name.absent:
                self._stays(use.line, use.path, absent)
            for use, ours in name.ours:
                self._moves(use.line, use.path, ours)
        else:
            why = Absent(f"{name.name!r} is also bound on line {name.taken}: give one of them another name.")
            for binding in name.bindings:
                self._stays(binding.alias.lineno, binding.module, why)

    def _moves(self, line: int, path: str, ours: Ours) -> None:
        self.moved += 1
        if ours.note is not None:
            self.findings.append(Finding(line, path, ours.note, stays=False))

    def _stays(self, line: int, path: str, absent: Absent) -> None:
        self.findings.append(Finding(line, path, absent.reason, stays=True))

    # --- changing ---------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Note all changes in the text."""
        for name in self._module_names.values():
            if name.taken is None:
                self._change_module_name(name)
        for node in self._froms:
            if any(alias in self._clauses for alias in node.names):
                kept = [Clause(node.module, self._as_written(alias)) for alias in node.names]
                clauses = [self._clauses.get(alias, [keep]) for alias, keep in zip(node.names, kept, strict=True)]
                rewrite_from_import(self.source, node, clauses)
        for node in self._imports:
            for alias in node.names:
                if alias in self._clauses:
                    text = ", ".join(clause.text for clause in self._clauses[alias])
                    self.source.replace(*self.source.span(alias), text)

    def _change_module_name(self, name: ModuleName) -> None:
        """Decide what the imports of a module become, and write its uses accordingly."""
        holder = name.holder() if name.renamed and not name.absent else None
        for use, ours in name.ours:
            text = f"{name.name}.{ours.name}" if ours.module == holder else ours.path
            self.source.replace(*use.span, text)
        for binding in name.bindings:
            share = name.share(binding)
            homes = {use.meaning.module: None for use in share if isinstance(use.meaning, Ours)}
            plain = [Clause(None, home) for home in homes if home != holder]
            if not share:
                self._change_unused(name, binding)
            elif holder is not None:
                self._clauses[binding.alias] = [self._as_name(holder, name.name, binding.alias), *plain]
            elif plain and any(isinstance(use.meaning, Absent) for use in share):
                self._clauses[binding.alias] = [self._kept(binding), *plain]
            elif plain:
                self._clauses[binding.alias] = plain

    def _change_unused(self, name: ModuleName, binding: Binding) -> None:
        """An import that nothing here uses: somebody may import the module from this program."""
        home = self._names.home_of(binding.module)
        if home is None:
            why = "Nothing in this program uses it: take it out, or import what others need from here."
            self._stays(binding.alias.lineno, binding.module, Absent(why))
            return
        self.moved += 1
        self._clauses[binding.alias] = (
            [self._as_name(home, name.name, binding.alias)] if name.renamed else [Clause(None, home)]
        )

    def _kept(self, binding: Binding) -> Clause:
        if binding.alias.name == binding.module:  # import langgraph.types
            return Clause(None, self._as_written(binding.alias))
        return Clause(_split(binding.module)[0], self._as_written(binding.alias))

    def _as_written(self, alias: ast.alias) -> str:
        return alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"

    def _as_name(self, module: str, name: str, alias: ast.alias) -> Clause:
        """An import that binds `name` to one of our modules."""
        parent, _, last = module.rpartition(".")
        if last == name and parent and alias.asname is None:
            return Clause(parent, last)
        return Clause(None, f"{module} as {name}" if module != name else module)


def _split(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(".")
    return module, name
