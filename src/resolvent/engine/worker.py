"""The worker: the one process that executes. It plays queued runs, takes up interrupted ones, and cancels."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from resolvent.domain.decision import Question
from resolvent.domain.events import RunEnded, RunResumed, RunStarted
from resolvent.domain.outcome import EXIT_CODES, CalledOff, Escalated, Failed, Outcome
from resolvent.domain.record import RunRow
from resolvent.engine.durable import Durable
from resolvent.engine.perform import perform
from resolvent.engine.report import outcome_document
from resolvent.engine.requests import Request
from resolvent.engine.run import Run
from resolvent.engine.world import World
from resolvent.errors import Bug, Cancelled, ResolventError, StoreBusy, Suspended, UnknownPlaybook, UsageError

Playbook = Callable[[Run], Awaitable[Outcome]]
WITH_JOBS = ("ask", "edit", "check")
LOOK_AGAIN_S = 0.2


@dataclass(frozen=True)
class Waiting:
    """A run that goes on when a person answered."""

    reason: str


class Worker:
    """Executes runs until it is told to stop. The caller holds the daemon lock."""

    def __init__(self, world: World, *, store_url: str, playbooks: Mapping[str, Playbook], runs: int = 4) -> None:
        self._world = world
        self._playbooks = playbooks
        self._durable = Durable(store_url, perform=self._perform, play=self._play)
        self._slots = asyncio.Semaphore(runs)
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._active: dict[str, tuple[Run, asyncio.Task[Outcome]]] = {}
        self._verbs: dict[str, tuple[asyncio.Future[None], str]] = {}
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def launch(self) -> None:
        """Open the store; whatever a dead process left running is taken up again by itself."""
        await self._durable.launch()

    async def work(self, *, until: Callable[[], Awaitable[bool]]) -> None:
        """Play what is queued and cancel what should be, until the condition holds; StoreBusy if the store broke."""
        seen = 0
        while not await until():
            await self._look_around()
            changed = asyncio.ensure_future(self._world.journal.changed(since=seen))
            await asyncio.wait((changed, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                changed.cancel()
                self._broken.result()
            seen = changed.result()

    async def drain(self, *, jobs: bool) -> None:
        """Start nothing new, and return when the effects under way are done; with jobs, when those have ended too."""
        self._world.draining.set()
        while waited := [done for done, verb in self._verbs.values() if jobs or verb not in WITH_JOBS]:
            await asyncio.wait(waited)

    async def close(self) -> None:
        """Let go. What still runs is taken up by the next worker."""
        settled = [task for id, task in self._playing.items() if id.partition("~")[0] not in self._active]
        await asyncio.gather(*settled)
        await self._durable.close()

    async def _look_around(self) -> None:
        for due in await self._world.journal.due():
            id = f"{due.id}~{due.plays}"
            if due.cancelling:
                await self._cancel(await self._world.journal.run(due.id))
            elif id not in self._playing:
                self._playing[id] = asyncio.create_task(self._start(id, due.id))

    async def _start(self, id: str, run: str) -> None:
        async with self._slots:
            await self._durable.play(id, run)

    async def _perform(self, request: dict[str, Any]) -> dict[str, Any]:
        id = Request.model_validate(request).id
        done = asyncio.get_running_loop().create_future()
        self._verbs[id] = (done, request["verb"])
        try:
            return await perform(self._world, request)
        except StoreBusy as error:
            return await self._break(error)
        finally:
            del self._verbs[id]
            done.set_result(None)

    async def _break(self, error: StoreBusy) -> dict[str, Any]:
        """The record cannot be kept, so nothing may be said to have happened: stop here, for ever, and be restarted."""
        if not self._broken.done():
            self._broken.set_exception(error)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing completes this future")

    async def _play(self, id: str) -> dict[str, Any]:
        """One play of a run: to its end, or to a question. Nothing is raised into the library."""
        try:
            row = await self._world.journal.run(id)
            if row.state == "ended":
                return {"state": "ended"}
            await self._begin(row)
            return await self._to_an_end(row)
        except StoreBusy as error:
            return await self._break(error)

    async def _begin(self, row: RunRow) -> None:
        journal, now = self._world.journal, self._world.clock.now()
        started = RunStarted(playbook=row.playbook, subject=row.subject, title=row.title, base=row.inputs.base.commit)
        await journal.tell(row.id, started, at=now, key="started")
        if row.plays > 1:
            await journal.tell(row.id, RunResumed(play=row.plays), at=now, key=f"play:{row.plays}")
        await journal.set_state(row.id, "running")

    async def _to_an_end(self, row: RunRow) -> dict[str, Any]:
        run = Run(row, world=self._world, durable=self._durable)
        task = asyncio.ensure_future(self._playbook(row)(run))
        self._active[row.id] = (run, task)
        try:
            ending = await self._ending(row, run, task)
        finally:
            # Before the record says so: whoever reads it there may close us, and waits only for what is not active.
            del self._active[row.id]
        if isinstance(ending, Waiting):
            return await self._wait(row, ending.reason)
        await self._end(row, ending)
        return {"state": "ended"}

    async def _ending(self, row: RunRow, run: Run, task: asyncio.Task[Outcome]) -> Outcome | Waiting:
        """How the playbook ended, or what it waits for."""
        try:
            return await task
        except Suspended as question:
            return Waiting(str(question))
        except (Cancelled, asyncio.CancelledError):
            if not run.cancelled:
                raise
            return CalledOff(reason="cancelled by a person")
        except StoreBusy:
            raise
        except UsageError as error:
            return Failed(reason=f"{type(error).__name__}: {error.message}")
        except Bug as error:
            return await self._parked(row, error)
        except ResolventError as error:
            branch = f" (branch {error.details['branch']})" if "branch" in error.details else ""
            return Escalated(reason=f"{type(error).__name__}{branch}: {error.message}")

    def _playbook(self, row: RunRow) -> Playbook:
        if row.playbook not in self._playbooks:
            raise UnknownPlaybook(f"no playbook is called {row.playbook}", hint="resolvent --help")
        return self._playbooks[row.playbook]

    async def _parked(self, row: RunRow, error: Bug) -> Waiting | Failed:
        """An invariant broke: nothing more happens until a person looked."""
        journal, text = self._world.journal, f"{type(error).__name__}: {error.message}"
        asked = [item for item in await journal.decisions(row.id) if item.question.key.startswith("bug:")]
        if any(item.answer == "stop" for item in asked):
            return Failed(reason=text)
        # What failed is on record under its attempt, and would only be read out again.
        for step in await journal.steps(row.id):
            if step.state == "failed":
                await journal.raise_attempt(row.id, step.key, beyond=step.attempt)
        question = Question(key=f"bug:{row.plays}", text=text, choices=("retry", "stop"))
        await journal.ask(row.id, question, at=self._world.clock.now())
        return Waiting(text)

    async def _wait(self, row: RunRow, reason: str) -> dict[str, Any]:
        journal = self._world.journal
        await journal.set_state(row.id, "waiting", reason=reason)
        # Answered while we were on our way to waiting: whoever answered saw a running run and left it to us.
        if all(decision.answer is not None for decision in await journal.decisions(row.id)):
            await journal.reopen(row.id, subjects=())
        return {"state": "waiting"}

    async def _end(self, row: RunRow, outcome: Outcome) -> None:
        journal = self._world.journal
        document = await outcome_document(journal, row, outcome)
        told = RunEnded(outcome=outcome.outcome, reason=outcome.reason)
        await journal.tell(row.id, told, at=self._world.clock.now(), key=f"ended:{row.plays}")
        # Whoever must look at a run that did not end well finds its branches as they were left.
        if EXIT_CODES[outcome.outcome] == 0:
            for branch in await journal.branches(row.id):
                await self._world.workspace.drop(branch.id)
        # Last, because a run that is recorded as ended is never taken up again.
        await journal.end_run(row.id, outcome=outcome.outcome, reason=outcome.reason, result=document)

    async def _cancel(self, row: RunRow) -> None:
        """Refuse new verbs, stop the playbook, end every job with its descendants, then say so."""
        active = self._active.get(row.id)
        if active:
            active[0].cancelled = True
        # A verb on its way may start a job just after we looked: look until no such verb is left.
        while True:
            await cancel_jobs(self._world, row.id)
            verbs = [
                done for id, (done, verb) in self._verbs.items() if id.startswith(f"{row.id}/") and verb in WITH_JOBS
            ]
            if not verbs:
                break
            await asyncio.wait(verbs, timeout=LOOK_AGAIN_S)
        if active:
            active[1].cancel()
        elif row.id not in self._active:
            await self._end(row, CalledOff(reason="cancelled by a person"))


async def cancel_jobs(world: World, run: str) -> None:
    """End every job of the run; return when no descendant is left."""
    running = [job.id for job in await world.journal.jobs(run) if world.jobs.running(job.id)]
    await asyncio.gather(*(world.jobs.cancel(job) for job in running))
