"""What tests of the codec share: classes made on the spot, and a way through bytes and back."""

import dataclasses

from durable_graph.persistence.codec import CODEC


def made(name, fields, *, module, bases=()):
    """Make a dataclass that says it comes from a module (make_dataclass itself learned that in Python 3.12)."""
    cls = dataclasses.make_dataclass(name, fields, bases=bases)
    cls.__module__ = module
    return cls


def again(value):
    return CODEC.decode(CODEC.encode(value))
