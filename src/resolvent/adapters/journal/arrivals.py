"""What came from the forge by itself, in the journal's store: first writer wins."""

from collections.abc import Callable, Sequence

from resolvent.adapters.journal import queries
from resolvent.adapters.journal.portable import Scalar
from resolvent.adapters.journal.rows import document, value_of
from resolvent.adapters.journal.store import Connection, Row, Store
from resolvent.domain.arrival import Arrival, Fate

# A person may have a delivery of the last days sent once more; nobody can have one that is a month old.
REMEMBERED_S = 30 * 86400.0

_COLUMNS = "kind, subject, by_login, bot, at, wish, comment, said, delivery, run, fate, reason, seen_at, tries"
_ADD = f"""
INSERT INTO arrivals (id, {_COLUMNS})
VALUES (
  :id, :kind, :subject, :by, :bot, :at, :wish, :comment, :said, :delivery, :run, :fate, :reason, :seen_at, :tries
)
ON CONFLICT (id) DO NOTHING
"""
_PENDING = f"SELECT {_COLUMNS} FROM arrivals WHERE fate = 'new' ORDER BY place"
_WITH_FATE = f"SELECT {_COLUMNS} FROM arrivals WHERE fate = :fate ORDER BY place DESC LIMIT :limit"
_ONE = f"SELECT {_COLUMNS} FROM arrivals WHERE id = :id"
_CAUSE = f"SELECT {_COLUMNS} FROM arrivals WHERE run = :run AND fate IN ('new', 'taken') ORDER BY place LIMIT 1"
_SETTLE = "UPDATE arrivals SET fate = :fate, reason = :reason WHERE id = :id AND fate = 'new'"

_TRIED = "UPDATE arrivals SET tries = tries + 1 WHERE id = :id"

_DELIVERED = "INSERT INTO deliveries (id, at) VALUES (:id, :at) ON CONFLICT (id) DO NOTHING"
_FORGET = "DELETE FROM deliveries WHERE at < :before"

_SINCE = "SELECT since, spent FROM labelled WHERE subject = :subject"
_LABEL = """
INSERT INTO labelled (subject, since) VALUES (:subject, :since)
ON CONFLICT (subject) DO UPDATE SET since = excluded.since, spent = 0
"""
_KNOWN = "INSERT INTO labelled (subject, since) VALUES (:subject, :since) ON CONFLICT (subject) DO NOTHING"
_SPEND = "UPDATE labelled SET spent = 1 WHERE subject = :subject"
# A late word of an earlier loss is no loss.
_UNLABEL = "DELETE FROM labelled WHERE subject = :subject AND since <= :at"
# A webhook tells whole seconds, and may come after that of a label that was put on again in the same one.
_UNLABELLED = "DELETE FROM labelled WHERE subject = :subject AND since < :at"

_CURSOR = "SELECT instant FROM cursors WHERE name = :name"
_ADVANCE = """
INSERT INTO cursors (name, instant) VALUES (:name, :instant)
ON CONFLICT (name) DO UPDATE SET instant = excluded.instant WHERE excluded.instant > cursors.instant
"""


class StoredArrivals:
    """Implements the Arrivals port on the journal's tables, which must be there."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def record(self, arrivals: Sequence[Arrival], *, delivery: str = "") -> tuple[Arrival, ...] | None:
        now = self._now()

        def work(connection: Connection) -> tuple[Arrival, ...] | None:
            if delivery and not connection.write(_DELIVERED, id=delivery, at=now):
                return None
            connection.write(_FORGET, before=now - REMEMBERED_S)
            told = [one.model_copy(update={"delivery": delivery, "seen_at": now}) for one in arrivals]
            new = tuple(one for one in told if _news(connection, one))
            if new:
                connection.announce()
            return new

        return await self._store.transaction(work) if arrivals or delivery else ()

    async def pending(self) -> tuple[Arrival, ...]:
        return tuple(_arrival(row) for row in await self._store.read(_PENDING))

    async def with_fate(self, fate: Fate, *, limit: int = 100) -> tuple[Arrival, ...]:
        return tuple(_arrival(row) for row in await self._store.read(_WITH_FATE, fate=fate, limit=limit))

    async def settle(self, arrival: Arrival, fate: Fate, *, reason: str = "") -> Arrival:
        def work(connection: Connection) -> Arrival:
            connection.write(_SETTLE, id=arrival.id, fate=fate, reason=reason)
            return _arrival(connection.read(_ONE, id=arrival.id)[0])

        return await self._store.transaction(work)

    async def tried(self, arrival: Arrival) -> int:
        def work(connection: Connection) -> int:
            connection.write(_TRIED, id=arrival.id)
            return int(connection.read(_ONE, id=arrival.id)[0]["tries"])

        return await self._store.transaction(work)

    async def cause(self, run: str) -> Arrival | None:
        rows = await self._store.read(_CAUSE, run=run)
        return _arrival(rows[0]) if rows else None

    async def unlabel(self, subject: str, *, at: float) -> None:
        await self._store.write(_UNLABEL, subject=subject, at=at)

    async def labelled_before(self, subject: str, *, at: float) -> None:
        await self._store.write(_KNOWN, subject=subject, since=at)

    async def spend_label(self, subject: str) -> None:
        await self._store.write(_SPEND, subject=subject)

    async def at_work(self, subject: str) -> str:
        rows = await self._store.read(queries.HOLDER, subject=subject)
        return str(rows[0]["run"]) if rows else ""

    async def cursor(self, name: str) -> float | None:
        rows = await self._store.read(_CURSOR, name=name)
        return float(rows[0]["instant"]) if rows else None

    async def advance(self, name: str, instant: float) -> None:
        await self._store.write(_ADVANCE, name=name, instant=instant)


def _news(connection: Connection, arrival: Arrival) -> bool:
    """Whether this is told for the first time; it is kept then."""
    if arrival.kind in ("labelled", "reopened"):
        known = connection.read(_SINCE, subject=arrival.subject)
        # Still having the label is no news; being given it once more is, and only a webhook can tell that.
        if known and (not arrival.delivery or arrival.at <= known[0]["since"]):
            return False
        # Whoever opens it again did not say that the label stands for the new text.
        if known and known[0]["spent"] and arrival.kind == "reopened":
            return False
        connection.write(_LABEL, subject=arrival.subject, since=arrival.at)
    if arrival.kind == "unlabelled":
        connection.write(_UNLABELLED, subject=arrival.subject, at=arrival.at)
    fields: dict[str, Scalar] = arrival.model_dump(exclude={"comment"})
    comment = document(arrival.comment.model_dump()) if arrival.comment else None
    return bool(connection.write(_ADD, id=arrival.id, comment=comment, **fields))


def _arrival(row: Row) -> Arrival:
    fields = {"by" if name == "by_login" else name: value for name, value in row.items()}
    return value_of(Arrival, fields, "comment")
