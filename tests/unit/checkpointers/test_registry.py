"""A checkpointer by URL, path or object."""

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.registry import GROUP, resolve_checkpointer


def test_a_checkpointer_is_itself():
    saver = InMemorySaver()
    assert resolve_checkpointer(saver) is saver


def test_a_url_finds_the_installed_backend(tmp_path):
    assert isinstance(resolve_checkpointer("memory://"), InMemorySaver)
    saver = resolve_checkpointer(f"sqlite:///{tmp_path}/runs.db")
    assert isinstance(saver, SqliteSaver)
    assert saver.identity == SqliteSaver(tmp_path / "runs.db").identity


def test_a_path_is_a_sqlite_file_whatever_its_name(tmp_path):
    for name in ("runs.db", "a?b.db", ":memory:"):
        assert resolve_checkpointer(tmp_path / name).identity == ("sqlite", str(tmp_path / name))


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("sqlit:///runs.db", "Did you mean sqlite://"),
        ("redis://host", "Installed: memory://, postgres://, postgresql://, sqlite://"),
        ("runs.db", 'Write "sqlite:///runs.db"'),
        (":memory:", "memory://"),
        (True, "type bool"),
        (InMemorySaver, "the class InMemorySaver"),
        (object(), "type object"),
    ],
)
def test_anything_else_is_an_error_that_names_what_is_installed(target, says):
    with pytest.raises(InvalidConfigError) as caught:
        resolve_checkpointer(target)
    assert says in str(caught.value)


def test_without_any_installed_backend_the_error_says_how_to_install_ours(tmp_path, monkeypatch):
    import sys

    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # where the metadata of installed packages is looked for
    with pytest.raises(InvalidConfigError, match=r"Installed: none.*(\n.*)*pip install -e \."):
        resolve_checkpointer("sqlite:///runs.db")


def test_a_backend_of_another_package_is_found_by_its_scheme(tmp_path, monkeypatch):
    package = tmp_path / "acme-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nacme = acme_backend:Good\nbroken = acme_backend:Bad\n")
    (tmp_path / "acme_backend.py").write_text(
        "from checkpointers import InMemorySaver\n"
        "class Good(InMemorySaver):\n"
        "    @classmethod\n"
        "    def from_conn_string(cls, url): return cls()\n"
        "class Bad:\n"
        "    from_conn_string = staticmethod(lambda url: url)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(resolve_checkpointer("acme://x")).__name__ == "Good"
    with pytest.raises(InvalidConfigError, match="acme_backend:Bad"):
        resolve_checkpointer("broken://x")
