"""Money: what a job may still spend, so that neither its run nor the day costs more than was said."""

from dataclasses import dataclass, field

from resolvent.domain.events import BudgetWarned
from resolvent.domain.job import Usage
from resolvent.domain.record import AgentChoice, Frozen
from resolvent.engine.judging import Stop
from resolvent.errors import BudgetSpent
from resolvent.ports import Clock, Journal

WARNED_AT = 0.8
GO_ON = "go on"
# The day is everybody's: nobody gives it more by an answer to one run.
RETRY = "retry"
RUN, DAY = "run", "day"
DAY_S = 86400.0


@dataclass
class AtWork:
    """A job at work: its run, what it has spent by now, and what all others had of each limit when it began."""

    run: str
    usd: float = 0.0
    found: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Budgets:
    """The limits that hold for all runs of a repository."""

    journal: Journal
    clock: Clock
    day_usd: float | None = None
    # By their jobs: what they spend is on record only when they are over.
    at_work: dict[str, AtWork] = field(default_factory=dict)

    async def left(self, run: str, frozen: Frozen, choice: AgentChoice, *, job: str) -> float | None:
        """What a job of a run may cost; None: as much as it likes. BudgetSpent when nothing was left before it."""
        rooms = [choice.budget_usd] if choice.budget_usd is not None else []
        scopes = await self._scopes(run, frozen)
        # Found again after a restart, it has spent something by now: that does not keep it from having been let in.
        own = sum(row.usage.usd for row in await self.journal.jobs(run) if row.id == job) if scopes else 0.0
        begun = self.at_work[job] = AtWork(run)
        for name, limit, all in scopes:
            spent = begun.found[name] = all - own + self._elsewhere(name, job)
            if spent >= limit:
                raise BudgetSpent(
                    f"the {name} has spent ${spent:.2f} of its ${limit:.2f}",
                    hint=f"resolvent decide {run} '{GO_ON}'  # the same amount again; or: resolvent cost"
                    if name == RUN
                    else f"resolvent decide {run} '{RETRY}'  # tomorrow, or with more as limits.cost_day_usd",
                    scope=name,
                )
            rooms.append(limit - spent)
        return min(rooms, default=None)

    async def overspent(self, frozen: Frozen, *, job: str) -> Stop | None:
        """Why a job at work must stop: with what others spent since it began, it is more than all of them may."""
        begun = self.at_work[job]
        for name, limit, recorded in await self._scopes(begun.run, frozen):
            others = recorded + self._elsewhere(name, job)
            # What is its own alone it was told when it began.
            if others > begun.found[name] and others + begun.usd > limit:
                text = f"the {name} has spent ${others + begun.usd:.2f} of its ${limit:.2f}"
                return Stop("budget", text, scope=name)
        return None

    def _elsewhere(self, scope: str, job: str) -> float:
        """What the other jobs at work have spent by now, of the same run or of the day."""
        run, others = self.at_work[job].run, [one for id, one in self.at_work.items() if id != job]
        return sum(one.usd for one in others if scope == DAY or one.run == run)

    async def warn(self, run: str, frozen: Frozen) -> None:
        """Tell, once for every limit, that most of it is spent."""
        for name, limit, spent in await self._scopes(run, frozen):
            if spent >= WARNED_AT * limit:
                told = BudgetWarned(scope=name, spent_usd=round(spent, 6), limit_usd=limit)
                await self.journal.tell(run, told, at=self.clock.now(), key=f"budget:{name}:{limit:g}")

    async def _scopes(self, run: str, frozen: Frozen) -> list[tuple[str, float, float]]:
        """Each limit by name, with what was spent of it."""
        scopes = []
        if frozen.budget_usd is not None:
            granted = [one for one in await self.journal.decisions(run) if one.answer == GO_ON]
            spent = sum((job.usage for job in await self.journal.jobs(run)), Usage())
            scopes.append((RUN, frozen.budget_usd * (1 + len(granted)), spent.usd))
        if self.day_usd is not None:
            today = self.clock.now() // DAY_S * DAY_S
            scopes.append((DAY, self.day_usd, (await self.journal.spent(since=today)).usd))
        return scopes
