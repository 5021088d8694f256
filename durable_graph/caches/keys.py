"""The key of a call: a digest of what it was called with.

Arguments are encoded by the codec, never pickled, so a key is the same in every process. In what the codec writes,
dicts keep their order; here their entries are sorted, at any depth, since equal dicts shall make equal keys. Only an
OrderedDict keeps its order: two that differ in it are not equal.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgpack as _untyped_msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.type_registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["default_cache_key"]

msgpack: Any = _untyped_msgpack

_DIGEST_BYTES: Final = 16
_SORTED: Final = 127
_ORDERED: Final = 126
"""Extension types that stand for a dict here; the codec uses neither."""


def default_cache_key(*args: Any, **kwargs: Any) -> str:
    """The key of a call with these arguments: 32 hexadecimal digits.

    Equal arguments of equal types give the same key in every process; 1, 1.0 and True are different arguments. The
    order of dicts and sets does not matter.

    Raises:
        UnserializableValueError: an argument cannot be stored; the text names it. Cure: a `key_func` of your own.
    """
    digest = blake2b(b"%d" % len(args), digest_size=_DIGEST_BYTES)
    for number, value in enumerate(args, 1):
        _add(digest.update, _encoded(value, f"argument {number}"))
    for name in sorted(kwargs):
        _add(digest.update, name.encode("utf-8", "surrogatepass"))
        _add(digest.update, _encoded(kwargs[name], f"argument {name!r}"))
    return digest.hexdigest()


def _add(update: Callable[[bytes], None], part: bytes) -> None:
    """Add a part and its length, so that no two lists of parts read the same."""
    update(b"%d:" % len(part))
    update(part)


def _encoded(value: Any, argument: str) -> bytes:
    try:
        return _with_sorted_dicts(CODEC.encode(value))
    except UnserializableValueError as error:
        raise UnserializableValueError(
            f"No cache key can be made from {argument}: {error.what}",
            cure="Pass CachePolicy(key_func=...), a function that is given the same arguments and returns a text "
            f"made of what the result depends on. Or make the value storable: {error.cure}",
        ) from error
    except Exception as error:
        error.add_note(f"while a cache key was made from {argument}")
        raise


# --- dicts without their order -------------------------------------------------------------------------------------


class _Dict(list[bytes]):
    """A dict as its packed entries."""


def _with_sorted_dicts(data: bytes) -> bytes:
    """The encoding with the entries of every dict sorted by their bytes. Nobody decodes it."""
    packer = msgpack.Packer(strict_types=True, unicode_errors="surrogatepass", default=_packed_dict)
    packed: bytes = packer.pack(_read(data, packer.pack))
    return packed


def _packed_dict(entries: _Dict) -> Any:
    """Serve as msgpack's hook: a dict that is no OrderedDict's content."""
    return msgpack.ExtType(_SORTED, b"".join(sorted(entries)))


def _read(data: bytes, pack: Callable[[Any], bytes]) -> Any:
    # An Unpacker each, and dicts packed as soon as they are read: nothing here goes deeper with the value than the
    # codec itself did (see there).
    unpacker = msgpack.Unpacker(
        max_buffer_size=0,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        object_pairs_hook=partial(_read_dict, pack),
        ext_hook=partial(_read_object, pack),
    )
    unpacker.feed(data)
    return unpacker.unpack()


def _read_dict(pack: Callable[[Any], bytes], pairs: list[tuple[Any, Any]]) -> _Dict:
    return _Dict([pack(key) + pack(value) for key, value in pairs])


def _read_object(pack: Callable[[Any], bytes], code: int, data: bytes) -> Any:
    content = _read(data, pack)
    if code == _ORDERED_DICT and type(content) is _Dict:
        return msgpack.ExtType(_ORDERED, b"".join(content))
    return msgpack.ExtType(code, pack(content))


_ORDERED_DICT: Final = REGISTRY.find(OrderedDict()).code
