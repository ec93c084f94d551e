"""A real Postgres for tests: its own directory, a socket in it, gone at the end."""

import contextlib
import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from resolvent.errors import StoreBusy

# Nothing has to survive a power loss here.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "log_min_messages": "log",
    "log_checkpoints": "off",
}
_SEND_AWAY = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_OURS = "SELECT nspname FROM pg_namespace WHERE nspname IN ('resolvent', 'dbos')"


def postgres_binaries() -> Path | None:
    """The directory of the newest Postgres on this machine, or None."""
    on_path = shutil.which("initdb")
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parent.parent.name)
    if on_path:
        return Path(on_path).resolve().parent
    return packaged[-1].parent if packaged else None


class PostgresServer:
    """A running server."""

    def __init__(self, directory: Path, user: str) -> None:
        self._directory = directory
        self._user = user

    def url(self, database: str) -> str:
        """How to connect to one of its databases."""
        return f"postgresql://{self._user}@/{database}?host={self._directory}"

    def emptied(self, database: str = "postgres") -> str:
        """The URL of a database that nobody uses and that holds nothing: much quicker than making one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(_SEND_AWAY)
            for (schema,) in connection.execute(_OURS).fetchall():
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        return self.url(database)


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server on a Unix socket, as an unprivileged user when we are root, and stop it at the end."""
    binaries = postgres_binaries()
    if binaries is None:
        raise StoreBusy("there is no Postgres on this machine", hint="apt-get install postgresql")
    # The path of a socket is short by law of the kernel, so not below a test's own long directory.
    directory = Path(tempfile.mkdtemp(prefix="resolvent-pg-"))
    user = _server_user()
    if os.geteuid() == 0:
        shutil.chown(directory, user)
    try:
        _as(user, [str(binaries / "initdb"), "-D", "data", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"], directory)
        with _running(binaries / "postgres", directory, user):
            yield PostgresServer(directory, user)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _server_user() -> str:
    if os.geteuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _as(user: str, argv: list[str], directory: Path) -> None:
    who = user if os.geteuid() == 0 else None
    subprocess.run(argv, cwd=directory, user=who, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _running(program: Path, directory: Path, user: str) -> Iterator[None]:
    # The server dies with the tests, also when they are killed.
    tied = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    server = subprocess.Popen(
        [*tied, str(program), "-D", "data", "-k", str(directory), *settings],
        cwd=directory,
        user=user if os.geteuid() == 0 else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = _Log(server)
    try:
        log.wait_until_ready()
        yield
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        log.join()


class _Log(threading.Thread):
    """Reads what the server says, for as long as it lives: a full pipe would stop it."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._lines: list[str] = []
        self._told = threading.Event()
        self.start()

    def run(self) -> None:
        assert self._server.stderr is not None
        with self._server.stderr as said:
            for line in said:
                self._lines.append(line)
                if "ready to accept connections" in line:
                    self._told.set()
        self._told.set()

    def wait_until_ready(self) -> None:
        self._told.wait()
        if self._server.poll() is not None:
            raise StoreBusy(f"Postgres did not start: {''.join(self._lines)}", hint="postgres --version")
