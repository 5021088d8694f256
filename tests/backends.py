"""The backends, behind one set of names: a test is written once and runs on all of them."""

from abc import ABC, abstractmethod


class Backend(ABC):
    """Data that lives as long as the test.

    Checkpointers are imported when opened, so that a broken backend fails its own tests only.
    """

    def __init__(self, folder):
        self.folder = folder
        self.opened = []

    @abstractmethod
    def open(self):
        """A new checkpointer over the data."""

    def make(self):
        """The test's checkpointer."""
        return self.reopen()

    def reopen(self):
        """A checkpointer over the same data, as another process would open it."""
        checkpointer = self.open()
        self.opened.append(checkpointer)
        return checkpointer

    def close(self):
        while self.opened:
            self.opened.pop().close()


class MemoryBackend(Backend):
    """Its data is the object: there is only one."""

    def open(self):
        from checkpointers import InMemorySaver

        return InMemorySaver()

    def reopen(self):
        return self.opened[0] if self.opened else super().reopen()


class SqliteBackend(Backend):
    def open(self):
        from checkpointers import SqliteSaver

        return SqliteSaver(self.folder / "runs.db")


BACKENDS = {"memory": MemoryBackend, "sqlite": SqliteBackend}
