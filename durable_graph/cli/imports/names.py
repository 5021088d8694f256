"""What each public name of LangGraph is here: `names.toml`, read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Absent", "Meaning", "Names", "Ours", "shipped"]

_NOT_MODULES = frozenset({"langgraph", "packages", "pending", "same_as"})


@dataclass(frozen=True, slots=True)
class Ours:
    """A name to import instead. `note` is what a user should know about it; None mostly."""

    module: str
    name: str
    note: str | None = None

    @property
    def path(self) -> str:
        """As one writes it after `import module`."""
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such name here; `reason` also says what to use instead."""

    reason: str


Meaning: TypeAlias = Ours | Absent


class Names:
    """The table. `table` is the content of `names.toml`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.version: str = table["langgraph"]
        self.unknown = Absent(
            f"It is nothing public of LangGraph {self.version}: find out what it is needed for, and use what is."
        )
        self._packages: Mapping[str, str] = table["packages"]
        self._same_as: Mapping[str, str] = table["same_as"]
        self._names: dict[str, Mapping[str, Mapping[str, str]]] = {
            module: names for module, names in table.items() if module not in _NOT_MODULES
        }
        modules = {*self._names, *self._same_as}
        paths = [module.split(".") for module in modules]
        self._modules = modules | {".".join(path[:count]) for path in paths for count in range(1, len(path))}

    def concerns(self, path: str) -> bool:
        """Whether a module, or what it holds, is LangGraph's, so that a program that leaves it must change."""
        return path.partition(".")[0] == "langgraph" or f"{path}.".startswith("langchain.agents.")

    def package(self, path: str) -> Absent | None:
        """Why a package beside LangGraph does not work with ours; None for any other."""
        reason = self._packages.get(path.partition(".")[0])
        return None if reason is None else Absent(reason)

    def is_module(self, path: str) -> bool:
        """Whether it is a module that the table knows, or a package around one."""
        return path in self._modules

    def look_up(self, module: str, name: str) -> Meaning | None:
        """What a name of a LangGraph module is here; None when the table does not know it."""
        entry = self._entry(module, name)
        if entry is None:
            return None
        if "ours" in entry:
            home, _, ours = entry["ours"].partition(":")
            return Ours(home, ours, entry.get("note"))
        return Absent(entry["left_out"])

    def meaning(self, module: str, name: str) -> Meaning:
        """As `look_up`; an unknown name is absent too."""
        return self.look_up(module, name) or self.unknown

    def home_of(self, module: str) -> str | None:
        """Our module with most of the names of a LangGraph module; None when we have none of them."""
        entries = [*self._names.get(module, {}).values(), *self._names.get(self._same_as.get(module, ""), {}).values()]
        homes = [entry["ours"].partition(":")[0] for entry in entries if "ours" in entry]
        return max(homes, key=homes.count, default=None)

    def _entry(self, module: str, name: str) -> Mapping[str, str] | None:
        found = self._names.get(module, {}).get(name)
        if found is None and module in self._same_as:
            return self._entry(self._same_as[module], name)
        return found


@cache
def shipped() -> Names:
    """The table that comes with the package."""
    return Names(tomllib.loads(files("durable_graph.cli.imports").joinpath("names.toml").read_text("utf-8")))
