"""Compiled graphs that a node refers to, found without running anything of the user's.

A node may be a compiled graph, hold one (a bound method, a partial, a chain), or name one in its code: a closure cell,
a global, an attribute chain such as `self.child.invoke`. Names come from the bytecode and are looked up statically, so
that no property, no `__getattr__` and no function of the user's runs.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from durable_graph.graph.compiled import CompiledStateGraph

    Compiled = CompiledStateGraph[Any, Any, Any, Any]

__all__ = ["is_compiled", "plain_function", "subgraphs_of"]

_CALLS: Final = frozenset(
    ("invoke", "ainvoke", "stream", "astream", "batch", "abatch", "get_state", "aget_state", "__call__")
)
"""Methods that run an object: what matters is the object."""

_DEEPEST: Final = 6
"""How many references are followed one after the other: chains in chains, helpers that call helpers."""


def is_compiled(value: Any) -> TypeGuard[Compiled]:
    """Whether this is a compiled graph: an object (no class) that keeps a builder with nodes and a program."""
    if _is(value, type, types.ModuleType):
        return False
    builder = static_attribute(value, "builder")
    if builder is MISSING or static_attribute(value, "program") is MISSING:
        return False
    return _is(static_attribute(builder, "nodes"), dict)


def subgraphs_of(action: Any) -> list[tuple[str, Compiled]]:
    """The compiled graphs that a node's action is, holds or names in its code.

    Args:
        action: what the node runs: a function, a method, a partial, or an object with `invoke`.

    Returns:
        (reference, graph) in the order in which the code names them, each graph once. The reference is how it is
        reached: "child", "self.child", "graphs['a']"; for an action that is a graph itself, the graph's name.
    """
    function = plain_function(action)
    search = _Search(type(action).__module__ if function is None else function.__module__)
    search.visit(action, "", 0)
    return [(reference or str(graph.name), graph) for reference, graph in search.found.values()]


def plain_function(action: Any) -> types.FunctionType | None:
    """The Python function that an action runs: below partials, of a method, or the `__call__` of an object."""
    while _is(action, functools.partial):
        action = action.func
    if _is(action, types.MethodType):
        action = action.__func__
    if _is(action, types.FunctionType):
        return action
    found = static_attribute(type(action), "__call__")
    return found if isinstance(found, types.FunctionType) else None


def static_attribute(value: Any, name: str) -> Any:
    """An attribute as it is stored, or MISSING. Slots are read; properties and `__getattr__` are not run."""
    try:
        found = inspect.getattr_static(value, name)
    except AttributeError:
        return MISSING
    if isinstance(found, types.MemberDescriptorType) and not _is(value, type):
        try:
            return found.__get__(value)
        except AttributeError:
            return MISSING  # a slot that was never filled
    return found


def _is(value: Any, *kinds: type) -> bool:
    """`isinstance` without asking the object, which may answer for itself (`__class__`)."""
    return issubclass(type(value), kinds)


class _Search:
    """One search. `found` holds graphs by identity; `_seen` what was looked at, so that cycles end."""

    def __init__(self, module: str) -> None:
        self.found: dict[int, tuple[str, Compiled]] = {}
        self._seen: dict[int, Any] = {}  # keeps what was looked at alive, so that no id is given twice
        self._module = module

    def visit(self, value: Any, reference: str, depth: int) -> None:
        """Look at one object that the action is or reaches."""
        if value is MISSING or depth > _DEEPEST or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if is_compiled(value):
            _ = self.found.setdefault(id(value), (reference, value))
        elif _is(value, types.FunctionType):
            self._function(value, MISSING, "", depth)
        elif _is(value, types.MethodType):
            self._method(value, reference, depth)
        elif _is(value, functools.partial):
            for part in (*value.args, *value.keywords.values(), value.func):
                self.visit(part, reference, depth + 1)
        elif type(value) in (dict, list, tuple):
            self._container(value, reference, depth)
        elif not _is(value, type, types.ModuleType, types.BuiltinFunctionType):
            self._object(value, reference, depth)

    def _method(self, method: types.MethodType, reference: str, depth: int) -> None:
        owner: Any = method.__self__
        if is_compiled(owner):
            self.visit(owner, reference.rpartition(".")[0], depth)
        elif isinstance(method.__func__, types.FunctionType):
            self._function(method.__func__, owner, reference.rpartition(".")[0], depth)

    def _container(self, items: Any, reference: str, depth: int) -> None:
        keys: list[Any] = list(items) if hasattr(items, "keys") else list(range(len(items)))
        for key in keys:
            shown = repr(key) if type(key) in (str, int) else "..."
            self.visit(items[key], f"{reference}[{shown}]", depth + 1)

    def _object(self, value: Any, reference: str, depth: int) -> None:
        """An object that runs something: its own methods, and what it holds (the steps of a chain, a bound graph)."""
        methods = [static_attribute(type(value), name) for name in ("__call__", "invoke", "ainvoke")]
        runs = [method for method in methods if isinstance(method, types.FunctionType)]
        if not runs:
            return
        for method in runs:
            if self._near(method):
                self._function(method, value, reference, depth)
        for name, item in _held(value):
            self.visit(item, f"{reference}.{name}" if reference else name, depth + 1)

    def _near(self, function: types.FunctionType) -> bool:
        """Helpers are followed inside the node's own module; libraries are not searched."""
        return function.__module__ == self._module

    def _function(self, function: types.FunctionType, owner: Any, called: str, depth: int) -> None:
        """What a function's code names. `owner` is what its first parameter is bound to, MISSING for none.

        called: how the owner is reached; "" where only its parameter's name is known.
        """
        code = function.__code__
        known = dict(zip(code.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        cells = set(known)
        first = code.co_varnames[0] if code.co_argcount and owner is not MISSING else None
        if first is not None:
            known[first] = owner
        for chain in _chains(code, known, function.__globals__, first):
            self._follow(chain, known, function.__globals__, cells, (called if chain[0] == first else "", depth))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(default, "", depth + 1)

    def _follow(
        self,
        chain: tuple[str, ...],
        known: Mapping[str, Any],
        names: Mapping[str, Any],
        cells: set[str],
        at: tuple[str, int],
    ) -> None:
        """Look at what one chain of names leads to. `at`: what to call its root ("": its name), and the depth."""
        root, *attributes = chain
        value = known[root] if root in known else names.get(root, MISSING)
        called, depth = at
        start = reference = called or root
        for name in attributes:
            if is_compiled(value) or name in _CALLS:
                break
            value = _bound(value, static_attribute(value, name))
            reference = f"{reference}.{name}"
        if root in known and root not in cells and reference == start:
            return  # the object that a method belongs to: of it only what the code names counts
        function = plain_function(value) if _is(value, types.FunctionType, types.MethodType) else None
        if function is None or root in cells or self._near(function) or is_compiled(getattr(value, "__self__", None)):
            self.visit(value, reference, depth + 1)


def _held(value: Any) -> list[tuple[str, Any]]:
    """The attributes that an object keeps in its own dict."""
    for cls in type(value).__mro__:
        found = cls.__dict__.get("__dict__")
        if isinstance(found, types.GetSetDescriptorType):
            return list(found.__get__(value).items())
    return []


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING  # not filled yet


def _bound(owner: Any, found: Any) -> Any:
    """A function that was found on an object's class, as the method that the code would get."""
    if _is(found, staticmethod, classmethod):
        return found.__func__
    if _is(found, types.FunctionType) and not _is(owner, type, types.ModuleType):
        return types.MethodType(found, owner)
    return found


def _chains(
    code: types.CodeType, known: Mapping[str, Any], names: Mapping[str, Any], first: str | None
) -> Iterator[tuple[str, ...]]:
    """The attribute chains in a code object and those nested in it: ("self", "child", "invoke")."""
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            chain = (*chain, str(instruction.argval)) if chain else ()
            continue
        if chain:
            yield chain
        chain = ()
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            chain = (str(instruction.argval),) if instruction.argval in names else ()
        elif name.startswith(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")):
            chain = (str(instruction.argval),) if instruction.argval in known else ()
        elif name.startswith("LOAD_FAST"):
            loaded: Any = instruction.argval  # since 3.13 one instruction may load two; the last is on top
            last = loaded if isinstance(loaded, str) else loaded[-1]
            chain = (str(last),) if last == first else ()
    if chain:
        yield chain
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _chains(constant, known, names, None)
