"""The record of which branches lie on this disk: one row each, and one commit for whatever happens to one.

A layer that is a branch's own is made while the write lock is held, in the transaction that names it: without a row it
was left by a crash or a removal. Layers of the base are made before any row names them, and stay a while without one.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from resolvent.adapters.journal.store import Store
from resolvent.adapters.workspace.boots import lost, this_boot
from resolvent.adapters.workspace.branch_rows import FIND, LIST, SCHEMA, Rows, Standing, in_rows, missing, standing
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.layer_store import LayerStore
from resolvent.adapters.workspace.unused import UnusedLayers
from resolvent.domain.job import Branch
from resolvent.errors import BranchBusy, StoreBusy

T = TypeVar("T")


class BranchStore:
    """The branches of one sandbox. Any number of processes may hold the same one."""

    def __init__(self, store: Store, layers: LayerStore, *, running: Callable[[str], bool], boot: str = "") -> None:
        self.layers = layers
        self.unused = UnusedLayers(store, layers)
        self._store = store
        self._running = running
        self._boot = boot
        self._waiting: Store | None = None
        self._opening = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        sandbox: Path,
        *,
        running: Callable[[str], bool],
        owner: int | None = None,
        boot: Callable[[], str] = this_boot,
    ) -> "BranchStore":
        """The store below `sandbox`, made if it is not there; `running` tells whether a job runs right now."""
        with translated():
            layers = await asyncio.to_thread(LayerStore, sandbox, owner=owner)
        try:
            store = await Store.open(f"sqlite:///{layers.sandbox}/branches.db")
            await store.migrate("branches", SCHEMA)
        except BaseException:
            layers.close()
            raise
        return cls(store, layers, running=running, boot=boot())

    async def close(self) -> None:
        """Finish what was begun and let go."""
        for store in (self._store, self._waiting):
            if store:
                await store.close()
        self.layers.close()

    async def create(self, branch: Branch, *, lowers: Sequence[str]) -> Standing:
        """A branch over these sealed layers; asked again, the one that is there. ReplayDiverged if it is of another."""
        return await self._ordered(lambda rows: rows.known(branch) or self._add(rows, branch, tuple(lowers)))

    async def fork(
        self, branch: Branch, *, below: Callable[[tuple[str, ...]], tuple[str, ...] | None]
    ) -> Standing | None:
        """A child of what its parent last sealed, which is sealed now unless a job runs in it; None without a parent.

        `below` makes the child's layers out of the parent's; None when it cannot, and then nothing is made. JobLost
        when what the parent holds may be torn.
        """

        def work(rows: Rows) -> Standing | None:
            if there := rows.known(branch):
                return there
            parent = None if branch.parent is None else rows.find(branch.parent)
            if parent is None:
                return None
            ground = self._seal(rows, self.whole(parent)) or parent
            lowers = below(ground.lowers)
            return None if lowers is None else self._add(rows, branch, lowers, sealed_in=ground.sealed_in)

        return await self._ordered(work)

    async def get(self, id: str) -> Standing | None:
        """The branch, or None."""
        found = await self._store.read(FIND, id=id)
        return standing(found[0]) if found else None

    async def require(self, id: str) -> Standing:
        """The branch; NotFound when there is none."""
        here = await self.get(id)
        if here is None:
            raise missing(id)
        return here

    async def all(self) -> tuple[Standing, ...]:
        """Every branch, oldest first."""
        return tuple(standing(row) for row in await self._store.read(LIST))

    async def take(self, id: str, *, job: str) -> Standing:
        """Let a job in, with an upper to write to; BranchBusy while another job runs there.

        Asking again for the same job is fine, unless the machine went down since: JobLost.
        """

        def work(rows: Rows) -> Standing:
            here = rows.require(id)
            if not self._in_use(here):
                return self._open(rows, here._replace(job=job))
            if here.job != job:
                raise self.busy(here)
            return here

        # On the disk before the job begins: its end will be, and must not stand beside a branch it never was in.
        return await self._durable(work)

    async def lay(self, id: str, digest: str, *, write: Callable[[Standing], None]) -> None:
        """Let `write` put files into the upper, once for every digest; BranchBusy while a job runs there."""

        def prepare(rows: Rows) -> bool:
            here = rows.require(id)
            return digest not in here.laid and bool(self._open(rows, self._idle(here)))

        def work(rows: Rows) -> None:
            # Nobody seals or takes it meanwhile, but somebody may have done so just before.
            here = self._open(rows, self._idle(rows.require(id)))
            if digest not in here.laid:
                write(here)
                rows.save(here._replace(laid=(*here.laid, digest)))

        # By two commits: an upper that was half written when something went wrong is one that has a name.
        if await self._ordered(prepare):
            await self._ordered(work)

    async def seal(self, id: str, *, torn: bool = False) -> Standing:
        """No later job changes what is in the branch now; BranchBusy while one runs.

        JobLost when what it holds may be torn, unless that will do: then it stays known as torn.
        """

        def work(rows: Rows) -> Standing:
            here = rows.require(id)
            sealed = self._seal(rows, here if torn else self.whole(here))
            if sealed is None:
                raise self.busy(here)
            return sealed

        return await self._ordered(work)

    async def snapshot(self, id: str) -> Standing:
        """As `seal`, and no power loss takes it either."""

        def closed(rows: Rows) -> Standing:
            here = self.whole(rows.require(id))
            if not self._closed(here):
                raise self.busy(here)
            return here

        def synced(seen: Standing) -> None:
            if seen.upper or seen.sealed_in:
                with translated():
                    self.layers.sync()

        def kept(rows: Rows, seen: Standing) -> Standing | None:
            # Somebody was let in meanwhile, or sealed it: then what is in it now may not be on the disk yet.
            if rows.find(id) != seen:
                return None
            if not seen.upper and not seen.sealed_in:
                # All that it stands on is on the disk; that there is such a branch may not be.
                rows.barrier()
                return seen
            return rows.save(self._sealed(seen)._replace(sealed_in=""))

        first, second = in_rows(closed), lambda connection, seen: kept(Rows(connection), seen)
        while True:
            store = await self._waiting_store()
            if sealed := await store.around(synced, first, second):
                return sealed

    async def _waiting_store(self) -> Store:
        """A connection of its own for who waits for the disk: nobody else shall wait in the same queue."""
        async with self._opening:
            self._waiting = self._waiting or await Store.open(self._store.url)
        return self._waiting

    async def flatten(self, seen: Standing, *, made: Path, below: Sequence[str]) -> Standing | None:
        """Put a sealed branch on one new layer, which shows what all its own did; None if it has moved on."""

        def work(rows: Rows) -> Standing | None:
            here = rows.find(seen.branch.id)
            if here is None or here.shown != seen.shown:
                return None
            return rows.save(here._replace(lowers=(self.layers.adopt(made), *below)))

        return await self._ordered(work)

    async def became(self, id: str, commit: str) -> None:
        """Remember the commit that the branch was exported as; it may be gone by now."""

        def work(rows: Rows) -> None:
            here = rows.find(id)
            if here is not None and here.became != commit:
                rows.save(here._replace(became=commit))

        await self._ordered(work)

    async def delete(self, *ids: str, seen: Standing | None = None) -> tuple[Standing, ...]:
        """Forget branches, all or none, and remove what only they could write; those that were there.

        BranchBusy while a job runs in one, or when one holds something else than what was `seen`. Sealed layers stay
        for the collection, which looks once for all of them who else stands on them.
        """

        def work(rows: Rows) -> tuple[Standing, ...]:
            gone = tuple(here for id in dict.fromkeys(ids) if (here := rows.find(id)))
            for here in gone:
                if self._in_use(here) or (seen is not None and not here.holds_as(seen)):
                    raise self.busy(here)
                rows.remove(here.branch.id)
            return gone

        gone = await self._ordered(work)
        if uppers := [here.upper for here in gone if here.upper]:
            # On the disk before the files go: a row that a power loss brought back would stand on nothing.
            await self._durable(lambda rows: rows.barrier())
            with translated():
                await asyncio.to_thread(self.layers.discard, *uppers)
        return gone

    def whole(self, here: Standing) -> Standing:
        """The branch; JobLost when what it holds may be torn, because the machine went down before it was sealed."""
        if here.torn(self._boot):
            raise lost(here.branch.id)
        return here

    def busy(self, here: Standing) -> BranchBusy:
        """The error for somebody who cannot have the branch now."""
        return here.busy(running=self.occupied(here))

    def occupied(self, here: Standing) -> bool:
        """A job runs in it right now."""
        return bool(here.job) and self._running(here.job)

    def _in_use(self, here: Standing) -> bool:
        """As `occupied`, or another job than the one that was let in last was quicker: its supervisor has the layer."""
        return self.occupied(here) or (bool(here.upper) and self.layers.held(here.upper))

    def _idle(self, here: Standing) -> Standing:
        if self._in_use(here):
            raise self.busy(here)
        return here

    def _add(self, rows: Rows, branch: Branch, lowers: tuple[str, ...], *, sealed_in: str = "") -> Standing:
        # The base belongs to no branch before this moment; what others stand on cannot go while we hold the lock.
        gone = [name for name in lowers if "-" in name and not self.layers.holds(name)]
        if gone:
            raise StoreBusy(f"layers for branch {branch.id!a} were removed while it was made: {gone}")
        return rows.add(branch, lowers=lowers, sealed_in=sealed_in)

    def _open(self, rows: Rows, here: Standing) -> Standing:
        """Let somebody write."""
        if self.whole(here).upper:
            self.layers.reopen(here.upper)
        # Made for who writes, not for who only branches: a directory is dearer than a row.
        return rows.save(here._replace(upper=here.upper or self.layers.make(), written_in=self._boot))

    def _seal(self, rows: Rows, here: Standing) -> Standing | None:
        """Nothing writes to its upper any more; None when a job does."""
        if not here.upper:
            return here
        return rows.save(self._sealed(here)) if self._closed(here) else None

    def _closed(self, here: Standing) -> bool:
        """No overlay can be told to write to its upper any more; False when a job does."""
        if not here.upper:
            return True
        if self._in_use(here):
            return False
        self.layers.seal(here.upper)
        # Asked again: one that came before the seal would not notice it, and one that comes later cannot start.
        if self._in_use(here):
            self.layers.reopen(here.upper)
            return False
        return True

    def _sealed(self, here: Standing) -> Standing:
        # The machine may have gone down before there was a directory on the disk at all.
        gone = here.torn(self._boot) and not self.layers.holds(here.upper)
        lowers = here.lowers if gone else here.shown
        return here._replace(upper="", lowers=lowers, written_in="", sealed_in=here.written_in or here.sealed_in)

    async def _ordered(self, work: Callable[[Rows], T]) -> T:
        return await self._store.ordered(in_rows(work))

    async def _durable(self, work: Callable[[Rows], T]) -> T:
        return await self._store.transaction(in_rows(work))
