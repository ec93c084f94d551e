"""The worker of the branch server: takes each exploration through its prompts, whoever started it and whoever died."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from resolvent.adapters.workspace.explorations import new_id
from resolvent.adapters.workspace.files import translated
from resolvent.domain.exploration import Exploration, Status
from resolvent.domain.job import Job, JobExit, Task
from resolvent.errors import (
    AgentBusy,
    BranchBusy,
    Bug,
    MalformedAnswer,
    NotFound,
    ResolventError,
    StepFailed,
    Unavailable,
    UsageError,
)
from resolvent.exploring_ground import Ground, branch_of, error_of, require_files, rescued
from resolvent.ports import Agent

SHOWN_ERROR = 300
LATE_TRIES = 3
# Branches made at once: where they are copies, each takes a thread for as long as the tree is big.
MAKING = 4


class ExplorationWorker:
    """Works on every exploration that is due. The caller holds the lock, so that there is one of it."""

    def __init__(self, ground: Ground, *, agents: int) -> None:
        self._ground = ground
        self._slots = asyncio.Semaphore(agents)
        self._going: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._making = asyncio.Semaphore(MAKING)
        # Each is there for as long as somebody holds it or waits for it.
        self._quiet: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: dict[str, asyncio.Task[Any]] = {}
        self._running: dict[str, str] = {}
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(self) -> None:
        """Work until cancelled, which stops no agent: the next worker attaches to them. StoreBusy if that broke."""
        seen = await self._ground.table.changed(since=-1)
        try:
            while True:
                for id, status in await self._ground.table.due():
                    self._take_up(id, status)
                seen = await self._news(seen)
        finally:
            left = (*self._going.values(), *self._deleting.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _news(self, seen: int) -> int:
        changed = asyncio.ensure_future(self._ground.table.changed(since=seen))
        try:
            await asyncio.wait((changed, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
            return changed.result()
        finally:
            changed.cancel()

    def _take_up(self, id: str, status: Status) -> None:
        if status == "deleting":
            if id not in self._deleting:
                self._watch(self._deleting, id, self._delete(id))
        elif id not in self._going:
            self._watch(self._going, id, self._go(id))

    def _watch(self, tasks: dict[str, asyncio.Task[None]], id: str, work: Coroutine[Any, Any, None]) -> None:
        """A task whose failure ends the worker instead of going unseen."""

        def look(task: asyncio.Task[None]) -> None:
            del tasks[id]
            error = None if task.cancelled() else task.exception()
            if error and not self._broken.done():
                self._broken.set_exception(error)

        tasks[id] = asyncio.create_task(work)
        tasks[id].add_done_callback(look)

    async def _go(self, id: str) -> None:
        """Take it to its end; whatever goes wrong on the way is its end, and no other exploration's."""
        error = await error_of(self._patiently(await self._ground.table.record(id)))
        if error is not None:
            # Deleted meanwhile: then nobody asks any more.
            with suppress(NotFound):
                await self._fail(await self._ground.table.find(id), error)

    async def _patiently(self, row: Exploration) -> None:
        """Go on where it was when a world that may heal has failed us, with growing pauses; the last refusal counts."""
        for delay in (*self._ground.patience.delays(), None):
            try:
                return await self._steps(row)
            except AgentBusy:
                # The agent has ended, and what it printed is the answer.
                raise
            except Unavailable as error:
                if delay is None:
                    raise
                # The table may be what is away.
                with suppress(Unavailable):
                    await self._ground.table.note(row, status_text=f"tried again in {delay:.0f} s: {error.message}")
            with self._interruptible(row.id):
                await self._ground.pause(delay)
            row = await self._ground.table.find(row.id)
        raise Bug("the last try returns or raises")

    async def _steps(self, row: Exploration) -> None:
        if not row.snap:
            row = await self._begin(row)
        agent = self._ground.agent(row.choice)
        while row.position < len(row.prompts):
            with self._interruptible(row.id):
                await self._slots.acquire()
            try:
                row, failure = await self._turn(row, agent)
            finally:
                self._slots.release()
            if failure:
                raise failure
            # What cannot be removed now is swept away later.
            with suppress(OSError):
                await asyncio.to_thread(self._ground.traces.forget_private, row.job(row.position - 1))

    @contextmanager
    def _interruptible(self, id: str) -> Iterator[None]:
        """Where an exploration may be interrupted by its deletion: it may wait here for hours."""
        if id in self._deleting:
            raise NotFound(f"branch {id} is being deleted")
        self._waiting[id] = asyncio.current_task()  # type: ignore[assignment]
        try:
            yield
        finally:
            del self._waiting[id]

    async def _begin(self, row: Exploration) -> Exploration:
        """Make the branch, before it waits for an agent: it starts from what its parent held when it was asked for."""
        workspace = self._ground.workspace
        self._ground.boundary("before", f"{row.id}.0")
        if row.parent is None:
            change = await self._ground.repository.change(row.commit)
            async with self._making:
                await workspace.root(change, id=row.id)
        else:
            parent = await self._ground.table.record(row.parent)
            if not parent.snap:
                raise UsageError(f"its parent {parent.id} never began: {parent.status_text}", hint="fork another one")
            await self._fork(parent, row.id)
        self._ground.boundary("made", f"{row.id}.0")
        return await self._ground.table.note(row, snap=new_id(), status_text="waits for an agent")

    async def _fork(self, parent: Exploration, id: str) -> None:
        """What the parent last sealed; where branches are copies nothing keeps that, so its prompt has to end first."""
        while True:
            seen = await self._ground.table.changed(since=-1)
            status = (await self._ground.table.record(parent.id)).status
            await require_files(self._ground.workspace, parent)
            # Looked up, for who deletes it wakes us before anybody else hears of it.
            await self._ground.table.find(id)
            try:
                async with self._making, self._quietly(parent.id):
                    await self._ground.workspace.fork(branch_of(parent), id=id)
                return
            except BranchBusy:
                if status != "running":
                    raise
            await self._ground.table.changed(since=seen)

    def _quietly(self, id: str) -> asyncio.Lock:
        """While a child is being copied from a branch, nothing is started in it."""
        return self._quiet.setdefault(id, asyncio.Lock())

    async def _turn(self, row: Exploration, agent: Agent) -> tuple[Exploration, ResolventError | None]:
        """One prompt, answered and sealed; also what the agent failed with, if it did."""
        ground, job, number = self._ground, row.job(row.position), row.position + 1
        if row.status != "manifesting":
            text = f"prompt {number} of {len(row.prompts)}"
            row = await ground.table.note(row, status="running", status_text=text)
        ground.boundary("announced", job)
        task = self._task(row, job)
        exit = await self._run_or_again(row, task, agent)
        failure = await asyncio.to_thread(_failure, agent, task, exit, ground.jobs.output(job))
        last = number == len(row.prompts)
        if last and not failure and row.status != "manifesting":
            row = await ground.table.note(row, status="manifesting", status_text="is being sealed", snap=new_id())
        ground.boundary("ended", job)
        await ground.workspace.snapshot(branch_of(row))
        ground.boundary("sealed", job)
        if failure:
            return await ground.table.note(row, snap=new_id()), failure
        done = {"status": "succeed", "status_text": f"answered {number} prompts" if number > 1 else "answered"}
        row = await ground.table.keep(row, position=number, **(done if last else {"snap": new_id()}))
        ground.boundary("kept", job)
        return row, None

    def _task(self, row: Exploration, job: str) -> Task:
        private = self._ground.private_directory(job)
        return Task(
            run=row.id,
            step="explore",
            attempt=1,
            turn=row.position + 1,
            prompt=row.prompts[row.position],
            # Any answer will do, and none.
            json_schema="",
            directory=private,
            inside=self._ground.workspace.inside(private),
            boxed=self._ground.workspace.boxed,
        )

    async def _run_or_again(self, row: Exploration, task: Task, agent: Agent) -> JobExit:
        """Who forks the branch just when an agent is about to begin there seals it: the agent is let in once more."""
        for _ in range(LATE_TRIES):
            with suppress(BranchBusy):
                return await self._run(row, task, agent)
        return await self._run(row, task, agent)

    async def _run(self, row: Exploration, task: Task, agent: Agent) -> JobExit:
        ground, id = self._ground, row.job(row.position)
        if ground.traces.begun(id):
            # Whatever became of its program or of the walls since then: it was let in, and only its end is awaited.
            return await self._attended(row.id, Job(id=id, argv=()))
        job = agent.job(task, id=id).model_copy(update={"frozen_at": ground.clock.frozen_at})
        async with self._quietly(row.id):
            job = await ground.workspace.enter(branch_of(row), job, private=task.directory, unsafe=ground.unsafe)
        ground.boundary("entered", id)
        return await self._attended(row.id, job)

    async def _attended(self, id: str, job: Job) -> JobExit:
        # Nothing is awaited between this look and the start: who deletes it finds either no job or one to cancel.
        if id in self._deleting:
            raise NotFound(f"branch {id} is being deleted")
        self._running[id] = job.id
        try:
            return await self._ground.jobs.ensure(job)
        finally:
            del self._running[id]

    async def _fail(self, row: Exploration, error: BaseException) -> None:
        message = error.message if isinstance(error, ResolventError) else f"a bug of resolvent: {error!r}"
        hint = f"\nnext: {error.hint}" if isinstance(error, ResolventError) and error.hint else ""
        first = (message.strip().splitlines() or [type(error).__name__])[0][:SHOWN_ERROR]
        await self._ground.table.keep(row, status="failed", status_text=first, error=message + hint)

    async def _delete(self, id: str) -> None:
        """Remove it with all it has; whatever goes wrong on the way is told to who asked, and ends nobody else."""
        row = await self._ground.table.record(id)
        error = await error_of(self._removed(row))
        if error is not None:
            known = error if isinstance(error, ResolventError) else Bug(f"a bug of resolvent: {error!r}")
            await self._ground.table.set_undeletable(row, error=known)

    async def _removed(self, row: Exploration) -> None:
        """End what runs in it, then remove it; work that nobody published is kept under a ref first."""
        ground, jobs = self._ground, [row.job(position) for position in range(len(row.prompts))]
        with translated():
            if waiting := self._waiting.get(row.id):
                waiting.cancel()
            if running := self._running.get(row.id):
                await ground.jobs.cancel(running)
            if going := self._going.get(row.id):
                await asyncio.wait((going,))
            for job in jobs:
                await ground.jobs.cancel(job)
            rescue = await ground.workspace.delete(row.id)
            ground.boundary("removed", f"{row.id}.0")
            # Who died right here, or another who removed the branch, has left the ref.
            rescue = rescue or await rescued(ground.repository, row.id)
        await ground.table.set_deleted(row, rescue=rescue)
        ground.boundary("recorded", f"{row.id}.0")
        for job in jobs:
            # What cannot be removed now is swept away later.
            with suppress(OSError):
                await asyncio.to_thread(ground.traces.forget, job)


def _failure(agent: Agent, task: Task, exit: JobExit, output: Path) -> ResolventError | None:
    try:
        agent.reply(task, exit, output)
    except MalformedAnswer:
        return None
    except (StepFailed, AgentBusy) as error:
        return error
    return None
