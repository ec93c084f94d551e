"""What a database has to offer to carry a store."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from resolvent.errors import ConfigError, ResolventError

Dialect = Literal["sqlite", "postgres"]


class Bell(Protocol):
    """A file descriptor that becomes readable when another process says that it wrote."""

    def arm(self) -> int:
        """Make sure that nothing rings unheard from now on; returns the descriptor."""

    def drain(self) -> bool:
        """Forget what rang so far; False when the bell is lost and has to be armed again."""

    def close(self) -> None: ...


class Driver(Protocol):
    """What differs between the databases. All of it is called in the store's thread, but for the bell."""

    dialect: Dialect
    serial: str
    begin: str
    has_meta: str
    found: Sequence[str]
    announce: Sequence[str]
    # Said before and after a transaction that need not be on the disk when it returns.
    relax: Sequence[str]
    insist: Sequence[str]
    errors: tuple[type[Exception], ...]

    def connect(self) -> Any: ...

    def statement(self, sql: str) -> str: ...

    def usable(self, raw: Any) -> bool: ...

    def roll_back(self, raw: Any) -> None: ...

    def committed(self) -> None:
        """Ring, where the commit itself does not."""

    def translated(self, error: Exception) -> ResolventError | None:
        """Ours for theirs; None when only the statement is wrong."""

    def bell(self) -> Bell: ...


def driver_for(url: str, busy_s: float) -> Driver:
    """The driver a URL asks for; only that one is imported."""
    scheme, _, _ = url.partition(":")
    if scheme == "sqlite":
        from resolvent.adapters.journal.sqlite import Sqlite

        return Sqlite(url, busy_s)
    if scheme in ("postgresql", "postgres"):
        try:
            from resolvent.adapters.journal.postgres import Postgres
        except ImportError as missing:
            hint = "pip install '.[postgres]'  # where you cloned Resolvent"
            raise ConfigError("a Postgres store needs psycopg", hint=hint) from missing

        return Postgres(url, busy_s)
    raise ConfigError(
        f"no store can be opened at {scheme}:…", hint='set url = "sqlite:///…" or "postgresql://…" under [store]'
    )
