"""One play of a run: the playbook from its first line to its end, or to its next question."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from resolvent.domain.decision import Question
from resolvent.domain.events import RunEnded, RunResumed, RunStarted
from resolvent.domain.outcome import EXIT_CODES, Escalated, Failed, Outcome
from resolvent.domain.record import RunRow
from resolvent.engine.durable import Durable
from resolvent.engine.report import outcome_document
from resolvent.engine.run import Run
from resolvent.engine.stopping import called_off
from resolvent.engine.world import World
from resolvent.errors import Bug, Cancelled, ResolventError, StoreBusy, Suspended, UnknownPlaybook, UsageError

Playbook = Callable[[Run], Awaitable[Outcome]]


@dataclass(frozen=True)
class Waiting:
    """A run that goes on when a person answered."""

    reason: str


class Play:
    """Everything that happens between the moment a run is taken up and the moment it ends or waits."""

    def __init__(self, row: RunRow, *, world: World, durable: Durable) -> None:
        self._row = row
        self._world = world
        self._run = Run(row, world=world, durable=durable)
        self._task: asyncio.Task[Outcome] | None = None
        # From here on the record may say that the run ended or waits, though this play is not quite over.
        self.settling = False

    async def to_an_end(self, playbooks: Mapping[str, Playbook]) -> dict[str, Any]:
        """Play it; what came of it is on the record when this returns."""
        await self._begin()
        ending = await self._ending(playbooks)
        self.settling = True
        if isinstance(ending, Waiting):
            # Whoever answers from here on queues the run again; whoever did before left that to the worker's next look.
            await self._world.journal.set_state(self._row.id, "waiting", reason=ending.reason)
            return {"state": "waiting"}
        await end(self._world, self._row, ending)
        return {"state": "ended"}

    def call_off(self) -> None:
        """Begin no other verb."""
        self._run.cancelled = True

    def stop(self) -> None:
        """Leave whatever the playbook waits for."""
        if self._task:
            self._task.cancel()

    async def _begin(self) -> None:
        row, journal, now = self._row, self._world.journal, self._world.clock.now()
        self._world.slots.called_off.discard(row.id)
        started = RunStarted(playbook=row.playbook, subject=row.subject, title=row.title, base=row.inputs.base.commit)
        await journal.tell(row.id, started, at=now, key="started")
        if row.plays > 1:
            await journal.tell(row.id, RunResumed(play=row.plays), at=now, key=f"play:{row.plays}")
        await journal.set_state(row.id, "running")

    async def _ending(self, playbooks: Mapping[str, Playbook]) -> Outcome | Waiting:
        """How the playbook ended, or what it waits for."""
        try:
            self._task = asyncio.ensure_future(_found(playbooks, self._row)(self._run))
            return await self._task
        except Suspended as question:
            return Waiting(str(question))
        except (Cancelled, asyncio.CancelledError):
            if not self._run.cancelled:
                raise
            ending = await called_off(self._world, self._row.id)
            # This process is about to end; the next one takes the run up right here.
            return ending or await asyncio.get_running_loop().create_future()
        except StoreBusy:
            raise
        except UsageError as error:
            return Failed(reason=f"{type(error).__name__}: {error.message}")
        except Bug as error:
            return await parked(self._world, self._row, error)
        except ResolventError as error:
            branch = f" (branch {error.details['branch']})" if "branch" in error.details else ""
            return Escalated(reason=f"{type(error).__name__}{branch}: {error.message}")


def _found(playbooks: Mapping[str, Playbook], row: RunRow) -> Playbook:
    if row.playbook not in playbooks:
        raise UnknownPlaybook(f"no playbook is called {row.playbook}", hint="resolvent --help")
    return playbooks[row.playbook]


async def parked(world: World, row: RunRow, error: Bug) -> Waiting | Failed:
    """An invariant broke: nothing more happens until a person looked."""
    journal, text = world.journal, f"{type(error).__name__}: {error.message}"
    asked = [item for item in await journal.decisions(row.id) if item.question.key.startswith("bug:")]
    if any(item.answer == "stop" for item in asked):
        return Failed(reason=text)
    # What failed is on record under its attempt, and would only be read out again.
    for step in await journal.steps(row.id):
        if step.state == "failed":
            await journal.raise_attempt(row.id, step.key, beyond=step.attempt)
    question = Question(key=f"bug:{row.plays}", text=text, choices=("retry", "stop"))
    await journal.ask(row.id, question, at=world.clock.now())
    return Waiting(text)


async def end(world: World, row: RunRow, outcome: Outcome) -> None:
    """Record how a run ended; last of all, because a run that is recorded as ended is never taken up again."""
    journal = world.journal
    document = await outcome_document(journal, row, outcome)
    told = RunEnded(outcome=outcome.outcome, reason=outcome.reason)
    await journal.tell(row.id, told, at=world.clock.now(), key=f"ended:{row.plays}")
    # Whoever must look at a run that did not end well finds its branches as they were left.
    if EXIT_CODES[outcome.outcome] == 0:
        for branch in await journal.branches(row.id):
            await world.drop(branch.id)
    await journal.end_run(row.id, outcome=outcome.outcome, reason=outcome.reason, result=document)
