"""The table of explorations, beside the table of branches: what is asked of this disk lies on it."""

import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from resolvent.adapters.journal.rows import columns, value_of
from resolvent.adapters.journal.store import Connection, Row, Store
from resolvent.domain.exploration import GONE, Exploration, Refusal, Status
from resolvent.errors import NotFound, ResolventError, UsageError

_FIRST = (
    """CREATE TABLE explorations (
        place {serial},
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL UNIQUE,
        display_name TEXT NOT NULL,
        project TEXT NOT NULL,
        parent TEXT REFERENCES explorations (id),
        made_from TEXT NOT NULL,
        agent TEXT NOT NULL,
        choice TEXT NOT NULL,
        prompts TEXT NOT NULL,
        position BIGINT NOT NULL,
        status TEXT NOT NULL,
        status_text TEXT NOT NULL,
        error TEXT NOT NULL,
        snap TEXT NOT NULL,
        rescue TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL
    )""",
    "CREATE INDEX explorations_by_status ON explorations (status, place)",
    "CREATE INDEX explorations_by_parent ON explorations (parent)",
    "CREATE INDEX explorations_by_snap ON explorations (snap)",
)
_SECOND = ("ALTER TABLE explorations ADD COLUMN undeletable TEXT",)
# Fields that are no plain columns.
_DOCUMENTS = ("choice", "prompts", "undeletable")
_GONE = ", ".join(f"'{status}'" for status in GONE)
_INSERT = (
    "INSERT INTO explorations (id, name, display_name, project, parent, made_from, agent, choice, prompts, position,"
    " status, status_text, error, snap, rescue, undeletable, created_at, updated_at) VALUES (:id, :name, :display_name,"
    " :project, :parent, :commit, :agent, :choice, :prompts, :position, :status, :status_text, :error, :snap, :rescue,"
    " :undeletable, :created_at, :updated_at)"
)
_FIND = "SELECT * FROM explorations WHERE id = :named OR name = :named OR (snap = :named AND :named <> '')"
_LIST = (
    f"SELECT * FROM explorations WHERE status NOT IN ({_GONE}) AND (:project = '' OR project = :project)"
    " AND (:status = '' OR status = :status) ORDER BY place DESC LIMIT :limit"
)
# What has a job already comes first: it needs its slot back before anything new takes it. What has no branch yet waits
# until its parent's is made, and is not just being sealed; a parent that never got one is an answer too.
_DUE = (
    "SELECT one.id AS id, one.status AS status FROM explorations one LEFT JOIN explorations up ON up.id = one.parent"
    " WHERE one.status IN ('running', 'manifesting', 'deleting') OR (one.status = 'queued' AND (up.id IS NULL"
    " OR one.snap <> '' OR up.status = 'failed' OR (up.snap <> '' AND up.status <> 'manifesting')))"
    " ORDER BY one.status = 'queued', one.place"
)
_PINNED = (
    "SELECT id FROM explorations WHERE status IN ('queued', 'running', 'manifesting', 'deleting') UNION"
    " SELECT parent AS id FROM explorations WHERE parent IS NOT NULL AND status = 'queued' AND snap = ''"
)
_MOVE = (
    "UPDATE explorations SET position = :position, status = :status, status_text = :status_text, error = :error,"
    " snap = :snap, undeletable = :undeletable, updated_at = :updated_at"
    f" WHERE id = :id AND status NOT IN ({_GONE})"
)
# A child that has not begun still needs what its parent holds.
_NEEDED_BY = "SELECT name FROM explorations WHERE parent = :id AND snap = '' AND status = 'queued' LIMIT 1"
_SET_STATUS = "UPDATE explorations SET status = :status, rescue = :rescue, updated_at = :at WHERE id = :id"
_SET_GONE = f"{_SET_STATUS} AND status IN ('succeed', 'failed')"
_PROGRESS = "SELECT id, status, position, snap FROM explorations"

