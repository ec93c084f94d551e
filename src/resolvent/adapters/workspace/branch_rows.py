"""A branch as the record of this disk has it: the tables, and their rows as values."""

import time
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import NamedTuple, TypeVar

from resolvent.adapters.journal.store import Connection, Row
from resolvent.adapters.workspace.files import translated
from resolvent.domain.job import Branch
from resolvent.errors import BranchBusy, NotFound, ReplayDiverged

T = TypeVar("T")

SCHEMA = [
    [
        "CREATE TABLE branches (number {serial}, id TEXT NOT NULL UNIQUE, parent TEXT, made_of TEXT NOT NULL,"
        " upper TEXT NOT NULL, lowers TEXT NOT NULL, job TEXT NOT NULL, laid TEXT NOT NULL, became TEXT NOT NULL,"
        " created_at DOUBLE PRECISION NOT NULL, updated_at DOUBLE PRECISION NOT NULL)",
        "CREATE TABLE layer_sizes (layer TEXT PRIMARY KEY, bytes BIGINT NOT NULL)",
    ],
    [
        "ALTER TABLE branches ADD COLUMN written_in TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE branches ADD COLUMN sealed_in TEXT NOT NULL DEFAULT ''",
    ],
]

FIND = "SELECT * FROM branches WHERE id = :id"
LIST = "SELECT * FROM branches ORDER BY number"
_STACKS = "SELECT upper, lowers FROM branches"
_NAMES = "SELECT 1 AS yes FROM branches WHERE upper = :layer OR instr(lowers, :layer) > 0 LIMIT 1"
_INSERT = (
    "INSERT INTO branches (id, parent, made_of, upper, lowers, job, laid, became, created_at, updated_at, sealed_in)"
    " VALUES (:id, :parent, :made_of, '', :lowers, '', '', '', :now, :now, :sealed_in)"
)
_UPDATE = (
    "UPDATE branches SET upper = :upper, lowers = :lowers, job = :job, laid = :laid, became = :became,"
    " written_in = :written_in, sealed_in = :sealed_in, updated_at = :now WHERE id = :id"
)
_DELETE = "DELETE FROM branches WHERE id = :id"
SIZES = "SELECT layer, bytes FROM layer_sizes"
_SIZE = (
    "INSERT INTO layer_sizes (layer, bytes) VALUES (:layer, :bytes)"
    " ON CONFLICT (layer) DO UPDATE SET bytes = excluded.bytes"
)
_UNSIZE = "DELETE FROM layer_sizes WHERE layer = :layer"


# As many are looked for one by one, in the database; for more the rows are read.
_FEW = 4


class Standing(NamedTuple):
    """A branch as it stands on this disk."""

    branch: Branch
    # The one layer that may be written to; none until somebody has something to write.
    upper: str
    # What is sealed, the topmost first.
    lowers: tuple[str, ...]
    # The job that was let in last: it occupies the branch for as long as it runs.
    job: str
    # What was laid over it, by digest, and the commit that its last export made.
    laid: tuple[str, ...]
    became: str
    created_at: float
    updated_at: float
    # The boots of the machine in which the upper, and what is sealed, were written to; empty once that is on the disk.
    written_in: str = ""
    sealed_in: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """Every layer that something may be in, the topmost first."""
        return (self.upper, *self.lowers) if self.upper else self.lowers

    def holds_as(self, other: "Standing") -> bool:
        """Nobody was let in between the two, and neither was it removed and made anew."""
        mine, theirs = ((one.shown, one.job, one.laid, one.created_at) for one in (self, other))
        return mine == theirs

    def busy(self, *, running: bool) -> BranchBusy:
        """The error for somebody who cannot have it now; `running` tells whether that is because of its job."""
        if running:
            hint = f"resolvent branch stop {quote(self.branch.id)}"
            return BranchBusy(f"job {self.job} runs in branch {self.branch.id!a}", hint=hint)
        return BranchBusy(f"somebody else uses branch {self.branch.id!a} at this moment", hint="resolvent branch ls")

    def torn(self, boot: str) -> bool:
        """The machine went down before what was written was on its disk; none can tell where no boot has a name."""
        return bool(boot) and bool({self.written_in, self.sealed_in} - {"", boot})


