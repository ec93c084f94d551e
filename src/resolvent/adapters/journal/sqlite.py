"""SQLite: one file, with a bell beside it that other processes hear."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resolvent.adapters.journal.driver import Dialect
from resolvent.errors import Bug, ConfigError, NotFound, ResolventError, StoreBusy

_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_BROKEN = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def path_of(url: str) -> Path:
    """The file a `sqlite:///relative` or `sqlite:////absolute` URL names."""
    prefix, slashes, path = url.partition(":///")
    if prefix != "sqlite" or not slashes or not path or path == ":memory:" or "\0" in path:
        raise ConfigError(f"not the URL of a SQLite file: {url!r}", hint='set url = "sqlite:////absolute/path.db"')
    return Path(path)


class Sqlite:
    """The stdlib driver in WAL mode."""

    dialect: Dialect = "sqlite"
    # AUTOINCREMENT: a number is never given twice, not even after its row was removed.
    serial = "INTEGER PRIMARY KEY AUTOINCREMENT"
    # IMMEDIATE: a transaction that reads first and writes later must not find that the write lock is gone.
    begin = "BEGIN IMMEDIATE"
    has_meta = "SELECT 1 AS yes FROM sqlite_master WHERE type = 'table' AND name = 'meta'"
    found: Sequence[str] = ()
    announce: Sequence[str] = ()
    # In WAL mode NORMAL keeps the order of commits and never corrupts; a power loss may take back the newest ones.
    relax: Sequence[str] = ("PRAGMA synchronous = NORMAL",)
    insist: Sequence[str] = ("PRAGMA synchronous = FULL",)
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, url: str, busy_s: float) -> None:
        self._file = path_of(url)
        self._wake = self._file.with_name(f"{self._file.name}.wake")
        self._busy_s = busy_s

    def connect(self) -> sqlite3.Connection:
        """Open the file in WAL mode, made with its directory if it is new."""
        self._make()
        raw = sqlite3.connect(self._file, timeout=self._busy_s, isolation_level=None)
        if raw.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            with self._alone():
                raw.execute("PRAGMA journal_mode = WAL")
        # A commit is on the disk before it is acknowledged; Store.ordered is for what need not be.
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA foreign_keys = ON")
        return raw

    def statement(self, sql: str) -> str:
        return sql

    def usable(self, raw: sqlite3.Connection) -> bool:
        return True

    def roll_back(self, raw: sqlite3.Connection) -> None:
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def committed(self) -> None:
        """Touch the file that others watch."""
        # What was committed is kept: that the bell cannot ring must not look like a write that failed.
        with contextlib.suppress(OSError):
            self._wake.touch(mode=0o600)

    def translated(self, error: Exception) -> ResolventError | None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = f"the store {self._file}"
        if code in _DISK:
            return StoreBusy(f"{where} cannot be written: {error}", hint=f"df -h {self._file.parent}")
        if code in _BUSY:
            return StoreBusy(f"{where} is locked by another process: {error}", hint=f"fuser -v {self._file}")
        if code in _BROKEN:
            return ConfigError(f"{where} is not a whole SQLite database: {error}", hint=f"file {self._file}")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return NotFound("what this belongs to is not in the store", hint="resolvent runs")
        return Bug(f"{where} refused: {error}") if isinstance(error, sqlite3.IntegrityError) else None

    def bell(self) -> "InotifyBell":
        return InotifyBell(self._wake)

    def _make(self) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # EXCL: closing a descriptor of a file that SQLite has open in this process would drop its locks.
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            raise StoreBusy(f"the store cannot be made: {error}", hint=f"ls -ld {self._file.parent}") from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        # Two processes that switch a new file to WAL at once: one gets SQLITE_BUSY without waiting for its timeout.
        descriptor = os.open(self._wake, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class InotifyBell:
    """Rings when the wake file is touched; the file may be removed at any time and comes back."""

    def __init__(self, wake: Path) -> None:
        from asyncinotify import Inotify, Mask

        self._wake = wake
        self._mask = Mask.ATTRIB | Mask.MODIFY | Mask.DELETE_SELF | Mask.MOVE_SELF
        self._inotify: Any = Inotify()
        os.set_blocking(self._inotify.fd, False)

    def arm(self) -> int:
        try:
            # Opened, not touched: a touch would ring in every process that waits.
            os.close(os.open(self._wake, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._inotify.add_watch(self._wake, self._mask)
        except OSError as error:
            raise StoreBusy(f"cannot watch {self._wake}: {error}", hint=f"ls -l {self._wake}") from error
        return int(self._inotify.fd)

    def drain(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.read(self._inotify.fd, 1 << 16)
        return True

    def close(self) -> None:
        self._inotify.close()
