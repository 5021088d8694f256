"""What CI runs before it tests: a machine that cannot have pgbouncer goes on without it, and says so beside stdout."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "pgbouncer"
NEEDED = ("bash", "chmod", "env", "id", "mktemp", "rm", "tail", "timeout", "true")

pytestmark = pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="needs bash and coreutils")


@pytest.fixture
def run(tmp_path):
    """Runs the script on a machine that has these programs (name -> text) and nothing else."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in NEEDED:
        (programs / name).symlink_to(shutil.which(name))

    def run(**given):
        for name, text in {"id": "echo 0", **given}.items():
            program = programs / name.replace("_", "-")
            program.unlink(missing_ok=True)
            program.write_text(f"#!{programs / 'bash'}\n{text}\n")
            program.chmod(0o755)
        # The script looks in /usr/sbin too, where this machine may have a pgbouncer.
        text = SCRIPT.read_text("utf-8").replace("/usr/sbin:/sbin", str(programs))
        return subprocess.run(
            [programs / "bash", "-c", text],
            env={"PATH": str(programs), "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "MADE": str(programs)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


INSTALLS = 'echo "Setting up pgbouncer"; echo "#!/bin/sh" >$MADE/pgbouncer; chmod +x $MADE/pgbouncer'


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ({}, 1, "there is no apt-get; the tests of transaction pooling are skipped"),
        ({"apt_get": "exit 0", "id": "echo 1000"}, 1, "only root may install it; the tests"),
        ({"apt_get": "echo 'E: no network'; exit 100"}, 1, "E: no network\npgbouncer: apt-get could not install it; "),
        ({"apt_get": INSTALLS}, 0, "installed for the tests"),
        ({"apt_get": INSTALLS, "id": "echo 1000", "sudo": 'test "$1" = -n; shift; exec "$@"'}, 0, "installed for the"),
        ({"pgbouncer": "exit 0"}, 0, ""),
    ],
    ids=["no apt", "not root", "no network", "root", "sudo", "there"],
)
def test_pgbouncer_is_installed_where_that_is_possible_and_else_its_absence_is_told(run, given, code, told):
    ended = run(**given)
    assert ended.returncode == code, ended.stderr
    assert told in ended.stderr
    assert bool(told) == bool(ended.stderr)
    assert ended.stdout == ""


def test_both_scripts_may_be_executed():
    assert all(os.access(SCRIPT.with_name(name), os.X_OK) for name in ("run", "pgbouncer"))
