"""The tree of errors: drawn as it is, each with a code and a cure, and whole after a trip to another process."""

import copy
import pickle
import re

import pytest

from durable_graph import errors
from durable_graph.errors import DurableGraphError, GraphBubbleUp

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, DurableGraphError)]
DRAWN = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+)(?= |$)")


def _drawn():
    """(name, name of what it hangs from) for each line of the tree in the module's docstring."""
    parents = {}
    for line in errors.__doc__.splitlines():
        found = DRAWN.match(line)
        if found is None or not line.startswith("    "):
            continue
        depth = len(found["indent"])
        above = [name for at, name in parents.items() if at < depth]
        parents = {at: name for at, name in parents.items() if at < depth} | {depth: found["name"]}
        yield found["name"], above[-1] if above else None


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = dict(_drawn())
    assert set(drawn) == {cls.__name__ for cls in CLASSES} | {
        cls.__name__ for cls in (GraphBubbleUp, *GraphBubbleUp.__subclasses__())
    }
    for name, parent in drawn.items():
        bases = [base.__name__ for base in getattr(errors, name).__mro__[1:]]
        assert parent is None or parent == bases[0], name


def test_every_error_has_a_code_of_its_own():
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"DG\d{3}", code) for code in codes)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_text_says_what_happened_the_cure_and_the_code(cls):
    error = cls("it happened at node 'a'")
    assert str(error) == f"it happened at node 'a'\n  Cure: {error.cure} [{cls.code}]"
    assert len(error.cure) > 10
    assert str(cls("x", cure="do this")) == f"x\n  Cure: do this [{cls.code}]"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_is_whole_after_pickling_and_copying(cls):
    error = cls("what", cure="cure")
    error.extra = [1]
    error.add_note("note")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(other) is cls
        assert (str(other), other.what, other.cure, other.extra) == (str(error), "what", "cure", [1])
        assert other.__notes__ == ["note"]


@pytest.mark.parametrize(
    ("cls", "known"),
    [
        (errors.InvalidGraphError, ValueError),
        (errors.InvalidConfigError, ValueError),
        (errors.InvalidInputError, ValueError),
        (errors.InvalidUpdateError, ValueError),
        (errors.NoCheckpointerError, ValueError),
        (errors.NoCheckpointerError, RuntimeError),
        (errors.UnknownInterruptError, RuntimeError),
        (errors.GraphRecursionError, RecursionError),
        (errors.OutsideRunError, RuntimeError),
        (errors.EventLoopError, RuntimeError),
        (errors.UnserializableValueError, TypeError),
    ],
)
def test_an_error_is_also_what_people_catch_today(cls, known):
    assert issubclass(cls, known)


def test_control_flow_passes_through_except_exception():
    assert not issubclass(GraphBubbleUp, Exception)
    assert issubclass(errors.GraphInterrupt, GraphBubbleUp)
    assert errors.GraphInterrupt(["asked"]).interrupts == ("asked",)
    assert errors.ParentCommand("command").command == "command"


def test_a_long_value_is_shortened_in_a_message():
    assert errors.shortened("short") == "'short'"
    assert len(errors.shortened("x" * 1000)) == 80