_ADJECTIVES = (
    "able amber brave bright brisk calm candid clever crisp curious daring eager early fair fleet fond gentle glad"
    " golden grand happy hardy honest humble jolly keen kind lively lucid lucky mellow merry modest neat nimble noble"
    " open patient placid polite proud quick quiet rapid ready royal sharp silent smart smooth snowy solid spry steady"
    " sturdy sunny swift tidy vivid warm wise witty"
)
_NOUNS = (
    "badger beaver bison bobcat buzzard caribou cheetah condor cougar coyote crane cricket dolphin eagle egret falcon"
    " ferret finch gazelle gecko gibbon heron hornet ibex iguana impala jackal jaguar kestrel kiwi koala lemur leopard"
    " lizard lynx magpie marmot marten meerkat mongoose moose newt ocelot orca osprey otter owl panda panther pelican"
    " penguin puffin quail rabbit raccoon raven robin salmon seal sparrow stork swan tapir tiger toucan turtle viper"
    " walrus weasel wombat yak zebra"
)


class Progress(NamedTuple):
    """How far an exploration is: its status, how many prompts are kept, and whether it ever had a branch."""

    status: Status
    position: int
    made: bool


class Explorations:
    """Every exploration there is or was; any number of processes may read and ask, one works."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    @classmethod
    async def open(cls, sandbox: Path, *, now: Callable[[], float] = time.time) -> "Explorations":
        """The table in the sandbox's own database, made if need be."""
        store = await Store.open(f"sqlite:///{sandbox / 'branches.db'}")
        try:
            await store.migrate("explorations", (_FIRST, _SECOND))
        except BaseException:
            await store.close()
            raise
        return cls(store, now=now)

    async def add(self, rows: Sequence[Exploration]) -> None:
        """Record new ones, all or none; UsageError when a parent is being deleted."""

        def work(connection: Connection) -> None:
            for row in rows:
                if row.parent:
                    _living(connection, row.parent)
                connection.write(_INSERT, **columns(row, *_DOCUMENTS))
            connection.announce()

        await self._store.transaction(work)

    async def find(self, named: str) -> Exploration:
        """By id, by name, or by the id of its latest snapshot; NotFound when there is none, or it was deleted."""
        found = await self.record(named)
        if found.status in GONE:
            kept = f"; its work is kept at {found.rescue}" if found.rescue else ""
            raise NotFound(f"branch {found.id} was deleted{kept}", hint="list_branches")
        return found

    async def record(self, named: str) -> Exploration:
        """As `find`, but also what was deleted."""
        rows = await self._store.read(_FIND, named=named)
        if not rows:
            raise NotFound(f"there is no branch {named[:200]!a}", hint="list_branches")
        return _exploration(rows[0])

    async def list(self, *, project: str = "", status: str = "", limit: int = 100) -> tuple[Exploration, ...]:
        """Newest first; of every project and status unless they are named."""
        rows = await self._store.read(_LIST, project=project, status=status, limit=limit)
        return tuple(_exploration(row) for row in rows)

    async def due(self) -> tuple[tuple[str, Status], ...]:
        """What a worker has to do something about, and why: those at work first, then the oldest."""
        return tuple((row["id"], row["status"]) for row in await self._store.read(_DUE))

    async def pinned(self) -> tuple[str, ...]:
        """The branches that no housekeeping may touch: somebody works in them, or is about to fork them."""
        return tuple(row["id"] for row in await self._store.read(_PINNED))

    async def note(self, row: Exploration, **changes: str | int) -> Exploration:
        """Record progress that would be found out again after a power loss; NotFound when it was deleted meanwhile."""
        changed = self._changed(row, changes)
        await self._store.ordered(lambda connection: _move(connection, changed))
        return changed

    async def keep(self, row: Exploration, **changes: str | int) -> Exploration:
        """As `note`, and on the disk before it returns."""
        changed = self._changed(row, changes)
        await self._store.transaction(lambda connection: _move(connection, changed))
        return changed

    async def ask_to_delete(self, row: Exploration) -> None:
        """Let the worker delete it; UsageError while a child that has not begun needs it."""

        def work(connection: Connection) -> None:
            _living(connection, row.id)
            if needed := connection.read(_NEEDED_BY, id=row.id):
                child = needed[0]["name"]
                raise UsageError(f"branch {row.id} is about to be forked by {child}", hint=f"wait for {child}")
            connection.write(_SET_STATUS, id=row.id, status="deleting", rescue="", at=self._now())
            connection.announce()

        await self._store.transaction(work)

    async def set_deleted(self, row: Exploration, *, rescue: str) -> None:
        """Its files are gone; the row stays, so that its children still have a parent and its rescue ref a place."""

        def work(connection: Connection) -> None:
            connection.write(_SET_STATUS, id=row.id, status="deleted", rescue=rescue, at=self._now())
            connection.announce()

        await self._store.transaction(work)

    async def set_undeletable(self, row: Exploration, *, error: ResolventError) -> None:
        """It could not be deleted and is what it was before; an agent that was stopped for it has failed."""
        refusal = Refusal(kind=type(error).__name__, message=error.message, hint=error.hint)
        changes: dict[str, Any] = {"status": "succeed", "undeletable": refusal}
        if row.position < len(row.prompts):
            changes["status"] = "failed"
            if not row.error:
                changes |= {"status_text": "stopped to be deleted, which failed", "error": error.message}
        kept = self._changed(row, changes)

        def work(connection: Connection) -> None:
            connection.write(_SET_STATUS, id=row.id, status=kept.status, rescue="", at=self._now())
            _move(connection, kept)

        await self._store.transaction(work)

    async def set_gone(self, id: str, *, rescue: str) -> None:
        """Somebody else removed the branch of an ended one: from now on it is as if it had been deleted here."""

        def work(connection: Connection) -> None:
            connection.write(_SET_GONE, id=id, status="deleted", rescue=rescue, at=self._now())
            connection.announce()

        await self._store.transaction(work)

    async def progress(self) -> dict[str, Progress]:
        """How far each of all there ever were is, by its id."""
        rows = await self._store.read(_PROGRESS)
        return {row["id"]: Progress(row["status"], row["position"], bool(row["snap"])) for row in rows}

    async def changed(self, *, since: int, timeout_s: float | None = None) -> int:
        """Wait until the count of changes is not `since`, or the time is over; returns the count."""
        return await self._store.changed(since=since, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._store.close()

    def _changed(self, row: Exploration, changes: Mapping[str, Any]) -> Exploration:
        return Exploration.model_validate(row.model_dump() | {**changes, "updated_at": self._now()})


def new_names() -> dict[str, str]:
    """The id, the name and the display name of one more exploration."""
    display = f"{secrets.choice(_ADJECTIVES.split())}-{secrets.choice(_NOUNS.split())}-{secrets.token_hex(3)[:5]}"
    return {
        "id": new_id(),
        "name": f"explore-{secrets.token_hex(4)}-{secrets.token_hex(4)}",
        "display_name": display,
    }


def new_id() -> str:
    """A UUID of version 7: the time in milliseconds, then chance."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return str(uuid.UUID(int=number))


def _living(connection: Connection, id: str) -> None:
    rows = connection.read("SELECT status FROM explorations WHERE id = :id", id=id)
    if not rows or rows[0]["status"] in GONE:
        raise NotFound(f"branch {id} was deleted", hint="list_branches")


def _move(connection: Connection, row: Exploration) -> None:
    fields = columns(row, *_DOCUMENTS)
    wanted = ("id", "position", "status", "status_text", "error", "snap", "undeletable", "updated_at")
    if not connection.write(_MOVE, **{name: fields[name] for name in wanted}):
        raise NotFound(f"branch {row.id} was deleted", hint="list_branches")
    connection.announce()


def _exploration(row: Row) -> Exploration:
    fields = {name: value for name, value in row.items() if name not in ("place", "made_from")}
    return value_of(Exploration, fields | {"commit": row["made_from"]}, *_DOCUMENTS)
