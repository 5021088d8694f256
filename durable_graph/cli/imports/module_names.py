"""Names that mean a module, as after `import langgraph.graph` or `from langgraph import types`, and their uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from durable_graph.cli.imports.names import Absent, Ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from durable_graph.cli.imports.names import Meaning, Names
    from durable_graph.cli.imports.source_text import SourceText

__all__ = ["Binding", "ModuleName", "Scene", "Use"]

_OURS = frozenset({"checkpointers", "durable_graph"})
_BETWEEN_WORDS = re.compile(r"#[^\r\n]*|[\s\\]+")


@dataclass(frozen=True, slots=True)
class Use:
    """A dotted name, such as `langgraph.types.Command`, and what it means. `module` is LangGraph's."""

    line: int
    span: tuple[int, int]
    path: str
    module: str
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class Binding:
    """One import of a module: `module` is what it names, `alias` where it stands."""

    module: str
    alias: ast.alias


@dataclass(slots=True)
class ModuleName:
    """All that a program does with one name that means a module.

    name: the name.   stands_for: the module it is bound to; `langgraph` after `import langgraph.graph`.
    renamed: the text by which programs write it is the program's own choice.
    """

    name: str
    stands_for: str
    renamed: bool
    bindings: list[Binding] = field(default_factory=list[Binding])
    uses: list[Use] = field(default_factory=list[Use])
    taken: int | None = None

    @property
    def ours(self) -> list[tuple[Use, Ours]]:
        """Uses that have a counterpart here."""
        return [(use, use.meaning) for use in self.uses if isinstance(use.meaning, Ours)]

    @property
    def absent(self) -> list[tuple[Use, Absent]]:
        """Uses that have none."""
        return [(use, use.meaning) for use in self.uses if isinstance(use.meaning, Absent)]

    def share(self, binding: Binding) -> list[Use]:
        """The uses that one import makes possible: those of its module, and those that no import names."""
        named = {other.module for other in self.bindings}
        return [use for use in self.uses if use.module == binding.module or use.module not in named]

    def holder(self) -> str | None:
        """Our module that the name can mean from now on, since most of its uses are there; None without any use."""
        return max((homes := Counter(ours.module for _, ours in self.ours)), key=homes.__getitem__, default=None)


class Scene:
    """Who binds which name in a program, and what stands around a name."""

    def __init__(self, tree: ast.Module, source: SourceText, names: Names) -> None:
        self._source = source
        self._names = names
        self._loads: dict[str, list[ast.Name]] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._bound: dict[str, list[tuple[int, ast.AST]]] = {}
        for node in ast.walk(tree):
            self._parents.update((child, node) for child in ast.iter_child_nodes(node))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)
            for name in _bound_by(node):
                self._bound.setdefault(name, []).append((getattr(node, "lineno", 0), node))

    def bound_elsewhere(self, name: ModuleName) -> int | None:
        """The line of something else than its imports that binds a name; None when nothing does."""
        imports = {binding.alias for binding in name.bindings}
        for line, node in self._bound.get(name.name, ()):
            if node not in imports and not (name.stands_for == name.name and self._imports(node, name.name)):
                return line
        return None

    def is_free(self, root: str) -> bool:
        """Whether a program can `import root` without losing a name of its own."""
        return all(self._imports(node, root) for _, node in self._bound.get(root, ()))

    def _imports(self, node: ast.AST, root: str) -> bool:
        """Whether it is (in) `import root`, or that of a module below it, so that the name means the same."""
        if not isinstance(node, ast.alias) or node.asname is not None:
            return False
        return isinstance(self._parents.get(node), ast.Import) and node.name.partition(".")[0] == root

    def uses(self, name: ModuleName) -> Iterator[Use]:
        """Every use of a name that means a module, as far as it concerns LangGraph."""
        for node in self._loads.get(name.name, ()):
            use = self._use(name, node)
            if use is not None:
                yield use

    def _use(self, name: ModuleName, node: ast.Name) -> Use | None:
        """What stands behind the dots of a name: down to something that is no module, or to where the dots end."""
        module, last = name.stands_for, cast("ast.expr", node)
        written = [name.name]
        path, meaning = module, cast("Meaning", Absent("The module itself is handed on: name what is needed from it."))
        while isinstance(parent := self._parents.get(last), ast.Attribute):
            last = parent
            written.append(last.attr)
            path = f"{module}.{last.attr}"
            if self._names.look_up(module, last.attr) is not None or not self._names.is_module(path):
                meaning = self._names.meaning(module, last.attr)
                break
            module = path
        if not self._names.concerns(module):
            return None
        span = self._source.span(last)
        return Use(node.lineno, span, path, module, self._possible(meaning, span, ".".join(written)))

    def _possible(self, meaning: Meaning, span: tuple[int, int], written: str) -> Meaning:
        """The meaning, unless the use cannot be rewritten."""
        if isinstance(meaning, Absent):
            return meaning
        root = meaning.module.partition(".")[0]
        if not self.is_free(root):
            return Absent(f"The program has a name {root!r} of its own: give it another one.")
        if _BETWEEN_WORDS.sub("", self._source.text[slice(*span)]) != written:
            # Before Python 3.12 positions inside f-strings may be wrong.
            return Absent("It stands inside an f-string: write it outside of it.")
        return meaning


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Names that a node binds in some scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.alias():
            yield node.asname or node.name.partition(".")[0]
        case ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            if isinstance(name := getattr(node, "name", None), str):  # def, class, except ... as, case ... as, [T]
                yield name
