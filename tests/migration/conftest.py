"""The library as it will be one revision later, for the tests of all backends."""

import shutil

import pytest

from checkpointers.sql import migrate

NEXT_REVISION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "0004", "0003", None, None
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
        (folder / "versions" / "0004_next.py").write_text(NEXT_REVISION.format(more=more))
        monkeypatch.setattr(migrate, "HEAD", "0004")
        monkeypatch.setattr(migrate, "revisions", lambda: str(folder))

    return install
