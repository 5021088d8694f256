"""The library as it will be one revision later, for the tests of all backends."""

import shutil

import pytest

from checkpointers.sql import migrate

HEAD = migrate.HEAD
"""The newest revision there is."""
NEXT = f"{int(HEAD) + 1:04}"
"""The one that comes after it."""
OLDER = tuple(f"{number:04}" for number in range(1, int(HEAD)))
"""All that came before it."""

NEXT_REVISION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "{next}", "{head}", None, None
def upgrade():
    op.add_column("thread", sa.Column("expires", sa.BigInteger()))
    {more}
"""


@pytest.fixture
def later_version(tmp_path, monkeypatch):
    """The library one revision later."""
    revisions = migrate.revisions()

    def install(more=""):
        folder = tmp_path / "revisions 100%"
        shutil.copytree(revisions, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        (folder / "versions" / f"{NEXT}_next.py").write_text(NEXT_REVISION.format(next=NEXT, head=HEAD, more=more))
        monkeypatch.setattr(migrate, "HEAD", NEXT)
        monkeypatch.setattr(migrate, "revisions", lambda: str(folder))

    return install