class Rows:
    """The branches inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, id: str) -> Standing | None:
        """The branch, or None."""
        rows = self._connection.read(FIND, id=id)
        return standing(rows[0]) if rows else None

    def require(self, id: str) -> Standing:
        """The branch; NotFound when there is none."""
        here = self.find(id)
        if here is None:
            raise missing(id)
        return here

    def known(self, branch: Branch) -> Standing | None:
        """The branch, or None; ReplayDiverged when the one of that id is of another commit or parent."""
        there = self.find(branch.id)
        if there is not None and there.branch != branch:
            made = there.branch
            raise ReplayDiverged(
                f"branch {branch.id!a} was made of {made.commit[:10]} and {made.parent!a},"
                f" not of {branch.commit[:10]} and {branch.parent!a}"
            )
        return there

    def named(self) -> frozenset[str]:
        """Every layer that some branch names."""
        rows = self._connection.read(_STACKS)
        return frozenset(name for row in rows for name in (row["upper"], *row["lowers"].split()) if name)

    def unnamed(self, layers: Sequence[str]) -> list[str]:
        """Those of the layers that no branch names."""
        if len(layers) <= _FEW:
            return [layer for layer in layers if not self._connection.read(_NAMES, layer=layer)]
        named = self.named()
        return [layer for layer in layers if layer not in named]

    def add(self, branch: Branch, *, lowers: tuple[str, ...], sealed_in: str = "") -> Standing:
        """A new branch, that holds what these layers hold."""
        now = time.time()
        about = {"id": branch.id, "parent": branch.parent, "made_of": branch.commit}
        self._connection.write(_INSERT, **about, lowers=" ".join(lowers), now=now, sealed_in=sealed_in)
        return Standing(branch, "", lowers, "", (), "", now, now, sealed_in=sealed_in)

    def save(self, here: Standing) -> Standing:
        """Write down what changed."""
        here = here._replace(updated_at=time.time())
        stack = {"upper": here.upper, "lowers": " ".join(here.lowers), "job": here.job}
        kept = {"laid": " ".join(here.laid), "became": here.became}
        kept |= {"written_in": here.written_in, "sealed_in": here.sealed_in}
        self._connection.write(_UPDATE, id=here.branch.id, now=here.updated_at, **stack, **kept)
        return here

    def remove(self, id: str) -> None:
        """Forget it."""
        self._connection.write(_DELETE, id=id)

    def resize(self, sizes: Mapping[str, int | None]) -> None:
        """Remember what layers take; None forgets one."""
        for layer, size in sizes.items():
            if size is None:
                self._connection.write(_UNSIZE, layer=layer)
            else:
                self._connection.write(_SIZE, layer=layer, bytes=size)

    def barrier(self) -> None:
        """Write something, so that a durable commit of this transaction waits for all that was committed before."""
        self._connection.announce()


def in_rows(work: Callable[[Rows], T]) -> Callable[[Connection], T]:
    """The work as a store takes it; a failing disk says who must act."""

    def working(connection: Connection) -> T:
        with translated():
            return work(Rows(connection))

    return working


def standing(row: Row) -> Standing:
    """The row as a value."""
    branch = Branch(id=row["id"], parent=row["parent"], commit=row["made_of"])
    stack = (row["upper"], tuple(row["lowers"].split()), row["job"])
    when = (row["created_at"], row["updated_at"], row["written_in"], row["sealed_in"])
    return Standing(branch, *stack, tuple(row["laid"].split()), row["became"], *when)


def missing(id: str) -> NotFound:
    """The error for a branch that is not there."""
    return NotFound(f"there is no branch {id!a}", hint="resolvent branch ls")
