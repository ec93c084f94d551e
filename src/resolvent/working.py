"""This process as the worker of a repository: while no other is, or after the other let go."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from resolvent.adapters.journal.lock import DaemonLock
from resolvent.branching import Branching
from resolvent.engine.playing import Playbook
from resolvent.engine.worker import Worker, cancel_jobs
from resolvent.engine.world import World
from resolvent.errors import ResolventError
from resolvent.playbooks.design import design
from resolvent.playbooks.resolve import resolve
from resolvent.wiring import Home

PLAYBOOKS: dict[str, Playbook] = {"resolve": resolve, "design": design}


class Session:
    """At most one worker per store; whoever holds the lock works, everybody else follows."""

    def __init__(
        self,
        home: Home,
        *,
        adjust: Callable[[World], World] = lambda world: world,
        first: Callable[[], Awaitable[None]] | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`first` is done by whoever comes to work, before, and `beside` while they work; its failure ends that."""
        self._home = home
        self._adjust = adjust
        self._first = first
        self._beside = beside
        self._besides: list[asyncio.Future[None]] = []
        self._worker: Worker | None = None
        self._world: World | None = None

    async def follow(self, run: str) -> None:
        """Return when the run has ended or waits for a person: work on it, or follow who does and take over."""
        await self._until(lambda: self._settled(run))

    async def cancel(self, run: str) -> None:
        """End the run; return when it has ended and no process of it is left, whoever works on it."""
        await (await self._home.journal()).ask_to_cancel(run)
        await self._until(lambda: self._ended(run))

    async def serve(self, *, began: Callable[[], None]) -> None:
        """Work for ever, and say so once the store is ours; DaemonRunning when another process works."""

        async def never() -> bool:
            return False

        lock = DaemonLock(self._home.store_url)
        await lock.take()
        began()
        try:
            await self._work(never)
        finally:
            await lock.release()

    async def serve_until_idle(self) -> None:
        """Return when nothing is queued or running: work on it, or follow who does and take over.

        What is to be done first is done before that, unless somebody works already.
        """

        async def idle() -> bool:
            waits = self._first is not None and not self._worker and not await self.worker()
            return not waits and not await (await self._home.journal()).due()

        await self._until(idle)

    async def worker(self) -> int | None:
        """The process that works on this store now."""
        return await DaemonLock(self._home.store_url).holder()

    async def drain(self, *, jobs: bool = False) -> None:
        """The first signal: start nothing new; effects under way are finished, jobs go on by themselves."""
        for other in self._besides:
            other.cancel()
        if self._worker:
            await self._worker.drain(jobs=jobs)

    async def cancel_jobs(self, run: str) -> None:
        """The second signal: end the run's jobs with all their descendants."""
        world = self._world or await self._home.world()
        await cancel_jobs(world, run)

    async def _ended(self, run: str) -> bool:
        return (await (await self._home.journal()).run(run)).state == "ended"

    async def _settled(self, run: str) -> bool:
        """Ended, or waiting for a person; one that has its answer already is a worker's to take up."""
        journal = await self._home.journal()
        row = await journal.run(run)
        if row.state != "waiting":
            return row.state == "ended"
        return all(due.id != row.id for due in await journal.due())

    async def _until(self, settled: Callable[[], Awaitable[bool]]) -> None:
        lock = DaemonLock(self._home.store_url)
        try:
            while not await settled():
                if await lock.acquire():
                    await self._work(settled)
                else:
                    await self._follow_other(lock, settled)
        finally:
            await lock.release()

    async def _work(self, until: Callable[[], Awaitable[bool]]) -> None:
        self._world = self._adjust(await self._home.world())
        runs = self._home.settings.limits.runs
        self._worker = Worker(self._world, store_url=self._home.store_url, playbooks=PLAYBOOKS, runs=runs)
        await self._worker.launch()
        tidying = asyncio.ensure_future(self._tidy())
        try:
            if self._first:
                await self._first()
            await self._with_beside(self._worker.work(until=until))
        finally:
            tidying.cancel()
            await self._worker.close()

    async def _with_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Return when the work is done; when what is done beside it fails, so does the work."""
        working = asyncio.ensure_future(work)
        self._besides = [asyncio.ensure_future(self._beside())] if self._beside else []
        try:
            await asyncio.wait((working, *self._besides), return_when=asyncio.FIRST_COMPLETED)
            for other in self._besides:
                if other.done() and not other.cancelled():
                    other.result()
            await working
        finally:
            for task in (working, *self._besides):
                task.cancel()
            await asyncio.wait((working, *self._besides))

    async def _tidy(self) -> None:
        """Remove branches that are too old or too many: once we work, and whenever a run has ended."""
        journal, seen, before = await self._home.journal(), 0, {""}
        while True:
            now = {due.id for due in await journal.due()}
            if before - now:
                # What could not be removed is a nuisance and stops nobody; `branch gc` says why.
                with contextlib.suppress(ResolventError):
                    await Branching(self._home).clean()
            before = now
            seen = await journal.changed(since=seen)

    async def _follow_other(self, lock: DaemonLock, settled: Callable[[], Awaitable[bool]]) -> None:
        """Until the run is settled, or the other worker is gone."""
        journal, seen = await self._home.journal(), 0
        taken = asyncio.ensure_future(lock.wait())
        try:
            while not taken.done() and not await settled():
                changed = asyncio.ensure_future(journal.changed(since=seen))
                await asyncio.wait((taken, changed), return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    seen = changed.result()
                changed.cancel()
        finally:
            taken.cancel()
