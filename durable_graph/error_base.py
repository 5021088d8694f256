"""The root of all errors of this library, and what their texts are made of. `durable_graph.errors` has them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self

__all__ = ["DurableGraphError", "shortened"]


class DurableGraphError(Exception):
    """Base of all errors of this library.

    `what` says what happened and where (node, key, step, thread); `cure` what to do about it. A class brings a
    default cure; pass a better one where the place knows more.
    """

    code: ClassVar[str] = "DG000"
    cure: str = "See the message."

    def __init__(self, what: str, *, cure: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        if cure is not None:
            self.cure = cure

    def __str__(self) -> str:
        return f"{self.what}\n  Cure: {self.cure} [{self.code}]"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The error that `str` made this text of: as much of it as the text says."""
        what, _, cure = text.partition("\n  Cure: ")
        error = cls.__new__(cls, what)
        error.args, error.what = (what,), what
        if cure:
            error.cure = cure.removesuffix(f" [{cls.code}]")
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (multiprocessing, queues); the default would lose keyword arguments.
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def shortened(value: object, limit: int = 80) -> str:
    """A value as it stands in a message: its repr, on one line of bounded length."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _rebuild(cls: type[DurableGraphError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DurableGraphError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error
