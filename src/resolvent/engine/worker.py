"""The worker: the one process that executes. It plays queued runs, takes up interrupted ones, and cancels."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from resolvent.domain.record import Due, RunRow
from resolvent.engine.durable import Durable, Result
from resolvent.engine.perform import give_up, perform
from resolvent.engine.playing import Play, Playbook, Waiting, end, parked
from resolvent.engine.settling import settle_jobs
from resolvent.engine.stopping import called_off, release
from resolvent.engine.world import World
from resolvent.errors import Bug, StoreBusy

LOOK_AGAIN_S = 0.2


class Worker:
    """Executes runs until it is told to stop. The caller holds the daemon lock."""

    def __init__(self, world: World, *, store_url: str, playbooks: Mapping[str, Playbook], runs: int = 4) -> None:
        self._world = world
        self._playbooks = playbooks
        self._durable = Durable(store_url, perform=self._perform, play=self._play)
        self._slots = asyncio.Semaphore(runs)
        self._started: dict[str, asyncio.Task[None]] = {}
        self._plays: dict[str, Play] = {}
        self._cancels: dict[str, asyncio.Task[None]] = {}
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def launch(self) -> None:
        """Open the store; whatever a dead process left running is taken up again by itself."""
        await self._durable.launch()

    async def work(self, *, until: Callable[[], Awaitable[bool]]) -> None:
        """Play what is queued and cancel what should be, until the condition holds; StoreBusy if the store broke."""
        # What a process left that died between the end of a run and this.
        await self._release()
        seen = 0
        while not await until():
            for due in await self._world.journal.due():
                await self._take_up(due)
            changed = asyncio.ensure_future(self._world.journal.changed(since=seen))
            await asyncio.wait((changed, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                changed.cancel()
                self._broken.result()
            seen = changed.result()

    async def drain(self, *, jobs: bool) -> None:
        """Start nothing new, and return when the effects under way are done; with jobs, when those have ended too."""
        self._world.draining.set()
        slots = self._world.slots
        while waited := slots.inside() if jobs else slots.inside("effects"):
            await asyncio.wait(waited)

    async def close(self) -> None:
        """Let go. What still runs is taken up by the next worker."""
        if not self._broken.done():
            await self.drain(jobs=False)
            # Whose end may be on the record already: the library is about to write that too.
            settling = [id for id, play in self._plays.items() if play.settling]
            await asyncio.gather(*(task for id, task in self._started.items() if id in settling))
            await asyncio.gather(*self._cancels.values())
        for task in (*self._started.values(), *self._cancels.values()):
            task.cancel()
        await self._durable.close()

    async def _take_up(self, due: Due) -> None:
        id = f"{due.id}~{due.plays}"
        if due.cancelling:
            # A run that was tried again may be called off again, one after the other.
            begun = [task for other, task in self._cancels.items() if other.rpartition("~")[0] == due.id]
            if id not in self._cancels and all(task.done() for task in begun):
                self._cancels[id] = self._watched(self._cancel(await self._world.journal.run(due.id)))
        elif due.state == "waiting":
            # Its question was answered while the run was on its way to waiting, or by a process that died then.
            await self._world.journal.reopen(due.id, subjects=())
        elif id not in self._started:
            self._started[id] = self._watched(self._start(id))

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose failure ends the worker instead of going unseen."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error and not self._broken.done():
            self._broken.set_exception(error)

    async def _start(self, id: str) -> None:
        async with self._slots:
            await self._durable.play(id)

    async def _perform(self, request: dict[str, Any]) -> Result:
        """A verb's work for the library."""
        return await self._guarded(
            perform(self._world, request), otherwise=lambda error: give_up(self._world, request, _bug(error))
        )

    async def _play(self, id: str) -> Result:
        """A play for the library: `run~n`."""
        return await self._guarded(self._played(id), otherwise=lambda error: self._stumbled(id, error))

    async def _played(self, id: str) -> Result:
        run, _, number = id.rpartition("~")
        row = await self._world.journal.run(run)
        if row.state == "ended" or row.cancelling or row.plays != int(number):
            return {"state": "superseded"}
        play = self._plays[id] = Play(row, world=self._world, durable=self._durable)
        played = await play.to_an_end(self._playbooks)
        await self._release()
        return played

    async def _stumbled(self, id: str, error: BaseException) -> Result:
        """A play that broke in a way nobody thought of waits for a person."""
        row = await self._world.journal.run(id.rpartition("~")[0])
        ending = await parked(self._world, row, _bug(error))
        if isinstance(ending, Waiting):
            await self._world.journal.set_state(row.id, "waiting", reason=ending.reason)
        else:
            await end(self._world, row, ending)
            await self._release()
        return {"state": "parked"}

    async def _release(self) -> None:
        """What runs that are over had claimed on the forge is free again."""
        await release(self._world.journal, self._world.forge, self._world.boundary)

    async def _guarded(
        self, work: Coroutine[Any, Any, Result], *, otherwise: Callable[[BaseException], Coroutine[Any, Any, Result]]
    ) -> Result:
        """Nothing is ever raised into the library: it would return the same error for ever, as another class."""
        task = asyncio.ensure_future(work)
        await asyncio.wait((task,))
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            return task.result()
        if isinstance(error, StoreBusy):
            return await self._break(error)
        return await self._guarded(otherwise(error), otherwise=self._break)

    async def _break(self, error: BaseException) -> Result:
        """The record cannot be kept, so nothing may be said to have happened: stop here, for ever, and be restarted."""
        if not self._broken.done():
            self._broken.set_exception(error)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing completes this future")

    async def _cancel(self, row: RunRow) -> None:
        """Refuse new verbs, end every job with its descendants, wait for effects under way, then say so."""
        slots, play = self._world.slots, self._plays.get(f"{row.id}~{row.plays}")
        slots.called_off.add(row.id)
        if play:
            play.call_off()
        # A verb that has its slot may start a job just after we looked: look until none is inside.
        while True:
            await cancel_jobs(self._world, row.id)
            inside = slots.inside(run=row.id)
            if not inside:
                break
            await asyncio.wait(inside, timeout=LOOK_AGAIN_S)
        await settle_jobs(self._world, row)
        if play and not play.settling:
            play.stop()
            return
        if play and (begun := self._started.get(f"{row.id}~{row.plays}")):
            # It is about to say how it ended, or what it waits for.
            await asyncio.wait((begun,))
        if (await self._world.journal.run(row.id)).state != "ended":
            ending = await called_off(self._world, row.id)
            if ending is None:
                return
            await end(self._world, row, ending)
            await self._release()


def _bug(error: BaseException) -> Bug:
    """Something nobody thought of, as an error of ours that keeps its trace."""
    if isinstance(error, Bug):
        return error
    return Bug(f"{type(error).__name__}: {error}", trace="".join(traceback.format_exception(error))[-4000:])


async def cancel_jobs(world: World, run: str) -> None:
    """End every job of the run; return when no descendant is left."""
    running = [job.id for job in await world.journal.jobs(run) if world.jobs.running(job.id)]
    await asyncio.gather(*(world.jobs.cancel(job) for job in running))
