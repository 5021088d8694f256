"""What tests of `update_state` share."""

import pytest

from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, dump, history, thread


def abc():
    return chain(**{name: says(name) for name in "abc"})


def before(face, graph, node):
    """The first checkpoint at which only this node is next."""
    return next(one for one in history(face, graph) if one.next == (node,))


def refused(face, saver, graph, error, match, *args, **keywords):
    """An edit that fails like this, and leaves the stored rows as they are."""
    rows = dump(saver)
    with pytest.raises(error, match=match):
        face.update_state(graph, thread(), *args, **keywords)
    assert dump(saver) == rows
