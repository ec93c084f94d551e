"""Housekeeping: branches that are too old or too many, and layers that nobody stands on any more.

All of it may happen while other processes make branches. A layer of a branch is made in the transaction that names it,
and one of the base stays for a while after somebody asked for it: nothing is taken from under a branch being made.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from resolvent.adapters.workspace.branch_rows import Standing
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.grounds import is_base
from resolvent.adapters.workspace.layer_store import measure
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.errors import ResolventError

# How long a laid out commit stays that no branch stands on; and for how long when room is needed.
BASES_S, HASTY_S = 86400.0, 3600.0


@dataclass
class Tidied:
    """What was removed, what of it was kept under a ref, what could not be removed and why, and what that freed."""

    removed: list[str] = field(default_factory=list)
    rescued: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    freed: int = 0
    # Bytes above the quota about which nothing could be done.
    over: int = 0


class Housekeeping:
    """Keeps one sandbox within its age and its size."""

    def __init__(self, workspace: OverlayWorkspace) -> None:
        self._workspace = workspace
        self._store = workspace.store

    async def tidy(self, *, keep: float | None, quota: int | None, pins: Collection[str] = ()) -> Tidied:
        """Remove branches nobody used for `keep` seconds, then the oldest ones while all take more than `quota` bytes.

        Never one that a job runs in or that is pinned; work in them that nobody published is kept under a ref first.
        """
        done = Tidied()
        if keep is not None:
            limit = time.time() - keep
            await self._remove((here for here in await self._unneeded(pins) if here.updated_at < limit), done)
        await self._collect(done, bases_s=BASES_S)
        if quota is not None and sum((await self._sizes()).values()) > quota:
            await self._collect(done, bases_s=HASTY_S)
            await self._shrink(done, quota=quota, pins=pins)
            await self._collect(done, bases_s=HASTY_S)
            done.over = max(0, sum((await self._sizes()).values()) - quota)
        return done

    async def _shrink(self, done: Tidied, *, quota: int, pins: Collection[str]) -> None:
        """Remove the oldest branches until the rest fits; where one cannot be kept, and so stays, others go instead."""
        surplus = None
        while surplus is None or any(here.branch.id in done.refused for here in surplus):
            oldest = [here for here in await self._unneeded(pins) if here.branch.id not in done.refused]
            surplus = _surplus(await self._store.all(), oldest, await self._sizes(), quota=quota)
            await self._remove(surplus, done)

    async def collect(self) -> Tidied:
        """Remove every layer that no branch stands on, and whatever a crash has left."""
        done = Tidied()
        await self._collect(done, bases_s=BASES_S)
        return done

    async def _collect(self, done: Tidied, *, bases_s: float) -> None:
        named, unnamed = await self._store.unused.find()
        forgotten = await self._workspace.bases.forget(named, before=time.time() - bases_s)
        doomed = [*(name for name in sorted(unnamed) if not is_base(name)), *forgotten]
        sizes = await self._measured(doomed, await self._store.unused.sizes())
        removed = await self._store.unused.remove(doomed)
        await self._sweep()
        done.layers += removed
        done.freed += sum(sizes[name] for name in removed)

    async def _sweep(self) -> None:
        """Remove what dead processes had begun, and notes on branches that are gone."""
        leftovers = self._workspace.leftovers
        with translated():
            noted = await asyncio.to_thread(leftovers.names)
            branches = [here.branch.id for here in await self._store.all()]
            await asyncio.to_thread(leftovers.sweep, noted, branches=branches)
            await asyncio.to_thread(self._store.layers.sweep)

    async def _unneeded(self, pins: Collection[str]) -> list[Standing]:
        """The branches that may go, the one that was used least recently first."""
        every = [here for here in await self._store.all() if here.branch.id not in pins]
        free = await asyncio.to_thread(lambda: [here for here in every if not self._store.occupied(here)])
        return sorted(free, key=lambda here: here.updated_at)

    async def _remove(self, branches: Iterable[Standing], done: Tidied) -> None:
        sizes = await self._store.unused.sizes()
        for here in branches:
            id, own = here.branch.id, [name for name in here.shown if not is_base(name)]
            sizes |= await self._measured(own, sizes)
            try:
                ref = await self._workspace.delete(id, seen=here)
            except ResolventError as error:
                # One that cannot be kept is not thrown away; neither is one that somebody uses again.
                done.refused[id] = error.message
                continue
            done.removed.append(id)
            if ref is not None:
                done.rescued[id] = ref
            gone = [name for name in own if not self._store.layers.holds(name)]
            done.layers += gone
            done.freed += sum(sizes[name] for name in gone)

    async def _sizes(self) -> dict[str, int]:
        """What every layer takes on the disk; measured once for those that do not change any more."""
        # A layer that somebody made since is in nobody's stack here: it may be written to.
        sealed = {name for here in await self._store.all() for name in here.lowers}
        known = await self._store.unused.sizes()
        sizes = await self._measured(self._store.layers.names(), known)
        lasting = (name for name in sizes.keys() - known.keys() if name in sealed or is_base(name))
        await self._store.unused.measured({name: sizes[name] for name in lasting})
        return sizes

    async def _measured(self, names: Sequence[str], known: Mapping[str, int]) -> dict[str, int]:
        def work() -> dict[str, int]:
            return {name: known[name] if name in known else measure(self._store.layers.path / name) for name in names}

        with translated():
            return await asyncio.to_thread(work)


def _surplus(
    every: Sequence[Standing], oldest: Sequence[Standing], sizes: Mapping[str, int], *, quota: int
) -> list[Standing]:
    """The first of these whose removal leaves no more than the quota, without those that take nothing with them."""
    uses = Counter(name for here in every for name in here.shown)
    total = sum(sizes.values())
    leaving = []
    for here in oldest:
        if total <= quota:
            break
        leaving.append(here)
        uses.subtract(here.shown)
        total -= sum(sizes.get(name, 0) for name in here.shown if uses[name] == 0 and not is_base(name))
    return [here for here in leaving if any(uses[name] == 0 and not is_base(name) for name in here.shown)]
