"""Which classes may be made again from stored bytes: a closed registry, by key.

A key is "module:qualname", or the name given. Stored bytes name a key; what is not registered under one is neither
imported nor called. Schemas register themselves when a graph is compiled (`annotations.register_annotations`);
anything else is registered by `register_type`. LangChain's messages and documents need no registration: their keys
are looked up among what the loaded packages `langchain_core.messages` and `langchain_core.documents` export.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from durable_graph.errors import DurableGraphError, InvalidConfigError, UnknownStoredTypeError
from durable_graph.persistence.known_types import KNOWN, NUMPY_SCALAR, Kind, Refusal, loaded_known_types
from durable_graph.persistence.object_state import type_of
from durable_graph.persistence.type_forms import Form, default_form
from durable_graph.types import MISSING, Command, Expired, Interrupt, Missing, Overwrite, Send, TimeoutPolicy, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["REGISTRY", "TypeRegistry", "UserCodeError", "register_type", "type_key"]

BY_STATE: Final = 0
"""Extension type of a registered object that is stored by its state: [key, plain value]."""

BY_FUNCTION: Final = 1
"""Extension type of a registered object that is stored by an `encode` of the user's: [key, plain value]."""

DEFAULTDICT: Final = 12

_MSGPACK_TYPES: Final = frozenset({type(None), bool, int, float, str, bytes, list, dict})

_LANGCHAIN: Final = ("langchain_core.messages", "langchain_core.documents")

Class = TypeVar("Class", bound=type[Any])


