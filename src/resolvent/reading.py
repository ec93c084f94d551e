"""What the record and the files of a run say beyond its outcome: output, patch, cost."""

from pathlib import Path
from typing import Any, NamedTuple

from resolvent.app import App
from resolvent.domain.job import Usage
from resolvent.domain.model import Value
from resolvent.domain.record import JobRow, RunRow, StepRow
from resolvent.errors import NotFound


class Log(NamedTuple):
    """A job with the files that hold what it printed; they may not be there yet."""

    job: JobRow
    files: tuple[Path, ...]


class StepCost(Value):
    """What the agents of one step say they spent, over all its turns and tries."""

    step: str
    agent: str
    jobs: int
    seconds: float
    usage: Usage


async def logs(app: App, row: RunRow, *, step: str = "") -> tuple[Log, ...]:
    """Every job of a run, oldest first; of one step when it is named; NotFound when the run has no such step."""
    jobs = await (await app.home.journal()).jobs(row.id)
    wanted = [job for job in jobs if not step or step in names_of(job)]
    if step and not wanted:
        known = ", ".join(dict.fromkeys(job.name for job in jobs)) or "none yet"
        raise NotFound(f"{row.id} has no output of a step {step!r}", hint=f"one of: {known}")
    return tuple(Log(job, files_of(app, job)) for job in wanted)


def names_of(job: JobRow) -> tuple[str, ...]:
    """All that a person may call it by: `review`, `ask:review`, `reproducer F1`, the step's id or the job's own."""
    key = job.step.rpartition("/")[2]
    return job.name, key.partition("@")[0], key, job.step, job.id


def files_of(app: App, job: JobRow) -> tuple[Path, ...]:
    """Where a job's standard output and, when it keeps them apart, its standard error are."""
    from resolvent.adapters.jobs.supervised import SupervisedJobs

    output = SupervisedJobs(app.home.state / "jobs").output(job.id)
    return output, output.with_name("errors")


async def diff(app: App, row: RunRow) -> str:
    """The patch from the base to the newest change of a run; empty when it made none."""
    journal, repository = await app.home.journal(), await app.home.git_repository()
    commit = (row.result or {}).get("change") or _newest(await journal.steps(row.id))
    given = row.inputs.pull_change
    if commit is None and given is None:
        return ""
    change = await repository.change(commit) if commit else given
    assert change is not None
    return await repository.diff(row.inputs.base, change)


def _newest(steps: tuple[StepRow, ...]) -> str | None:
    edits = [step.result for step in steps if step.verb == "edit" and step.state == "done" and step.result]
    left: list[dict[str, Any]] = [result["ok"]["change"] for result in edits if result["ok"].get("change")]
    return str(left[-1]["commit"]) if left else None


async def cost(app: App, row: RunRow) -> tuple[StepCost, ...]:
    """Per agent step, in the order they first started."""
    jobs = await (await app.home.journal()).jobs(row.id)
    steps = dict.fromkeys((job.step, job.name, job.agent) for job in jobs if job.agent)
    return tuple(_cost(name, agent, [job for job in jobs if job.step == step]) for step, name, agent in steps)


def _cost(step: str, agent: str, jobs: list[JobRow]) -> StepCost:
    from resolvent.engine.report import spent

    seconds = round(sum(job.seconds for job in jobs), 3)
    return StepCost(step=step, agent=agent, jobs=len(jobs), seconds=seconds, usage=spent(tuple(jobs)))
