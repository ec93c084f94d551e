"""What agents spent: per job, step, agent, run and day, and how that stands against the limits."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from resolvent.app import App
from resolvent.domain.job import Usage
from resolvent.domain.model import Value
from resolvent.domain.prices import Price
from resolvent.domain.record import JobRow, RunRow
from resolvent.engine.budgets import DAY_S, GO_ON
from resolvent.engine.report import spent
from resolvent.errors import NotFound
from resolvent.reading import choice_of


class JobCost(Value):
    """One start of an agent; `priced` is false when it told its tokens and nobody knows what they cost."""

    job: str
    turn: int
    state: str
    seconds: float
    usage: Usage
    priced: bool = True


class StepCost(Value):
    """What one agent says it spent on one step, over all its turns and tries."""

    step: str
    agent: str
    jobs: int
    seconds: float
    usage: Usage
    priced: bool = True
    each: tuple[JobCost, ...] = ()


class AgentCost(Value):
    """What one agent spent."""

    agent: str
    jobs: int
    seconds: float
    usage: Usage
    priced: bool = True


class Limit(Value):
    """A limit and what was spent of it; `limit_usd` is None where nobody set one."""

    scope: str
    setting: str
    spent_usd: float
    limit_usd: float | None


class RunCost(Value):
    """What a run cost."""

    run: str
    steps: tuple[StepCost, ...]
    agents: tuple[AgentCost, ...]
    total: Usage
    limits: tuple[Limit, ...]
    # The agents whose price nobody knows, with the model that was asked for, empty for the program's own.
    unpriced: dict[str, str] = {}


class RunOfDay(Value):
    """A run's share of a day."""

    run: str
    subject: str
    title: str
    jobs: int
    usage: Usage


class DayCost(Value):
    """What one day cost, by the universal time in which days are counted."""

    day: date
    jobs: int
    usage: Usage
    runs: tuple[RunOfDay, ...]


class DaysCost(Value):
    """What some days cost, the newest first."""

    days: tuple[DayCost, ...]
    agents: tuple[AgentCost, ...]
    total: Usage
    limits: tuple[Limit, ...]
    unpriced: dict[str, str] = {}


async def of_run(app: App, row: RunRow) -> RunCost:
    """Per agent and step, in the order they first started."""
    jobs = [job for job in await (await app.home.journal()).jobs(row.id) if job.agent]
    costs = {job.id: _job(app, row, job) for job in jobs}
    return RunCost(
        run=row.id,
        steps=_steps(jobs, costs),
        agents=_agents(jobs, costs),
        total=spent(tuple(jobs)),
        limits=(await _run_limit(app, row, jobs), await _day_limit(app, today(app))),
        unpriced=_unpriced(app, {row.id: row}, jobs, costs),
    )


async def of_days(app: App, first: date, last: date) -> DaysCost:
    """From the first day to the last, both whole; days on which nothing was spent are left out."""
    journal = await app.home.journal()
    jobs = list(await journal.jobs_over(since=_begin(first), until=_begin(last) + DAY_S))
    rows = {}
    for run in dict.fromkeys(job.run for job in jobs):
        rows[run] = await journal.run(run)
    costs = {job.id: _job(app, rows[job.run], job) for job in jobs}
    days = [
        _day(day, [job for job in jobs if _date(job.at) == day], rows)
        for day in sorted({_date(job.at) for job in jobs}, reverse=True)
    ]
    return DaysCost(
        days=tuple(days),
        agents=_agents(jobs, costs),
        total=spent(tuple(jobs)),
        limits=(await _day_limit(app, last),) if last == today(app) or first == last else (),
        unpriced=_unpriced(app, rows, jobs, costs),
    )


def today(app: App) -> date:
    """The day that limits.cost_day_usd counts now."""
    return _date(app.home.clock.now())


def _begin(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _date(at: float) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at)).date()


def _job(app: App, row: RunRow, job: JobRow) -> JobCost:
    usage = job.usage
    choice = choice_of(app, row, job.agent)
    # Nothing is a price too, if a person said so.
    free = choice is not None and choice.price == Price(input=0, cached=0, output=0)
    known = usage.usd > 0 or free or not (usage.input_tokens or usage.output_tokens)
    return JobCost(job=job.id, turn=job.turn, state=job.state, seconds=job.seconds, usage=usage, priced=known)


def _steps(jobs: Sequence[JobRow], costs: dict[str, JobCost]) -> tuple[StepCost, ...]:
    found = []
    for step, name, agent in dict.fromkeys((job.step, job.name, job.agent) for job in jobs):
        own = [job for job in jobs if (job.step, job.agent) == (step, agent)]
        each = tuple(costs[job.id] for job in own)
        found.append(StepCost(step=name, agent=agent, each=each, **_sum(own, each)))
    return tuple(found)


def _agents(jobs: Sequence[JobRow], costs: dict[str, JobCost]) -> tuple[AgentCost, ...]:
    found = []
    for agent in dict.fromkeys(job.agent for job in jobs):
        own = [job for job in jobs if job.agent == agent]
        found.append(AgentCost(agent=agent, **_sum(own, [costs[job.id] for job in own])))
    return tuple(found)


def _sum(jobs: Sequence[JobRow], costs: Iterable[JobCost]) -> "dict[str, Usage | float | int]":
    return {
        "jobs": len(jobs),
        "seconds": round(sum(job.seconds for job in jobs), 3),
        "usage": spent(tuple(jobs)),
        "priced": all(cost.priced for cost in costs),
    }


def _day(day: date, jobs: Sequence[JobRow], rows: dict[str, RunRow]) -> DayCost:
    runs = []
    for run in dict.fromkeys(job.run for job in jobs):
        own = tuple(job for job in jobs if job.run == run)
        about = {"run": run, "subject": rows[run].subject, "title": rows[run].title}
        runs.append(RunOfDay(**about, jobs=len(own), usage=spent(own)))
    return DayCost(day=day, jobs=len(jobs), usage=spent(tuple(jobs)), runs=tuple(runs))


async def _run_limit(app: App, row: RunRow, jobs: Sequence[JobRow]) -> Limit:
    limit = row.inputs.budget_usd
    if limit is not None:
        # A person who said to go on gave the same amount again.
        decisions = await (await app.home.journal()).decisions(row.id)
        limit *= 1 + len([one for one in decisions if one.answer == GO_ON])
    return Limit(scope="run", setting="limits.cost_usd", spent_usd=spent(tuple(jobs)).usd, limit_usd=limit)


async def _day_limit(app: App, day: date) -> Limit:
    jobs = await (await app.home.journal()).jobs_over(since=_begin(day), until=_begin(day) + DAY_S)
    limit = app.home.settings.limits.cost_day_usd
    return Limit(scope=f"day {day}", setting="limits.cost_day_usd", spent_usd=spent(jobs).usd, limit_usd=limit)


def _unpriced(app: App, rows: dict[str, RunRow], jobs: Sequence[JobRow], costs: dict[str, JobCost]) -> dict[str, str]:
    found = {}
    for job in jobs:
        if not costs[job.id].priced:
            choice = choice_of(app, rows[job.run], job.agent)
            found[job.agent] = choice.model if choice else ""
    return found


def day_named(app: App, text: str) -> date:
    """`today`, `yesterday` or a date as in 2026-11-16; NotFound for anything else."""
    if text in ("today", "yesterday"):
        return today(app) - timedelta(days=text == "yesterday")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NotFound(f"{text!a} is no day", hint="resolvent cost --day 2026-11-16  # or: today") from None