class UserCodeError(Exception):
    """Carries an exception of a user's encode or decode through msgpack, past our own handlers."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def type_key(cls: type[Any]) -> str:
    """Under which key a class is registered when no name is given."""
    return f"{cls.__module__}:{cls.__qualname__}"


class TypeRegistry:
    """The types one codec can store: the listed ones and the registered ones.

    `kinds` (class -> how it is stored) is read on the hot path without a lock; entries are only added or replaced.
    """

    def __init__(self) -> None:
        self.kinds: dict[type[Any], Kind] = {}
        self.revivers: dict[int, Callable[[Any], Any]] = {known.kind.code: known.kind.revive for known in KNOWN}
        self.revivers[NUMPY_SCALAR.code] = NUMPY_SCALAR.revive
        self.revivers[BY_STATE] = self._revive_by_state
        self.revivers[BY_FUNCTION] = self._revive_by_function
        self.revivers[DEFAULTDICT] = self._defaultdict
        self.kinds[defaultdict] = Kind(DEFAULTDICT, self._defaultdict_parts, self._defaultdict)
        self._classes: dict[str, type[Any]] = {}
        self._keys: dict[type[Any], str] = {}
        self._forms: dict[type[Any], Form] = {}
        self._functions: dict[type[Any], Form] = {}
        self._lock = threading.RLock()
        self._adopt_loaded()

    # --- registering ---------------------------------------------------------------------------------------------

    def register(
        self,
        cls: type[Any],
        *,
        name: str | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        aliases: Sequence[str] = (),
    ) -> None:
        """See `register_type`."""
        if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance] - people call this by hand
            raise InvalidConfigError(f"register_type needs a class, not {cls!r}.", cure="Pass the class itself.")
        if (encode is None) != (decode is None):
            raise InvalidConfigError(
                f"register_type({cls.__qualname__}) got only one of encode and decode.", cure="Pass both, or neither."
            )
        if isinstance(aliases, str):
            aliases = (aliases,)
        with self._lock:
            if cls in _MSGPACK_TYPES or (cls not in self._keys and cls in self.kinds):
                raise InvalidConfigError(
                    f"{type_key(cls)} is stored by the library itself.", cure="Leave it out; nothing is to be done."
                )
            key = name or type_key(cls)
            for wanted in (key, *aliases):
                self._check_free(wanted, cls)
            self._add(cls, key, aliases, Form(encode, decode) if encode and decode else None)

    def _check_free(self, key: str, cls: type[Any]) -> None:
        holder = self._classes.get(key)
        if holder is None or holder is cls or type_key(holder) == type_key(cls):
            return  # the same class defined anew (a cell run again, a module reloaded) takes over
        raise InvalidConfigError(
            f"{type_key(cls)} cannot be registered as {key!r}: {type_key(holder)} is registered under it.",
            cure="Give one of them another name: register_type(cls, name='...').",
        )

    def _add(self, cls: type[Any], key: str, aliases: Sequence[str], functions: Form | None) -> None:
        if functions is not None:
            self._functions[cls] = functions
            self.kinds[cls] = Kind(BY_FUNCTION, _plain_by_function(cls, key, functions), self._revive_by_function)
        elif cls not in self._functions:
            self.kinds[cls] = Kind(BY_STATE, _plain_by_state(key, self._form_of(cls)), self._revive_by_state)
        self._keys[cls] = key
        for known in (key, *aliases):
            self._classes[known] = cls

    def _form_of(self, cls: type[Any]) -> Form:
        form = self._forms.get(cls)
        if form is None:
            form = self._forms[cls] = default_form(cls)
        return form

    # --- writing -------------------------------------------------------------------------------------------------

    def is_registered(self, cls: type[Any]) -> bool:
        """Tell whether objects of this very class can be stored as things are."""
        return cls in self.kinds

    def function_form(self, cls: type[Any]) -> Form | None:
        """Give the user's encode and decode of a class, if it was registered with them."""
        return self._functions.get(cls)

    def by_state(self, cls: type[Any]) -> bool:
        """Tell whether objects of this class were registered to be stored by their state."""
        kind = self.kinds.get(cls)
        return kind is not None and kind.code == BY_STATE

    def find(self, value: Any) -> Kind:
        """Find how an object is stored whose class was not met before.

        Raises:
            Refusal: Its class is neither listed nor registered.
        """
        cls = type_of(value)
        self._adopt_loaded()
        if cls in self.kinds:
            return self.kinds[cls]
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and cls.__module__ == "numpy":
            self.kinds[cls] = NUMPY_SCALAR
        elif _langchain_class(type_key(cls)) is cls:
            self.register(cls)
        else:
            raise Refusal(value, "its type is not registered", cure=_cure(cls))
        return self.kinds[cls]

    def _adopt_loaded(self) -> None:
        for cls, kind in loaded_known_types():
            self.kinds.setdefault(cls, kind)

    # --- reading -------------------------------------------------------------------------------------------------

    def _class_of(self, key: Any) -> type[Any]:
        cls = self._classes.get(key) if isinstance(key, str) else None
        if cls is None and isinstance(key, str):
            cls = _langchain_class(key)
            if cls is not None:
                self.register(cls)
        if cls is None:
            raise _unknown(key)
        return cls

    def _revive_by_state(self, plain: list[Any]) -> Any:
        cls = self._class_of(plain[0])
        try:
            form = self._form_of(cls)
        except InvalidConfigError as problem:
            raise UnknownStoredTypeError(problem.what, cure=problem.cure) from problem
        return form.revive(plain[1])

    def _revive_by_function(self, plain: list[Any]) -> Any:
        cls = self._class_of(plain[0])
        form = self._functions.get(cls)
        if form is None:
            raise UnknownStoredTypeError(
                f"A stored {type_key(cls)} was written by an encode function; here it is registered without decode.",
                cure=f"register_type({cls.__qualname__}, encode=..., decode=...), as where it was written.",
            )
        try:
            return form.revive(plain[1])
        except DurableGraphError:
            raise
        except Exception as error:
            error.add_note(f"raised by the decode function registered for {type_key(cls)}")
            raise UserCodeError(error) from error

    # --- defaultdict: its factory is a class, found by a name of the closed list or by a key ------------------------

    def _defaultdict_parts(self, value: defaultdict[Any, Any]) -> list[Any]:
        factory: Any = value.default_factory
        items = dict(value)
        if factory is None or _FACTORIES.get(getattr(factory, "__name__", "")) is factory:
            return [factory and factory.__name__, items]
        key = self._keys.get(factory) if isinstance(factory, type) else None
        if key is None:
            raise Refusal(
                value,
                f"another process could not find its default_factory {factory!r}",
                cure=f"Use a registered type or one of {', '.join(_FACTORIES)}, or a plain dict with setdefault().",
            )
        return [None, items, key]

    def _defaultdict(self, plain: list[Any]) -> Any:
        name, items, *key = plain
        factory = self._class_of(key[0]) if key else None if name is None else _FACTORIES[name]
        return defaultdict(factory, items)


