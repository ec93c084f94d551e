"""What the record and the files of a run say beyond its outcome: output and patch."""

from pathlib import Path
from typing import Any, NamedTuple

from resolvent.app import App
from resolvent.domain.record import AgentChoice, JobRow, RunRow, StepRow
from resolvent.errors import NotFound, ResolventError
from resolvent.ports import Listener


class Log(NamedTuple):
    """A job with the files that hold what it printed; they may not be there yet."""

    job: JobRow
    files: tuple[Path, ...]


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


def choice_of(app: App, row: RunRow, agent: str) -> AgentChoice | None:
    """The agent of that name as the run has it, else as it is configured now; None when nobody knows it any more."""
    from resolvent.settings import agent_named

    for choice in (*row.inputs.agents.values(), *row.inputs.fallbacks.values()):
        if choice.name == agent:
            return choice
    try:
        return agent_named(app.home.settings, agent)
    except NotFound:
        return None


def listener(app: App, row: RunRow, job: JobRow, *, events: bool = False) -> Listener | None:
    """What turns a job's output into moments; None for a check, and for an agent that nobody knows any more.

    With `events`, none for one that prints plain words either.
    """
    from resolvent.adapters.agents.command import PlainListener

    choice = choice_of(app, row, job.agent) if job.agent else None
    if choice is None:
        return None
    try:
        # Whatever became of its program, its key or its variables since: what it printed can still be read.
        found = app.home.agent(choice.model_copy(update={"env": ()})).listener()
    except ResolventError:
        return None
    return None if events and isinstance(found, PlainListener) else found


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
