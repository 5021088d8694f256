"""Names of a package that are loaded when they are first used (PEP 562), so that importing it costs next to nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazy"]


def lazy(namespace: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names, its `__all__`, stand in other modules.

    Args:
        namespace: the package's `globals()`; what was loaded once is kept there.
        homes: a name and the module that has it: whole, or `.module` of the package. `"a": ".a"` is the module itself.
    """
    package: str = namespace["__name__"]

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home, package)
        value = module if home == f".{name}" else getattr(module, name)
        namespace[name] = value
        return value

    def names() -> list[str]:  # what a user completes
        return sorted({*namespace["__all__"], *(name for name in namespace if name.startswith("__"))})

    return load, names
