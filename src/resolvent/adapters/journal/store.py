"""A database, SQLite or Postgres, as adapters use it: SQL written once, one connection, one thread, no half-writes.

    store = await Store.open("sqlite:////home/me/state.db")
    await store.migrate("forge", [["CREATE TABLE notes (id {serial}, body TEXT NOT NULL)"]])
    await store.write("INSERT INTO notes (body) VALUES (:body)", body="hello")
    rows = await store.read("SELECT id, body FROM notes WHERE id > :after", after=0)

Portable column types: TEXT, BIGINT, DOUBLE PRECISION (REAL is too small on Postgres), and `{serial}` for a primary key
that counts. Booleans are stored as 0 and 1. `%` is an ordinary character; a parameter is `:name`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from resolvent.adapters.journal.driver import Bell, Dialect, Driver, driver_for
from resolvent.adapters.journal.portable import Scalar, restored, stored
from resolvent.errors import ConfigError

S = TypeVar("S")
T = TypeVar("T")
Row = dict[str, Any]

_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, number BIGINT NOT NULL)"
_COUNT_FROM = "INSERT INTO meta (name, number) VALUES ('generation', 0)"
_BUMP = "UPDATE meta SET number = number + 1 WHERE name = 'generation'"
_NUMBER = "SELECT number FROM meta WHERE name = :name"
_SET_NUMBER = (
    "INSERT INTO meta (name, number) VALUES (:name, :number) ON CONFLICT (name) DO UPDATE SET number = excluded.number"
)


class Connection:
    """The open connection, inside the store's thread: what `Store.transaction` hands to its work."""

    def __init__(self, raw: Any, driver: Driver) -> None:
        self._raw = raw
        self._driver = driver
        self.announced = False

    def read(self, sql: str, /, **params: Scalar) -> list[Row]:
        """The rows, each as column → value."""
        cursor = self._execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [{name: restored(value) for name, value in zip(names, row, strict=True)} for row in cursor.fetchall()]

    def write(self, sql: str, /, **params: Scalar) -> int:
        """How many rows the statement inserted, changed or removed."""
        return max(0, int(self._execute(sql, params).rowcount))

    def announce(self) -> int:
        """Count this transaction as a change that others wait for in `Store.changed`; returns its number.

        The number's row stays locked until the commit, so numbers become visible in their order. Announce last.
        """
        self.announced = True
        self.write(_BUMP)
        for sql in self._driver.announce:
            self.write(sql)
        return self.number("generation")

    def number(self, name: str) -> int:
        """A number of the `meta` table; 0 when it was never set."""
        rows = self.read(_NUMBER, name=name)
        return int(rows[0]["number"]) if rows else 0

    def _execute(self, sql: str, params: dict[str, Scalar]) -> Any:
        values = {name: stored(value) for name, value in params.items()}
        return self._raw.execute(self._driver.statement(sql), values)


