"""Postgres: tables in a schema of our own, with NOTIFY as the bell that other processes hear."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, pq

from resolvent.adapters.journal.driver import Dialect
from resolvent.adapters.journal.portable import for_psycopg
from resolvent.errors import Bug, ConfigError, NotFound, ResolventError, StoreBusy

SCHEMA = "resolvent"
# Chosen once, arbitrary: the advisory lock under which the schema is made and migrated.
_MIGRATING = 7_365_770_001


class Postgres:
    """psycopg, with autocommit so that transactions are begun by name as in SQLite."""

    dialect: Dialect = "postgres"
    serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    begin = "BEGIN"
    has_meta = f"SELECT 1 AS yes FROM pg_tables WHERE schemaname = '{SCHEMA}' AND tablename = 'meta'"
    found: Sequence[str] = (f"SELECT pg_advisory_xact_lock({_MIGRATING})", f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    announce: Sequence[str] = (f"NOTIFY {SCHEMA}",)
    relax: Sequence[str] = ("SET synchronous_commit TO off",)
    insist: Sequence[str] = ("SET synchronous_commit TO on",)
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str, busy_s: float) -> None:
        self._url = url
        self._busy_s = busy_s

    def connect(self) -> psycopg.Connection[Any]:
        raw = connect(self._url, self._busy_s)
        raw.execute(f"SET search_path TO {SCHEMA}")
        # As patient with a locked row as SQLite is with a locked file.
        raw.execute(f"SET lock_timeout TO {round(self._busy_s * 1000)}")
        return raw

    def statement(self, sql: str) -> str:
        return for_psycopg(sql)

    def usable(self, raw: psycopg.Connection[Any]) -> bool:
        return not raw.closed

    def roll_back(self, raw: psycopg.Connection[Any]) -> None:
        if not raw.closed and raw.info.transaction_status != pq.TransactionStatus.IDLE:
            raw.execute("ROLLBACK")

    def committed(self) -> None:
        """NOTIFY became visible with the commit."""

    def translated(self, error: Exception) -> ResolventError | None:
        said = str(error).strip().partition("\n")[0]
        if isinstance(error, errors.ForeignKeyViolation):
            return NotFound("what this belongs to is not in the store", hint="resolvent runs")
        if isinstance(error, errors.InsufficientPrivilege | errors.InvalidSchemaName):
            return ConfigError(f"the store does not let us: {said}", hint=f"give the user CREATE on schema {SCHEMA}")
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreBusy(f"the store is away, locked or full: {said}", hint="resolvent doctor")
        return Bug(f"the store refused: {said}") if isinstance(error, psycopg.IntegrityError) else None

    def bell(self) -> "NotifyBell":
        return NotifyBell(self._url, self._busy_s)


def connect(url: str, wait_s: float) -> psycopg.Connection[Any]:
    """A connection that commits each statement; ConfigError for a URL that cannot be one."""
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=max(2, round(wait_s)))
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"not a Postgres URL: {error}", hint="set url under [store]") from error


class NotifyBell:
    """Rings on NOTIFY, over a connection of its own."""

    def __init__(self, url: str, wait_s: float) -> None:
        self._url = url
        self._wait_s = wait_s
        self._raw: psycopg.Connection[Any] | None = None

    def arm(self) -> int:
        if self._raw is None or self._raw.closed:
            self._raw = connect(self._url, self._wait_s)
            self._raw.execute(f"LISTEN {SCHEMA}")
        return self._raw.fileno()

    def drain(self) -> bool:
        if self._raw is None:
            return False
        try:
            self._raw.pgconn.consume_input()
            while self._raw.pgconn.notifies():
                continue
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