_FACTORIES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}


def _plain_by_function(cls: type[Any], key: str, functions: Form) -> Callable[[Any], Any]:
    def plain(value: Any) -> list[Any]:
        try:
            return [key, functions.plain(value)]
        except Exception as error:
            error.add_note(f"raised by the encode function registered for {type_key(cls)}")
            raise UserCodeError(error) from error

    return plain


def _plain_by_state(key: str, form: Form) -> Callable[[Any], Any]:
    plain = form.plain

    def plain_by_state(value: Any) -> list[Any]:
        return [key, plain(value)]

    return plain_by_state


def _langchain_class(key: str) -> type[Any] | None:
    """Find a class that a loaded LangChain package exports under this very key, by duck typing."""
    module, _, name = key.partition(":")
    package = next((known for known in _LANGCHAIN if module == known or module.startswith(known + ".")), None)
    if package is None or package not in sys.modules:
        return None
    cls = getattr(sys.modules[package], name, None)
    base = getattr(sys.modules.get("langchain_core.load.serializable"), "Serializable", None)
    if isinstance(cls, type) and base is not None and issubclass(cls, base) and type_key(cls) == key:
        return cls
    return None


def _unknown(key: Any) -> UnknownStoredTypeError:
    module, _, name = str(key).partition(":")
    what = f"A stored value has type {key!r}, which is not registered in this process."
    if module.startswith(_LANGCHAIN):
        package = ".".join(module.split(".")[:2])
        return UnknownStoredTypeError(what, cure=f"Import it first: from {package} import {name}")
    return UnknownStoredTypeError(
        what,
        cure=f"Before loading: durable_graph.register_type({name.rpartition('.')[2] or 'YourClass'}); when the class "
        f"was moved or renamed: register_type(NewClass, aliases=[{key!r}]).",
    )


def _cure(cls: type[Any]) -> str:
    if cls.__module__ in {"builtins", "types", "_thread", "_io", "_socket"}:  # functions, locks, files, sockets, ...
        return (
            "Store what it can be made of again, or keep the key out of checkpoints: "
            "Annotated[T, durable_graph.channels.UntrackedValue]."
        )
    return (
        f"durable_graph.register_type({cls.__qualname__.rpartition('.')[2]}) before the run (encode=..., decode=... "
        "say how, if it is no plain class), or keep the key out of checkpoints: Annotated[T, UntrackedValue]"
        " of durable_graph.channels."
    )


REGISTRY: Final = TypeRegistry()
"""The registry of this process."""


@overload
def register_type(
    cls: None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    aliases: Sequence[str] = (),
) -> Callable[[Class], Class]: ...


@overload
def register_type(
    cls: Class,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    aliases: Sequence[str] = (),
) -> Class: ...


def register_type(
    cls: Class | None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    aliases: Sequence[str] = (),
) -> Class | Callable[[Class], Class]:
    """Let objects of a class be stored and made again. A function, `@register_type`, or `@register_type(name=...)`.

    name: the key in stored data, "module:qualname" by default. A name of your own survives moving the class.
    encode, decode: object -> value that can be stored, and back. Without them an object is stored by its state
        (dataclass, pydantic model, NamedTuple, Enum, subclass of a builtin, plain class) and made again without
        running `__init__`, `__post_init__` or a validator.
    aliases: older keys under which objects of this class were stored.

    Subclasses are registered on their own. Registering the same class again adds to what is known.

    Raises:
        InvalidConfigError: Another class has the key; or the class keeps state that only its own code can read, so
            that it needs `encode` and `decode`.
    """
    if cls is None:

        def decorate(decorated: Class) -> Class:
            REGISTRY.register(decorated, name=name, encode=encode, decode=decode, aliases=aliases)
            return decorated

        return decorate
    REGISTRY.register(cls, name=name, encode=encode, decode=decode, aliases=aliases)
    return cls


def _register_own_types() -> None:
    def no_parts(_: Any) -> None:
        return None

    REGISTRY.register(Missing, name="Missing", encode=no_parts, decode=lambda _: MISSING)
    for cls in (Send, Interrupt, Overwrite, Command, TimeoutPolicy, Expired, Wait):
        REGISTRY.register(cls, name=cls.__name__)


_register_own_types()