class Store:
    """One database connection in one thread; every method may be awaited from any task."""

    def __init__(self, url: str, driver: Driver) -> None:
        self.url = url
        self.dialect: Dialect = driver.dialect
        self._driver = driver
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._raw: Any = None
        self._seen = 0
        self._bell: Bell | None = None
        self._descriptor = -1
        self._waiting: set[asyncio.Future[None]] = set()

    @classmethod
    async def open(cls, url: str, *, busy_s: float = 10.0) -> "Store":
        """Connect, making the file or schema if it is new; ConfigError for a URL that names neither database."""
        store = cls(url, driver_for(url, busy_s))
        try:
            store._seen = await store._run(store._prepare)
        except BaseException:
            store._thread.shutdown(wait=False)
            raise
        return store

    async def read(self, sql: str, /, **params: Scalar) -> list[Row]:
        """The rows of one SELECT, each as column → value."""
        return await self._run(lambda: self._connection().read(sql, **params))

    async def write(self, sql: str, /, **params: Scalar) -> int:
        """Do one statement in its own transaction; returns how many rows it touched."""
        return await self._run(lambda: self._connection().write(sql, **params))

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in the store's thread inside one transaction: all of it is kept, or nothing if it raises."""
        return await self._run(lambda: self._transact(work))

    async def ordered(self, work: Callable[[Connection], T]) -> T:
        """As `transaction`, without waiting for the disk: after a power loss the newest of these may never have been.

        For facts that follow from others: what was forgotten is asked, collected or looked for again.
        """
        return await self._run(lambda: self._relaxed(work))

    async def around(
        self, between: Callable[[S], None], first: Callable[[Connection], S], second: Callable[[Connection, S], T]
    ) -> T:
        """Two transactions, and between them something that may take long, in one trip to the store's thread."""

        def work() -> T:
            found = self._transact(first)
            between(found)
            return self._transact(lambda connection: second(connection, found))

        return await self._run(work)

    async def migrate(self, owner: str, statements: Sequence[Sequence[str]]) -> None:
        """Bring the tables of one owner to the newest schema; schema N is the Nth item of `statements`.

        Items are only ever appended. `{serial}` is replaced. A store that is newer than this program is refused.
        """

        name, known = f"schema of {owner}", len(statements)

        def current(connection: Connection) -> int:
            have = connection.number(name)
            if have > known:
                raise ConfigError(
                    f"the store holds {owner} schema {have}; this version of resolvent knows up to {known}",
                    hint="git pull && make setup  # where you cloned Resolvent",
                )
            return have

        def upgrade(connection: Connection) -> None:
            for sql in self._driver.found:
                connection.write(sql)
            for sql in (line for schema in statements[current(connection) :] for line in schema):
                connection.write(sql.replace("{serial}", self._driver.serial))
            connection.write(_SET_NUMBER, name=name, number=known)

        if await self._run(lambda: current(self._connection())) < known:
            await self.transaction(upgrade)

    async def changed(self, *, since: int | None = None, timeout_s: float | None = None) -> int:
        """Wait until the number of announced changes is not `since`, or the time is over; returns the number.

        Without `since`: not what it was when this was last called on this store. Several waiters each pass their own.
        """
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        known = self._seen if since is None else since
        number = await self._differing(known, deadline)
        if since is None:
            self._seen = number
        return number

    async def close(self) -> None:
        """Finish what was begun and let go of the database; whoever still waits in `changed` is cancelled."""
        if self._raw is None:
            return
        for rung in self._waiting:
            rung.cancel()
        self._silence()
        await self._run(self._raw.close)
        self._raw = None
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        def translating() -> T:
            try:
                return work()
            except self._driver.errors as error:
                if (ours := self._driver.translated(error)) is None:
                    raise
                raise ours from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, translating)

    def _connection(self) -> Connection:
        if self._raw is None or not self._driver.usable(self._raw):
            self._raw = self._driver.connect()
        return Connection(self._raw, self._driver)

    def _relaxed(self, work: Callable[[Connection], T]) -> T:
        connection = self._connection()
        for sql in self._driver.relax:
            connection.write(sql)
        try:
            return self._transact(work)
        finally:
            for sql in self._driver.insist:
                connection.write(sql)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        connection = self._connection()
        connection.write(self._driver.begin)
        try:
            result = work(connection)
            connection.write("COMMIT")
        except BaseException:
            self._driver.roll_back(self._raw)
            raise
        if connection.announced:
            self._driver.committed()
        return result

    def _prepare(self) -> int:
        def found(connection: Connection) -> None:
            for sql in self._driver.found:
                connection.write(sql)
            if not connection.read(self._driver.has_meta):
                connection.write(_META)
                connection.write(_COUNT_FROM)

        if not self._connection().read(self._driver.has_meta):
            self._transact(found)
        return self._connection().number("generation")

    async def _differing(self, known: int, deadline: float | None) -> int:
        while True:
            # Registered before looking: what rings from here on is heard, also if another waiter drains the bell.
            with self._registered() as rung:
                number = await self._look()
                if number != known:
                    return number
                try:
                    async with asyncio.timeout_at(deadline):
                        await rung
                except TimeoutError:
                    return number

    async def _look(self) -> int:
        def arm() -> tuple[Bell, int, int]:
            bell = self._bell = self._bell or self._driver.bell()
            return bell, bell.arm(), self._connection().number("generation")

        bell, descriptor, number = await self._run(arm)
        if bell is self._bell:
            self._descriptor = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._ring)
        return number

    @contextlib.contextmanager
    def _registered(self) -> Iterator[asyncio.Future[None]]:
        rung = asyncio.get_running_loop().create_future()
        self._waiting.add(rung)
        try:
            yield rung
        finally:
            self._waiting.discard(rung)

    def _ring(self) -> None:
        if self._bell is None or not self._bell.drain():
            self._silence()
        for rung in self._waiting:
            if not rung.done():
                rung.set_result(None)

    def _silence(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._descriptor = -1
        if self._bell is not None:
            self._bell.close()
            self._bell = None
