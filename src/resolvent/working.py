"""This process as the worker of a repository: while no other is, or after the other let go."""

import asyncio
from collections.abc import Awaitable, Callable

from resolvent.adapters.journal.lock import DaemonLock
from resolvent.engine.worker import Playbook, Worker, cancel_jobs
from resolvent.engine.world import World
from resolvent.playbooks.resolve import resolve
from resolvent.wiring import Home

PLAYBOOKS: dict[str, Playbook] = {"resolve": resolve}


class Session:
    """At most one worker per store; whoever holds the lock works, everybody else follows."""

    def __init__(self, home: Home, *, adjust: Callable[[World], World] = lambda world: world) -> None:
        self._home = home
        self._adjust = adjust
        self._worker: Worker | None = None
        self._world: World | None = None

    async def follow(self, run: str) -> None:
        """Return when the run has ended or waits for a person: work on it, or follow who does and take over."""

        async def settled() -> bool:
            return (await (await self._home.journal()).run(run)).state in ("ended", "waiting")

        lock = DaemonLock(self._home.store_url)
        try:
            while not await settled():
                if await lock.acquire():
                    await self._work(settled)
                else:
                    await self._follow_other(lock, settled)
        finally:
            await lock.release()

    async def serve(self, *, until_idle: bool = False) -> None:
        """Work until nothing is left, or for ever; DaemonRunning when another process does."""

        async def finished() -> bool:
            return until_idle and self._worker is not None and await self._worker.idle()

        lock = DaemonLock(self._home.store_url)
        await lock.take()
        try:
            await self._work(finished)
        finally:
            await lock.release()

    async def drain(self, *, jobs: bool = False) -> None:
        """The first signal: start nothing new; effects under way are finished, jobs go on by themselves."""
        if self._worker:
            await self._worker.drain(jobs=jobs)

    async def cancel_jobs(self, run: str) -> None:
        """The second signal: end the run's jobs with all their descendants."""
        world = self._world or await self._home.world()
        await cancel_jobs(world, run)

    async def _work(self, until: Callable[[], Awaitable[bool]]) -> None:
        self._world = self._adjust(await self._home.world())
        runs = self._home.settings.limits.runs
        self._worker = Worker(self._world, store_url=self._home.store_url, playbooks=PLAYBOOKS, runs=runs)
        await self._worker.launch()
        try:
            await self._worker.work(until=until)
        finally:
            await self._worker.close()

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
